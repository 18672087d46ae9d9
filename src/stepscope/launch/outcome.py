"""What a tool has left of a process: its files, each checked, and what is said where one is missing."""

from __future__ import annotations

from pathlib import Path

from stepscope.launch.tool import Request, Tool


def outcome(
    tool: Tool, executable: str, request: Request, *, ended: str, lasted_s: float
) -> tuple[tuple[Path, ...], list[str]]:
    """The files that the tool has written of one process, and what is wrong with them, in words.

    Args:
        ended: how the tool ended, in words; empty where all was well.
        lasted_s: how long the command ran.
    """
    files: list[Path] = []
    wrong: list[str] = []
    for kind in tool.written:
        found = kind.found(request.stem)
        for path in found:
            if lacks := kind.lacks(path, executable):
                more = f"; {tool.name} {ended}" if ended else ""
                wrong.append(f"{path} is incomplete: {lacks}{more}")
            else:
                files.append(path)
        if not found and kind.required:
            name = kind.patterns[0].replace("{stem}", request.stem.name)
            wrong.append(f"{tool.name} wrote no {name}: {_cause(tool, request, ended, lasted_s)}")
    return tuple(files), wrong


def _cause(tool: Tool, request: Request, ended: str, lasted_s: float) -> str:
    """Why there is no file, as far as one knows."""
    if ended:
        return f"it {ended}; what it says stands above"
    if request.delay_s is not None and lasted_s < request.delay_s:
        return f"the command ended after {lasted_s:.0f} s, before --delay {request.delay_s:g}"
    if request.capture is not None:
        what, steps = "no stepscope.capture() was", request.steps
        if steps is not None:
            what = f"{steps} {'was' if steps.first == steps.last else 'were'} not"
        return f"{what} reached, or its signal ({request.capture}) did not reach the tool"
    return tool.nothing or "what it says stands above"
