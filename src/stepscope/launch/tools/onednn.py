"""oneDNN's verbose mode: one line for each primitive that ran, with shapes and time, beside the command's output."""

from __future__ import annotations

from pathlib import Path

from stepscope.launch.tool import Request, Tool, Written

_VARIABLES = ("ONEDNN_VERBOSE", "DNNL_VERBOSE", "MKLDNN_VERBOSE")
_LEVELS = ("1", "2")


def _environment(request: Request) -> dict[str, str]:
    level = "1" if request.wanted is None else request.wanted
    if level not in _LEVELS:
        raise ONEDNN.refusal(
            f"has no level {level}", "give --set 1, or --set 2 for the making of primitives too"
        )
    return dict.fromkeys(_VARIABLES, level)


def _lacks(lines: Path, _executable: str) -> str:
    return "" if lines.stat().st_size else "no primitive of oneDNN ran"


ONEDNN = Tool(
    name="onednn",
    about="oneDNN verbose: each primitive that ran on the CPU, with shapes and time",
    way="inside",
    environment=_environment,
    written=(Written(("{stem}.onednn.txt",), _lacks),),
    sets=_LEVELS,
    prefixes=(b"onednn_verbose,", b"dnnl_verbose,", b"mkldnn_verbose,"),
)
