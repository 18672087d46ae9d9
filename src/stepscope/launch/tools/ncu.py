"""Nsight Compute: hardware counters of single kernels, each repeated as often as the counters need.

NCCL's kernels are left out, because one that is repeated alone waits forever for the other ranks. Repeating takes
seconds, so the number of kernels is limited on each rank (`--filter-mode=per-gpu`: on each device). Nodes of CUDA
graphs count as kernels. None is skipped: ncu fixes the clocks and flushes the caches before each run of a kernel.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from stepscope.base.captured_steps import CAPTURE_RANGE
from stepscope.base.kernel_spelling import argument_names, function_of
from stepscope.launch.tool import Request, Tool, Written, refused
from stepscope.launch.tools.nvprof_metrics import ncu_names

_SHORT = {
    "-k": "--kernel-name",
    "-c": "--launch-count",
    "-s": "--launch-skip",
    "-o": "--export",
    "-f": "--force-overwrite",
}
MAX_KERNELS = 200
"""Kernels recorded by default."""
_MAX_WORDS = 5
"""Template arguments used: the longest, which say most. Each more is one more way for a regular expression to fail."""


def kernel_filter(names: Iterable[str]) -> str:
    """Makes a regular expression that finds kernels, named as in another recording, among demangled names.

    `base/kernel_spelling.py` has the parts of a name on which tools agree. ncu's own `function` names lack template
    arguments, and all kernels of cutlass are one `Kernel2`.

    >>> kernel_filter(["void f<4, at::Add<float> >(int)", "sgemm_nt"])
    '(^|[ :])(f<.*Add.*float|sgemm_nt(\\\\(|$))'
    """
    expressions = dict.fromkeys(map(_expression, names))
    return f"(^|[ :])({'|'.join(expressions)})"


def _expression(name: str) -> str:
    function, arguments = function_of(name)
    if not arguments:
        return re.escape(function) + r"(\(|$)"
    words = dict.fromkeys(argument_names(arguments))
    longest = sorted(words, key=len, reverse=True)[:_MAX_WORDS]
    return "".join([re.escape(function), "<", *(f".*{word}" for word in words if word in longest)])


def _arguments(request: Request) -> list[str]:
    ours = ["--target-processes=all", f"--launch-count={MAX_KERNELS}"]
    if request.kernels:
        ours += ["--kernel-name-base=demangled", f"--kernel-name=regex:{kernel_filter(request.kernels)}"]
    else:
        ours.append("--kernel-name=regex:^(?!nccl).*")
    if request.metrics:
        ours.append(f"--metrics={','.join(ncu_names(request.metrics))}")
    if request.set_name is not None:
        ours.append(f"--set={request.set_name}")
    if request.capture == "cuda-profiler":
        ours.append("--profile-from-start=off")
    elif request.capture == "nvtx":
        ours += ["--nvtx", f"--nvtx-include={CAPTURE_RANGE}"]
    return [*request.merged(ours, _SHORT), f"--export={request.literal_stem}"]


def _lacks(report: Path, ncu: str) -> str:
    """What ncu reports about a report from which it prints no kernel."""
    return refused([ncu, "--import", report, "--page", "raw", "--kernel-name", "none"])


NCU = Tool(
    name="ncu",
    about="Nsight Compute: hardware counters of single kernels",
    way="around",
    executables=("ncu",),
    arguments=_arguments,
    written=(Written(("{stem}.ncu-rep",), _lacks),),
    sets=("basic", "detailed", "full", "roofline"),
    captures=("cuda-profiler", "nvtx"),
    needs=frozenset({"gpu-counters", "temporary-space", "one-cupti", "ncu-lock"}),
    oldest=(2020, 1),
    takes_turns="ncu lets one at a time run a kernel again (nsight-compute-lock): the others wait in theirs",
    no_file_reason="no kernel ran that the filter lets through",
    query_metrics=("--query-metrics",),
    takes=frozenset({"kernels", "metrics"}),
    reads="ncu",
    question="metrics",
)
