"""How much communication ran under computation, and which kernels it slowed."""

from __future__ import annotations

from typing import Any

from stepscope.query.declare import DEVICE, RANK, SPAN, STEP, Column, by_form, question
from stepscope.query.rows import ArrowTable, answer_dicts, answer_rows, noted
from stepscope.query.scope import Scope

_OF_TIME = (
    RANK,
    SPAN,
    DEVICE,
    STEP,
    Column("communication_ns", "int", "communication kernels ran", sums=True),
    Column("hidden_ns", "int", "the part of it in which the device computed"),
    Column("exposed_ns", "int", "the part in which it did not"),
    Column("overlap_ratio", "float", "hidden as a part of communication"),
    Column("computation_ns", "int", "kernels that compute, and fills, ran"),
    Column("overlapped_ratio", "float", "hidden as a part of computation", shown=False),
)
_OF_KERNELS = (
    Column("name", "text", "name of the kernel", kernels=True),
    Column("operator", "text", "innermost operator that launched it"),
    Column("grid", "text", "blocks of the grid: x,y,z", shown=False),
    Column("block", "text", "threads of a block: x,y,z", shown=False),
    Column("input_dims", "text", "shapes of the operator's inputs, as a JSON list", shown=False),
    Column("overlapped", "int", "runs beside communication", "count"),
    Column("alone", "int", "runs without", "count"),
    Column("alone_mean_ns", "float", "mean duration of those without"),
    Column("overlapped_mean_ns", "float", "mean duration of those beside communication"),
    Column("slower_ratio", "float", "by how much a run beside it takes longer"),
    Column("slower_low_ratio", "float", "lower end of the 95 % interval of that"),
    Column("slower_high_ratio", "float", "upper end"),
    Column("slowdown_ns", "int", "by how much the runs beside it took longer together", sums=True),
)  # fmt: skip
_COLUMNS = (*_OF_TIME, *_OF_KERNELS)


@question(
    "overlap",
    "How much communication is hidden under computation, and which kernels does it slow?",
    _COLUMNS,
    group="ranks",
    rests_on=("devices", "device-work", "device-times", "kernel-names"),
    about="time",
    parameters=(
        by_form(
            "`device` for a row a device, `step` for a row a device and step, `kernel` for a row a kernel that "
            "ran both beside communication and without",
            "device",
            "step",
            "kernel",
        ),
    ),
    needs="device",
    fills="Record a job of several ranks with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA].",
)
def overlap(scope: Scope, by: str = "device") -> ArrowTable:
    """Communication is *hidden* while the device computes: hidden and exposed time add up
    to that of communication, and these are the communication, exposed communication and computation of
    `device-time`. `overlap_ratio` is what Holistic Trace Analysis calls communication-computation overlap;
    it only knows NCCL's names of kernels, and has no percentage per step. A device that did not
    communicate has none.

    **Which kernels it slows** (`--by kernel`). Communication takes multiprocessors and memory bandwidth
    from what runs beside it. The question compares runs of one kernel on one device that are alike in name,
    grid, block, shared memory, operator and shapes of its inputs: those beside which communication ran for
    at least nine tenths of their time, and those beside which none ran. A kernel is listed if a device
    has at least five runs of each; steps that are left out of means do not count. The interval is Welch's, of
    the difference of means; several devices have equal weight, and their errors are not assumed to be
    independent (see `diff`). If an interval contains 0, no difference is certain. The
    runs may differ by more than communication: kernels on other streams run beside both.
    """
    if by == "kernel":
        return _kernels(scope)
    from stepscope.analysis.device_share import share_device
    from stepscope.analysis.recording import every_step
    from stepscope.analysis.windows import device_windows

    rows: list[dict[str, Any]] = []
    with every_step(scope) as whole:
        for one in device_windows(scope, whole, each_step=by == "step"):
            share = share_device(one.work, one.start, one.end)
            times = (share.communication_ns, share.exposed_communication_ns, share.computation_ns)
            if by != "step":
                times = tuple(ns.sum(keepdims=True) for ns in times)
            for step, *ns in zip(one.numbers, *(column.tolist() for column in times), strict=False):
                communication, exposed, computation = ns
                hidden = communication - exposed
                rows.append(
                    one.place
                    | {
                        "step": step,
                        "communication_ns": communication,
                        "hidden_ns": hidden,
                        "exposed_ns": exposed,
                        "overlap_ratio": hidden / communication if communication else None,
                        "computation_ns": computation,
                        "overlapped_ratio": hidden / computation if computation else None,
                    }
                )
    names = [column.name for column in _OF_TIME if by == "step" or column.name != "step"]
    return answer_dicts(_COLUMNS, rows, names)


def _kernels(scope: Scope) -> ArrowTable:
    from stepscope.compare.slowed import FEWEST, slowed

    found = slowed(scope)
    rows = [
        [one.name, one.operator, one.grid, one.block, one.dims, one.overlapped, one.clear, one.clear_ns,
         one.overlapped_ns, one.ratio, one.low, one.high, one.slowdown_ns]
        for one in found.kernels
    ]  # fmt: skip
    answer = answer_rows(_COLUMNS, rows, [column.name for column in _OF_KERNELS])
    if not found.too_few:
        return answer
    return noted(
        answer,
        f"Not compared: {found.too_few} kernels that ran beside communication, but on no device {FEWEST} times both "
        "beside it and without.",
    )
