"""`overlap`: which types of work ran on the devices, alone and at once, and which kernels communication slows."""

from __future__ import annotations

from typing import Any

from stepscope.query.declare import DEVICE, RANK, SPAN, STEP, Column, by_form, question
from stepscope.query.rows import ArrowTable, answer_rows, noted
from stepscope.query.scope import Scope

_OF_TIME = (
    RANK,
    SPAN,
    DEVICE,
    STEP,
    Column("types", "text", "what ran at once, and nothing else: computation, communication, copy, or idle"),
    Column("time_ns", "int", "how long just these ran", sums=True),
    Column("span_ratio", "float", "fraction of the window"),
    Column("busy_ratio", "float", "fraction of the time in which anything ran"),
)
_OF_KERNELS = (
    Column("name", "text", "name of the kernel", kernels=True),
    Column("operator", "text", "innermost operator that launched it"),
    Column("grid", "text", "blocks of the grid: x,y,z", visible=False),
    Column("block", "text", "threads of a block: x,y,z", visible=False),
    Column("input_dims", "text", "shapes of the operator's inputs, as a JSON list", visible=False),
    Column("overlapped", "int", "runs while communication ran", "count"),
    Column("isolated", "int", "runs without communication", "count"),
    Column("isolated_mean_ns", "float", "mean duration without"),
    Column("overlapped_mean_ns", "float", "mean duration while communication ran"),
    Column("slower_ratio", "float", "by how much communication prolongs a run"),
    Column("slower_low_ratio", "float", "lower end of the 95 % interval of that"),
    Column("slower_high_ratio", "float", "upper end of it"),
    Column("slowdown_ns", "int", "total extra time of kernels that overlap communication", sums=True),
)  # fmt: skip
_FORMS = {"all": (), "device": ("rank", "span", "device"), "step": ("rank", "span", "device", "step")}
IDLE = "idle"


@question(
    "overlap",
    "How long did computation, communication and copies run alone, and at once?",
    (*_OF_TIME, *_OF_KERNELS),
    group="ranks",
    rests_on=("devices", "device-work", "device-times", "kernel-names"),
    about="time",
    parameters=(
        by_form("of what; `kernel`: a row a kernel that ran both with communication and without", *_FORMS, "kernel"),
    ),
    needs="device",
    fills="Record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA].",
)
def overlap(scope: Scope, by: str = "all") -> ArrowTable:
    """The window by the types of work that ran in each moment: one of computation, communication and copy alone,
    several of them at once, or none (idle). The rows of a device add up exactly to its time, which is the one that
    `device-time` examines, and rows with computation to its computation. Fills count as computation. `device-time` has
    the hidden and the exposed part of communication as columns.

    Holistic Trace Analysis has the same table (`get_gpu_kernel_breakdown`), on times rounded to microseconds and with
    the names of NVIDIA's kernels.

    **Which kernels communication slows** (`--by kernel`). Communication takes multiprocessors and memory bandwidth from
    what runs at the same time. The question compares runs of one kernel on one device with equal name, grid, block,
    shared memory, operator and shapes of its inputs: those during which communication ran for at least nine tenths of
    their time, and those during which none ran. A kernel is listed if a device has at least five runs of each; steps
    that are left out of means do not count. The interval is Welch's, of the difference of means; several devices have
    equal weight, and their errors are not assumed to be independent (see `diff`). If an interval contains 0, no
    difference is certain. The runs may differ by more than communication: kernels on other streams overlap both.
    """
    if by == "kernel":
        return _kernels(scope)
    from stepscope.analysis.device_share import types_together
    from stepscope.analysis.recording import every_step
    from stepscope.analysis.windows import device_windows

    sums: dict[tuple[Any, ...], dict[tuple[str, ...], int]] = {}
    with every_step(scope) as all_steps:
        for device in device_windows(scope, all_steps, each_step=by == "step"):
            for types, times in types_together(device).items():
                for step, ns in zip(device.numbers, times.tolist(), strict=True):
                    key = (*device.key, device.device, step)[: len(_FORMS[by])]
                    of_key = sums.setdefault(key, {})
                    of_key[types] = of_key.get(types, 0) + ns
    rows = []
    for key, of_key in sums.items():
        span = sum(of_key.values())
        busy = span - of_key[()]
        for types, ns in sorted(of_key.items(), key=lambda item: (not item[0], -item[1])):
            if ns or not types:
                ratio = ns / busy if types and busy else None
                rows.append([*key, " + ".join(types) or IDLE, ns, ns / span if span else None, ratio])
    return answer_rows(_OF_TIME, rows, [*_FORMS[by], "types", "time_ns", "span_ratio", "busy_ratio"])


def _kernels(scope: Scope) -> ArrowTable:
    from stepscope.compare.slowed import FEWEST, slowed

    result = slowed(scope)
    rows = [
        [kernel.name, kernel.operator, kernel.grid, kernel.block, kernel.dims, kernel.overlapped, kernel.clear, kernel.clear_ns,
         kernel.overlapped_ns, kernel.ratio, kernel.low, kernel.high, kernel.slowdown_ns]
        for kernel in result.kernels
    ]  # fmt: skip
    answer = answer_rows(overlap.columns, rows, [column.name for column in _OF_KERNELS])
    if not result.too_few:
        return answer
    return noted(
        answer,
        f"Not compared: {result.too_few} kernels that overlapped communication, but on no device {FEWEST} times both "
        "with it and without.",
    )
