"""`metrics`: hardware counters of each kernel under common names, and what limits the kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.formats.evidence import DEVICE_WORK
from stepscope.query.declare import Column, by_form, question
from stepscope.query.rows import ArrowTable, Row, answer_dicts, noted
from stepscope.query.scope import Scope

if TYPE_CHECKING:
    from stepscope.analysis.kernels.measured import Joined, MeasuredKernel

FILLS = (
    "Measure them: stepscope launch --tool ncu, or nvprof --metrics, and give that file together with the "
    "recording; or record CUPTI metrics with Kineto (experimental_config with profiler_metrics)."
)

_KERNEL = (
    Column("kernel", "text", "name of the kernel", kernels=True),
    Column("grid", "text", "blocks of the grid, x,y,z", visible=False),
    Column("block", "text", "threads of a block, x,y,z", visible=False),
    Column("operator", "text", "operator of the recording that spends most time in it", visible=False),
    Column("count", "int", "kernels of the recording that it was joined to; empty where that has none", "count"),
    Column("device_ns", "int", "summed duration of these; else of the measured launches, which ran alone with the tool's clocks", sums=True),
    Column("share_ratio", "float", "fraction of the time of all computing kernels"),
    Column("measured", "int", "launches that were measured", "count"),
)  # fmt: skip
_SOL = (
    Column("limiter", "text", "part of the device that is closest to its peak: compute, L1, L2 or DRAM"),
    Column("limiter_ratio", "float", "how close, as a fraction of its peak"),
    Column(
        "verdict", "text",
        "by Nsight Compute's rule: above 80 % of compute or memory well used, below 60 % of both latency "
        "(or a small grid), else what is used more, or balanced",
    ),
    Column("compute_ratio", "float", "speed of light of compute: of the peak of the busiest pipe"),
    Column("memory_ratio", "float", "speed of light of memory: of the peak of the busiest level"),
    Column("l1_ratio", "float", "of the peak of the L1 and texture cache", visible=False),
    Column("l2_ratio", "float", "of the peak of the L2 cache", visible=False),
    Column("dram_ratio", "float", "of the peak of device memory", visible=False),
    Column("occupancy_ratio", "float", "achieved occupancy"),
    Column("theoretical_ratio", "float", "occupancy that the launch allows", visible=False),
    Column("occupancy_limit", "text", "what limits that", visible=False),
    Column("ipc", "float", "instructions a cycle of an active multiprocessor"),
    Column("tensor_ratio", "float", "cycles in which the tensor pipe was busy"),
    Column("load_ratio", "float", "requested bytes of global loads over moved bytes", visible=False),
    Column("store_ratio", "float", "requested bytes of global stores over moved bytes", visible=False),
    Column("stall", "text", "what its warps wait for longest, of the stalls that were measured", visible=False),
    Column("joined_by", "text", "how its launches were matched to the recording's: order, place in the step, or name and shape", visible=False),
)  # fmt: skip
_KINDS = (
    Column("metric", "text", "what was measured, under one name for all tools"),
    Column("value", "float", "mean over the kernels of the recording, or over the measured launches"),
    Column("unit", "text", "unit of the value"),
    Column("meaning", "text", "what it means", visible=False),
    Column("measured_as", "text", "the tool's name for the metric; empty if derived from others"),
    Column("ncu", "text", "Nsight Compute's names for it", visible=False),
    Column("nvprof", "text", "nvprof's names for it", visible=False),
)  # fmt: skip


@question(
    "metrics",
    "What did hardware counters measure of each kernel, and what limits it?",
    (*_KERNEL, *_SOL, *_KINDS),
    group="limits",
    rests_on=(),
    about="recording",
    parameters=(
        by_form("what a row is: a kernel with what limits it, or one metric of a kernel", "kernel", "metric"),
    ),
    fills=FILLS,
)  # fmt: skip
def metrics(scope: Scope, by: str = "kernel") -> ArrowTable:
    """Counters of kernels that Nsight Compute, nvprof or CUPTI's range profiler measured, by name, grid and block,
    those with the most time first: a metric far from its peak matters as much as its kernel takes time. `counters`
    lists every counter under the tool's own name.

    **Joined.** A report given with a trace of the same program (`stepscope metrics trace.json report.ncu-rep`, or a
    folder with both) is joined to the trace's kernels by name, as far as tools agree in its spelling, grid and block,
    and among launches equal in these by their order, or by their place in the step if each step has as many as were
    measured; otherwise all have the mean. Times are then those of the trace. The note says how many were joined, and
    what was measured and did not run in the trace. A rank without kernels, such as that of a separate report, is joined
    to those of the lowest rank that has such kernels.

    **Speed of light** is Nsight Compute's name for percentages of the peak: the busiest pipe of compute, the busiest
    level of memory. `verdict` is its rule SOLBottleneck: from 80 % of either on a kernel uses the device well, and work
    must be removed or moved elsewhere; below 60 % of both it waits for latency, or its grid is less than a wave;
    between them the larger one limits it, or both if they are within 10 %. `limiter` is the part of the device with the
    largest percentage.

    With `--by metric` a row is one metric of a kernel, in the unit without prefix, with the name that its tool has for
    it and those of the others: throughputs and transactions of `dram`, `sysmem`, `l2`, `shared`, `gld` and `gst`, hit
    rates, occupancy, IPC, the tensor pipe, operations, bytes of L1, L2 and DRAM, stalls. Values that follow from others
    (operations, bytes of a level from its sectors, hit rates, `ipc` from that of a scheduler) are computed; a level (0
    to 10) or ratio of nvprof becomes a percentage.

    A profiler that counts runs a kernel several times, alone, with fixed clocks and, unless configured otherwise, empty
    caches: hit rates, throughputs and durations are those of that, not of the job.
    """
    from stepscope.analysis.kernels.measured import joined_kernels

    joined = joined_kernels(scope)
    columns = _SOL if by == "kernel" else _KINDS
    rows_of_form = _rows_of_kernels(joined) if by == "kernel" else _rows_of_kinds(joined)
    rows = answer_dicts((*_KERNEL, *columns), rows_of_form)
    return noted(rows, joined.describe(), rests_on=DEVICE_WORK if joined.ran else ())


def _head(kernel: MeasuredKernel, joined: Joined) -> Row:
    share = kernel.device_ns / joined.ran_ns if kernel.rule and kernel.device_ns and joined.ran_ns else None
    head = {name: getattr(kernel, name) for name in ("grid", "block", "operator", "device_ns")}
    count = kernel.count if joined.ran else None
    return head | {"kernel": kernel.name, "count": count, "share_ratio": share, "measured": kernel.launches}


def _rows_of_kernels(joined: Joined) -> list[Row]:
    from stepscope.analysis.kernels.counters import limiter, occupancy_limit, verdict

    rows = []
    for kernel in joined.kernels:
        values = kernel.values
        closest = limiter(values)
        ratios: Row = {name: values[kind] / 100 for name, kind in _RATIOS.items() if kind in values}
        if closest is not None:
            ratios |= {"limiter": closest[0], "limiter_ratio": closest[1] / 100}
        what = {"verdict": verdict(values), "occupancy_limit": occupancy_limit(values), "stall": _stall(values)}
        rows.append(_head(kernel, joined) | ratios | what | {"ipc": values.get("ipc"), "joined_by": kernel.rule})
    return rows


_RATIOS = {
    "compute_ratio": "compute_throughput",
    "memory_ratio": "memory_throughput",
    "l1_ratio": "l1_throughput",
    "l2_ratio": "l2_throughput",
    "dram_ratio": "dram_throughput",
    "occupancy_ratio": "achieved_occupancy",
    "theoretical_ratio": "theoretical_occupancy",
    "tensor_ratio": "tensor_active",
    "load_ratio": "gld_efficiency",
    "store_ratio": "gst_efficiency",
}


def _stall(values: dict[str, float]) -> str | None:
    from stepscope.formats.counters.kinds import STALLS

    stalls = {name: values[f"stall_{name}"] for name in STALLS if f"stall_{name}" in values}
    waited = {name: value for name, value in stalls.items() if name != "not_selected"}
    longest = max(waited, key=lambda name: waited[name], default=None)
    return None if longest is None else f"{STALLS[longest]} ({longest})"


def _rows_of_kinds(joined: Joined) -> list[Row]:
    from stepscope.analysis.kernels.counters import DERIVED
    from stepscope.formats.counters.kinds import KINDS

    rows = []
    for kernel in joined.kernels:
        named = {kind: name for measured in kernel.measured for kind, name in measured.named.items()}
        for kind in (*KINDS, *DERIVED):
            if kind in kernel.values:
                declared = KINDS.get(kind)
                unit, meaning = DERIVED[kind] if declared is None else (declared.unit, declared.meaning)
                rows.append(
                    _head(kernel, joined)
                    | {
                        "metric": kind,
                        "value": kernel.values[kind],
                        "unit": unit or None,
                        "meaning": meaning,
                        "measured_as": named.get(kind),
                        "ncu": ", ".join(declared.ncu) or None if declared else None,
                        "nvprof": ", ".join(declared.nvprof) or None if declared else None,
                    }
                )
    return rows
