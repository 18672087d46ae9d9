"""AMD's rocprofv3: HIP calls, kernels, copies, roctx ranges and RCCL.

From its source and changelog (rocprofiler-sdk 0.6 to 1.1). Since 1.0 it prints its version, and writes databases
(rocpd), which `rocpd convert` turns into every other format; writing those directly is deprecated.
"""

from __future__ import annotations

from stepscope.launch.tool import Request, Tool, Written

_SETS = {
    "runtime": ("--runtime-trace",),
    "hip": ("--hip-trace", "--kernel-trace", "--memory-copy-trace"),
    "kernel": ("--kernel-trace", "--memory-copy-trace"),
    "marker": ("--marker-trace", "--kernel-trace"),
    "rccl": ("--rccl-trace", "--kernel-trace"),
}
_SHORT = {
    "-f": "--output-format",
    "-o": "--output-file",
    "-d": "--output-directory",
    "-P": "--collection-period",
    "-r": "--runtime-trace",
}
_ENDLESS_S = 10_000_000  # longer than any job, because there is no value for "to the end"


def _arguments(request: Request) -> list[str]:
    is_old = not request.version or request.is_older(1, 0)
    if request.capture is not None and is_old:
        raise ROCPROFV3.refusal(
            "before 1.0 (ROCm 7.0) is not started and stopped by a script",
            "load a newer ROCm, or give --delay and --duration",
        )
    ours = [*_SETS[request.set_name or "runtime"], f"--output-format={'pftrace' if is_old else 'rocpd'}"]
    if request.capture is not None:
        ours.append("--selected-regions")
    if request.delay_s is not None or request.duration_s is not None:
        duration = _ENDLESS_S if request.duration_s is None else request.duration_s
        ours.append(f"--collection-period={request.delay_s or 0:g}:{duration:.15g}:1")
    # Processes that the command starts write their own files.
    place = [f"--output-directory={request.stem.parent}", f"--output-file={request.stem.name}.%pid%"]
    return [*request.merged(ours, _SHORT), *place, "--"]


ROCPROFV3 = Tool(
    name="rocprofv3",
    about="AMD's rocprofv3: HIP calls, kernels, copies, roctx ranges and RCCL",
    way="around",
    executables=("rocprofv3",),
    arguments=_arguments,
    written=(Written(("{stem}.*_results.db", "{stem}.*_results.pftrace")),),
    sets=tuple(_SETS),
    captures=("roctx",),
    delays=("--delay", "--duration"),
    oldest=(0, 6),
    query_metrics=("--list-avail",),
)
