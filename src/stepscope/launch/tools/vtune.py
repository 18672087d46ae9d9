"""Intel VTune: where the CPU's time goes, with call stacks of Python and native code, or hardware events.

On the compute node a result is only collected; resolving symbols takes minutes but no job (`stepscope launch
--finalize`). ldconfig, which Python's ctypes starts, is linked statically and cannot be traced.

From Intel's user guide (2025) and the examples of centres; up to 2020 the command was `amplxe-cl`.
"""

from __future__ import annotations

from pathlib import Path

from stepscope.launch.tool import Request, Tool, Written


def _arguments(request: Request) -> list[str]:
    our_options = [
        f"-collect={request.set_name or 'hotspots'}",
        "-finalization-mode=none",
        "-strategy=ldconfig:notrace:notrace",
    ]
    if request.capture is not None or request.delay_s is not None:
        our_options.append("-start-paused")
    if request.delay_s is not None:
        our_options.append(f"-resume-after={request.delay_s:g}")
    given = {_name(word) for word in request.options if word.startswith("-")}
    ours = [word for word in our_options if _name(word) not in given]
    return [*ours, *request.options, f"-result-dir={request.stem}.vtune", "--"]


def _name(word: str) -> str:
    """The name of an option, which may have one or two dashes, or be the short one of -collect."""
    name = word.lstrip("-").partition("=")[0]
    return "collect" if name == "c" else name


def _lacks(result: Path, _vtune: str) -> str:
    if not any(result.glob("*.vtune")):
        return "it has no .vtune file, by which vtune knows a result"
    raw = (path for data in result.glob("data.*") for path in data.iterdir())
    return "" if any(path.stat().st_size for path in raw) else "nothing was collected"


def _finalize(result: Path) -> list[str]:
    if not any(result.glob("data.*")) or (result / "sqlite-db").exists():
        return []
    return ["-finalize", f"-result-dir={result}", "-search-dir=/"]


VTUNE = Tool(
    name="vtune",
    about="Intel VTune: CPU hot spots with call stacks, microarchitecture, memory",
    way="around",
    executables=("vtune", "amplxe-cl"),
    arguments=_arguments,
    # Under MPI it appends the node's name or the rank.
    written=(Written(("{stem}.vtune*",), _lacks),),
    sets=("hotspots", "uarch-exploration", "memory-access", "memory-consumption"),
    captures=("itt",),
    # It is not documented that the command continues after its -duration.
    delays=("--delay",),
    needs=frozenset({"temporary-space", "ptrace-any"}),
    set_needs={"uarch-exploration": frozenset({"hardware-events"}), "memory-access": frozenset({"hardware-events"})},
    oldest=(2019,),
    finalize=_finalize,
)
