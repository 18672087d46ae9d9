"""oneDNN's verbose mode: one line for each primitive that ran, with shapes and time."""

from __future__ import annotations

from pathlib import Path

from stepscope.launch.tool import Request, Tool, Written

_VARIABLES = ("ONEDNN_VERBOSE", "DNNL_VERBOSE", "MKLDNN_VERBOSE")


def _environment(request: Request) -> dict[str, str]:
    return dict.fromkeys(_VARIABLES, request.set_name or "1")


def _lacks(lines: Path, _executable: str) -> str:
    return "" if lines.stat().st_size else "no primitive of oneDNN ran"


ONEDNN = Tool(
    name="onednn",
    about="oneDNN verbose: each primitive that ran on the CPU, with shapes and time",
    way="inside",
    environment=_environment,
    written=(Written(("{stem}.onednn.txt",), _lacks),),
    sets=("1", "2"),
    prefixes=(b"onednn_verbose,", b"dnnl_verbose,", b"mkldnn_verbose,"),
    reads="onednn",
    question="onednn",
)
