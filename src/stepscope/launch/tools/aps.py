"""Intel Application Performance Snapshot: a short summary of CPU, memory, MPI and OpenMP use.

From Intel's user guide (2025).
"""

from __future__ import annotations

from pathlib import Path

from stepscope.launch.tool import Request, Tool, Written


def _arguments(request: Request) -> list[str]:
    ours = []
    if request.set_name is not None:
        ours.append(f"--collection-mode={request.set_name}")
    if request.capture is not None:
        ours.append("--start-paused")
    return [*request.merged(ours, {"-c": "--collection-mode"}), f"--result-dir={request.stem}.aps"]


def _lacks(result: Path, _aps: str) -> str:
    return "" if any(result.iterdir()) else "it is empty"


APS = Tool(
    name="aps",
    about="Intel Application Performance Snapshot: CPU, memory, MPI and OpenMP in short",
    way="around",
    executables=("aps",),
    arguments=_arguments,
    written=(Written(("{stem}.aps",), _lacks),),
    sets=("all", "hwc", "mpi", "omp"),
    captures=("itt",),
)
