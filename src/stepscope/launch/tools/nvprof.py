"""nvprof, for CUDA up to 12 and devices before Ampere: kernels, copies and API calls as SQLite."""

from __future__ import annotations

from pathlib import Path

from stepscope.launch.tool import Request, Tool, Written

_SHORT = {"-o": "--export-profile", "-f": "--force-overwrite", "-m": "--metrics", "-e": "--events", "-t": "--timeout"}
_SQLITE = b"SQLite format 3\x00"


def _arguments(request: Request) -> list[str]:
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


def _lacks(database: Path, _nvprof: str) -> str:
    try:
        with database.open("rb") as file:
            return "" if file.read(len(_SQLITE)) == _SQLITE else "it is not a database"
    except OSError as error:
        return str(error)


NVPROF = Tool(
    name="nvprof",
    about="nvprof: kernels, copies and CUDA calls, on devices before Ampere",
    way="around",
    executables=("nvprof",),
    arguments=_arguments,
    written=(Written(("{stem}.*.nvprof",), _lacks),),
    captures=("cuda-profiler",),
    needs=frozenset({"one-cupti"}),
    oldest=(8, 0),
    query_metrics=("--query-metrics", "--query-events"),
    takes=frozenset({"metrics"}),
    no_file_reason="no process of the command called CUDA",
    reads="nvprof",
)
