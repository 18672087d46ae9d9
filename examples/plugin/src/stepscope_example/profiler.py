"""A profiler that `stepscope launch --tool klog` starts: `klog [--all] --output=FILE COMMAND` writes a kernel log."""

from __future__ import annotations

from pathlib import Path

from stepscope.plugin import Request, Tool, Written

from .klog import MAGIC


def arguments(request: Request) -> list[str]:
    return [*request.options, f"--output={request.stem}.klog"]


def lacks(file: Path, _klog: str) -> str:
    return "" if file.read_bytes().startswith(MAGIC) else "it has no first line"


TOOL = Tool(
    name="klog",
    about="kernel logs of the Example GPU",
    way="around",
    executables=("klog",),
    arguments=arguments,
    written=(Written(("{stem}.klog",), lacks),),
    reads="klog",
    question="waits",
)
