"""The retired profilers that `stepscope launch` can still start.

nvprof, for CUDA up to 12 and devices before Ampere, records kernels, copies and API calls as SQLite. Intel's Application
Performance Snapshot records a short summary of CPU, memory, MPI and OpenMP use (from Intel's user guide, 2025).
"""

from __future__ import annotations

from pathlib import Path

from stepscope.plugin import Request, Tool, Written

_SHORT = {"-o": "--export-profile", "-f": "--force-overwrite", "-m": "--metrics", "-e": "--events", "-t": "--timeout"}
_SQLITE = b"SQLite format 3\x00"


def _nvprof_arguments(request: Request) -> list[str]:
    if request.delay_s is not None or request.duration_s is not None:
        raise NVPROF.refusal("has no --delay and --duration", "name steps with --steps, or leave them out")
    ours = ["--profile-child-processes"]
    if request.capture is not None:
        ours.append("--profile-from-start=off")
    if request.metrics:
        ours.append(f"--metrics={','.join(request.metrics)}")
    # nvprof takes no "=" after its long options.
    words = [part for word in request.merged(ours, _SHORT) for part in _apart(word)]
    return [*words, "--export-profile", f"{request.literal_stem}.%p.nvprof"]


def _apart(word: str) -> list[str]:
    return word.split("=", 1) if word.startswith("--") else [word]


def _lacks_database(database: Path, _nvprof: str) -> str:
    with database.open("rb") as file:
        return "" if file.read(len(_SQLITE)) == _SQLITE else "it is not a database"


NVPROF = Tool(
    name="nvprof",
    about="nvprof: kernels, copies and CUDA calls, on devices before Ampere",
    way="around",
    executables=("nvprof",),
    arguments=_nvprof_arguments,
    written=(Written(("{stem}.*.nvprof",), _lacks_database),),
    captures=("cuda-profiler",),
    needs=frozenset({"one-cupti"}),
    oldest=(8, 0),
    query_metrics=("--query-metrics", "--query-events"),
    takes=frozenset({"metrics"}),
    no_file_reason="no process of the command called CUDA",
    reads="nvprof",
)


def _aps_arguments(request: Request) -> list[str]:
    ours = []
    if request.set_name is not None:
        ours.append(f"--collection-mode={request.set_name}")
    if request.capture is not None:
        ours.append("--start-paused")
    return [*request.merged(ours, {"-c": "--collection-mode"}), f"--result-dir={request.stem}.aps"]


def _lacks_result(result: Path, _aps: str) -> str:
    return "" if any(result.iterdir()) else "it is empty"


APS = Tool(
    name="aps",
    about="Intel Application Performance Snapshot: CPU, memory, MPI and OpenMP in short",
    way="around",
    executables=("aps",),
    arguments=_aps_arguments,
    written=(Written(("{stem}.aps",), _lacks_result),),
    sets=("all", "hwc", "mpi", "omp"),
    captures=("itt",),
)
