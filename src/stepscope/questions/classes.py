"""`classes`: the device's time by kinds of work, in total and by module."""

from __future__ import annotations

from stepscope.analysis.attribution import NO_MODULE
from stepscope.formats.evidence import LAUNCHED_WORK
from stepscope.query.declare import Column, by_form, question
from stepscope.query.rows import ArrowTable
from stepscope.query.scope import Scope

_COLUMNS = (
    Column("module", "text", "innermost module that the work belongs to"),
    Column("class", "text", "class of work"),
    Column("count", "int", "kernels, copies and fills", "count"),
    Column("device_ns", "int", "their summed duration"),
    Column("share_ratio", "float", "fraction of all device work"),
    Column("forward_ns", "int", "device time of the forward"),
    Column("backward_ns", "int", "device time of the backward"),
    Column("main_kernel", "text", "kernel with the most time in it", kernels=True),
)


@question(
    "classes",
    "Which kinds of work take the device's time?",
    _COLUMNS,
    group="operators and kernels",
    rests_on=LAUNCHED_WORK,
    about="events",
    parameters=(by_form("what a row is: a class of work, or a module's work of a class", "class", "module"),),
    needs="device",
    fills="Record with torch.profiler.ProfilerActivity.CUDA (or XPU, ...) on a machine with a device.",
)
def classes(scope: Scope, by: str = "class") -> ArrowTable:
    """Every kernel, copy and fill belongs to one class, so that classes add up to all device work: GEMM, convolution,
    attention, normalisation, softmax (including its logarithm, forward and backward; that of a fused attention is
    attention), element-wise, reduction (also losses, pooling and scans), communication, copy (also fills, changes of
    layout, gathering and scattering, embedding look-ups), optimizer, other.

    The operator that launched it decides if it has a formula: a change of layout that a convolution launches is
    convolution, and so is a cuBLAS kernel that it launches. Without an operator, as in the replay of a CUDA graph, the
    kernel's name decides. Communication kernels, copies and fills are always in their class. Work launched in an
    optimizer's step is the optimizer's, except products of matrices and communication.

    Times are sums of durations over all requested ranks, as in `kernels`.
    """
    import numpy as np
    import pyarrow as pa

    from stepscope.analysis.operators.calls import distinct_rows
    from stepscope.analysis.operators.charging import DIRECTIONS
    from stepscope.analysis.operators.work import classes_of, device_work_of
    from stepscope.costs import CLASSES

    work = device_work_of(scope)
    rows, place = work.rows, classes_of(work)
    module = rows["module"] if by == "module" else np.full(len(place), -1, np.int64)
    keys, group = distinct_rows(module, place)

    def summed(column: str, direction: str = "") -> list[int]:
        chosen = rows["direction"] == DIRECTIONS.index(direction) if direction else True
        weights = np.where(chosen, rows[column], 0)
        return [round(x) for x in np.bincount(group, weights=weights, minlength=len(keys)).tolist()]

    pairs, which = distinct_rows(group, rows["kernel"])
    times = np.bincount(which, weights=rows["device_ns"], minlength=len(pairs)).tolist()
    longest: dict[int, tuple[float, str]] = {}
    for (key, kernel), time in zip(pairs, times, strict=True):
        candidate = (time, work.kernels[kernel])
        longest[key] = max(longest.get(key, candidate), candidate)
    total_ns = work.device_ns
    device_ns = summed("device_ns")
    columns = {
        "module": [work.modules[module] if module >= 0 else NO_MODULE for module, _ in keys],
        "class": [CLASSES[class_index] for _, class_index in keys],
        "count": summed("events"),
        "device_ns": device_ns,
        "share_ratio": [ns / total_ns if total_ns else None for ns in device_ns],
        "forward_ns": summed("device_ns", "forward"),
        "backward_ns": summed("device_ns", "backward"),
        "main_kernel": [longest[key][1] for key in range(len(keys))],
    }
    answer = pa.table(columns).sort_by([("device_ns", "descending"), ("module", "ascending"), ("class", "ascending")])
    return answer if by == "module" else answer.drop_columns("module")
