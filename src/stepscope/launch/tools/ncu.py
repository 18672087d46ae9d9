"""Nsight Compute: hardware counters of single kernels, each repeated as often as the counters need.

NCCL's kernels are left out, because one that is repeated alone waits forever for the other ranks. Repeating kernels
takes seconds each, so their number is limited on each rank: ncu counts the launches of all processes under it together
(`--filter-mode=per-gpu`: on each device). Nodes of CUDA graphs count as kernels, by default (`--graph-profiling=node`).
None is skipped at the start: ncu fixes the clocks and flushes the caches before each run of a kernel, so that the first
launch measures like the hundredth.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from stepscope.base.captured_steps import CAPTURE_RANGE
from stepscope.base.kernel_spelling import argument_names, function_of
from stepscope.launch.tool import Request, Tool, Written
from stepscope.launch.tools.nvprof_metrics import ncu_names
from stepscope.launch.tools.own_reader import refused

_SHORT = {
    "-k": "--kernel-name",
    "-c": "--launch-count",
    "-s": "--launch-skip",
    "-o": "--export",
    "-f": "--force-overwrite",
}
MOST_KERNELS = 200
"""Kernels recorded by default."""
_MOST_WORDS = 5
"""Template arguments used: the longest, which say most. Each more is one more way for a regular expression to fail."""


def kernel_filter(names: Iterable[str]) -> str:
    """Makes a regular expression that finds kernels, named as in another recording, among demangled names.

    `base/kernel_spelling.py` has the parts of a name on which tools agree. ncu's own `function` names lack template
    arguments, and all kernels of cutlass are one `Kernel2`.

    >>> kernel_filter(["void f<4, at::Add<float> >(int)", "sgemm_nt"])
    '(^|[ :])(f<.*Add.*float|sgemm_nt(\\\\(|$))'
    """
    found = dict.fromkeys(map(_expression, names))
    return f"(^|[ :])({'|'.join(found)})"


def _expression(name: str) -> str:
    own, arguments = function_of(name)
    if not arguments:
        return re.escape(own) + r"(\(|$)"
    words = dict.fromkeys(argument_names(arguments))
    longest = sorted(words, key=len, reverse=True)[:_MOST_WORDS]
    return "".join([re.escape(own), "<", *(f".*{word}" for word in words if word in longest)])


def _arguments(request: Request) -> list[str]:
    own = ["--target-processes=all", f"--launch-count={MOST_KERNELS}"]
    if request.kernels:
        own += ["--kernel-name-base=demangled", f"--kernel-name=regex:{kernel_filter(request.kernels)}"]
    else:
        own.append("--kernel-name=regex:^(?!nccl).*")
    if request.metrics:
        own.append(f"--metrics={','.join(ncu_names(request.metrics))}")
    if request.wanted is not None:
        own.append(f"--set={request.wanted}")
    if request.capture == "cuda-profiler":
        own.append("--profile-from-start=off")
    elif request.capture == "nvtx":
        own += ["--nvtx", f"--nvtx-include={CAPTURE_RANGE}"]
    return [*request.merged(own, _SHORT), f"--export={request.literal_stem}"]


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
    nothing="no kernel ran that the filter lets through",
    query_metrics=("--query-metrics",),
    takes=frozenset({"kernels", "metrics"}),
    reads="ncu",
    question="metrics",
)
