"""Each device's time divided into computation, communication, copies and idle time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stepscope.query.declare import DEVICE, RANK, SPAN, STEP, Column, by_form, question
from stepscope.query.rows import ArrowTable, answer_dicts
from stepscope.query.scope import Scope

_COLUMNS = (
    RANK,
    SPAN,
    DEVICE,
    STEP,
    Column("span_ns", "int", "the window: from the first start to the last end, or the steps"),
    Column("computation_ns", "int", "kernels that compute, and fills, ran"),
    Column("communication_ns", "int", "communication kernels ran, hidden or not"),
    Column("exposed_communication_ns", "int", "communication kernels ran and no computation did"),
    Column("hidden_communication_ns", "int", "communication kernels ran and computation did too", visible=False),
    Column("overlap_ratio", "float", "hidden communication as a fraction of communication"),
    Column("overlapped_ratio", "float", "hidden communication as a fraction of computation", visible=False),
    Column("copy_ns", "int", "copies ran, hidden or not", visible=False),
    Column("exposed_copy_ns", "int", "copies ran and nothing else did"),
    Column("busy_ns", "int", "any of them ran", sums=True),
    Column("idle_ns", "int", "nothing ran", sums=True),
    Column("events", "int", "kernels, copies and fills", "count"),
    Column("unlinked_ns", "int", "summed duration of work whose launch is not known", visible=False),
    Column("unlinked_ratio", "float", "fraction of the summed duration of all work"),
)


@question(
    "device-time",
    "How much of each device's time was computation, communication, copies or idle?",
    _COLUMNS,
    group="steps",
    rests_on=("devices", "device-work", "device-times", "kernel-names"),
    about="time",
    parameters=(by_form("`device` for a row a device, `step` for a row a device and step", "device", "step"),),
    needs="device",
    fills="Record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA].",
)
def device_time(scope: Scope, by: str = "device") -> ArrowTable:
    """A device's time, divided so that it adds up exactly: span = computation + exposed communication + exposed copy +
    idle.

    Each part is a union: kernels that run side by side on several streams count once. Computation is kernels that do
    not communicate, and fills. Communication is *exposed* while no computation covers it, and else *hidden*; a copy is
    exposed while neither computation nor communication covers it. Busy is the union of all. `overlap_ratio` is what
    Holistic Trace Analysis calls communication-computation overlap; it only knows NCCL's names of kernels, and has no
    percentage per step. A device that did not communicate has none.

    All work that the device recorded counts, whether or not its launch is known; the share of the summed duration
    without a known launch is given, too. Each device of a process, each rank and each recording of a rank has its own
    row.

    Without steps the span runs from the device's first start to its last end. With `--step`, and with `by="step"`, it
    is the steps (as the question `steps` bounds them), and work is cut at their edges; several chosen steps are summed.
    With `--window` it is that stretch of the recording.

    These are the definitions of TraceLens' GPU timeline, on integers, so that the parts do not differ from the span by
    rounding. Holistic Trace Analysis's temporal breakdown rounds times to microseconds first and combines everything
    that does not compute.
    """
    from stepscope.analysis.device_share import device_totals, share_device
    from stepscope.analysis.recording import every_step
    from stepscope.analysis.windows import device_windows

    entire = scope.steps is None and scope.part.window is None

    def rows(all_steps: Scope) -> Iterator[dict[str, Any]]:
        for device in device_windows(scope, all_steps, each_step=by == "step"):
            windows = device.start, device.end
            if by == "device":
                yield device.place | _figures(device_totals(device.work, None if entire else windows))
                continue
            share = share_device(device.work, *windows)
            for row, step in enumerate(device.numbers):
                figures = {name: int(getattr(share, name)[row]) for name in share.__slots__}
                yield device.place | {"step": step} | _figures(figures)

    with every_step(scope) as all_steps:
        names = [c.name for c in _COLUMNS if by == "step" or c.name != "step"]
        return answer_dicts(_COLUMNS, rows(all_steps), names)


def _figures(share: dict[str, int]) -> dict[str, Any]:
    communication, computation, work = share["communication_ns"], share["computation_ns"], share["work_ns"]
    hidden = communication - share["exposed_communication_ns"]
    return share | {
        "hidden_communication_ns": hidden,
        "overlap_ratio": hidden / communication if communication else None,
        "overlapped_ratio": hidden / computation if computation else None,
        "busy_ns": share["span_ns"] - share["idle_ns"],
        "unlinked_ratio": share["unlinked_ns"] / work if work else None,
    }
