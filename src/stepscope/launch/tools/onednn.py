"""oneDNN's verbose mode: one line for each primitive that ran, with shapes and time."""

from __future__ import annotations

from stepscope.launch.tool import Tool, Written

_VARIABLES = ("ONEDNN_VERBOSE", "DNNL_VERBOSE", "MKLDNN_VERBOSE")


ONEDNN = Tool(
    name="onednn",
    about="oneDNN verbose: each primitive that ran on the CPU, with shapes and time",
    way="inside",
    environment=lambda request: dict.fromkeys(_VARIABLES, request.set_name or "1"),
    written=(
        Written(("{stem}.onednn.txt",), lambda lines, _: "" if lines.stat().st_size else "no primitive of oneDNN ran"),
    ),
    sets=("1", "2"),
    prefixes=(b"onednn_verbose,", b"dnnl_verbose,", b"mkldnn_verbose,"),
    reads="onednn",
    question="onednn",
)
