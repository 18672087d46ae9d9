"""Which types of work ran on the devices, alone and at once."""

from __future__ import annotations

from typing import Any

from stepscope.query.declare import DEVICE, RANK, SPAN, STEP, Column, by_form, question
from stepscope.query.rows import ArrowTable, answer_rows
from stepscope.query.scope import Scope

_COLUMNS = (
    RANK,
    SPAN,
    DEVICE,
    STEP,
    Column("types", "text", "what ran at once, and nothing else: computation, communication, copy, or idle"),
    Column("time_ns", "int", "how long just these ran", sums=True),
    Column("span_ratio", "float", "the part of the time looked at that this is"),
    Column("busy_ratio", "float", "the part of the time in which anything ran that this is"),
)  # fmt: skip
_FORMS = {"all": (), "device": ("rank", "span", "device"), "step": ("rank", "span", "device", "step")}
IDLE = "idle"


@question(
    "kernel-types",
    "How long did computation, communication and copies run alone, and how long at once?",
    _COLUMNS,
    group="ranks",
    rests_on=("devices", "device-work", "device-times", "kernel-names"),
    about="time",
    parameters=(
        by_form("`all` for all devices together, `device` for each, `step` for each device and step", *_FORMS),
    ),
    needs="device",
    fills="Record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA].",
)
def kernel_types(scope: Scope, by: str = "all") -> ArrowTable:
    """The examined time by the types of work that ran in each moment: one of computation,
    communication and copy alone, several of them at once, or none (idle). The rows of a device add up exactly to its
    time, which is the one that `device-time` examines, and rows with computation to its
    computation. Fills count as computation.

    Holistic Trace Analysis has the same table (`get_gpu_kernel_breakdown`), on times rounded to
    microseconds and with the names of NVIDIA's kernels.
    """
    from stepscope.analysis.device_share import types_together
    from stepscope.analysis.recording import every_step
    from stepscope.analysis.windows import device_windows

    sums: dict[tuple[Any, ...], dict[tuple[str, ...], int]] = {}
    with every_step(scope) as whole:
        for one in device_windows(scope, whole, each_step=by == "step"):
            for types, times in types_together(one).items():
                for step, ns in zip(one.numbers, times.tolist(), strict=True):
                    key = (*one.key, one.device, step)[: len(_FORMS[by])]
                    own = sums.setdefault(key, {})
                    own[types] = own.get(types, 0) + ns
    rows = []
    for key, own in sums.items():
        span = sum(own.values())
        busy = span - own[()]
        for types, ns in sorted(own.items(), key=lambda item: (not item[0], -item[1])):
            if ns or not types:
                ratio = ns / busy if types and busy else None
                rows.append([*key, " + ".join(types) or IDLE, ns, ns / span if span else None, ratio])
    names = [*_FORMS[by], "types", "time_ns", "span_ratio", "busy_ratio"]
    return answer_rows(_COLUMNS, rows, names)
