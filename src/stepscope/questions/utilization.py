"""How much of the time kernels ran, and how much of the device they filled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stepscope.query.declare import DEVICE, RANK, SPAN, STEP, Column, by_form, question
from stepscope.query.rows import ArrowTable, answer_rows, noted
from stepscope.query.scope import Scope

_COLUMNS = (
    RANK,
    SPAN,
    DEVICE,
    STEP,
    Column("start_ns", "int", "start of the window, since the run's start", moment=True),
    Column("window_ns", "int", "length of the window"),
    Column("kernel_ns", "int", "at least one kernel was running"),
    Column("utilization_ratio", "float", "fraction of the window (GPU utilisation)"),
    Column("sm_efficiency_ratio", "float", "estimated mean fraction of multiprocessors with a block"),
    Column("occupancy_ratio", "float", "estimated mean achieved occupancy of the kernels"),
    Column("described_ratio", "float", "fraction of kernel time with recorded blocks per SM", visible=False),
)


@question(
    "utilization",
    "How much of the time did kernels run, and how much of the device did they fill?",
    _COLUMNS,
    group="limits",
    rests_on=("devices", "device-work", "device-times", "steps"),
    about="time",
    parameters=(by_form("a row a device, a step, or one of at most 100 pieces of time", "device", "step", "time"),),
    needs="device",
    fills="Record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA].",
)
def utilization(scope: Scope, by: str = "device") -> ArrowTable:
    """GPU utilisation, and two estimates of how full the device was.

    * **GPU utilisation** is the share of the window in which at least one kernel ran: the union of all kernels,
      including communication kernels, over the window's length. Copies and fills do not count. A kernel of one block
      uses the device as much as any other here.
    * **Estimated SM efficiency** counts blocks: if the kernels that run at a moment together have as many blocks as
      there are multiprocessors, or more, the moment counts 1, otherwise that ratio; it is averaged over the entire
      window, idle time included.
    * **Estimated achieved occupancy** is the mean of the kernels' occupancy, weighted by the time that each runs in the
      window. Idle time is excluded.

    The window is all steps that count in means, as the question `steps` bounds them, without the time between two of
    them; with `--step` it is the chosen steps. With `by="step"` every step is a window. With `by="time"` the recording
    (or the chosen steps, from first to last) is cut into pieces of a power of ten of µs, the smallest that makes 100
    pieces or fewer; the last piece is the remainder.

    Both estimates need values that the recorder states for each kernel (`blocks per SM`, `est. achieved occupancy %`);
    they are empty if no kernel has them, and otherwise cover the kernels that do (`described_ratio` says how many).

    The formulas are those of the TensorBoard profiler plugin (kineto, tb_plugin 0.4); its window extends from the first
    step to the last, which is the same if steps follow one another without a pause. Nsight's and DCGM's `SM Active` is
    measured by hardware counters and is not the same thing.
    """
    from stepscope.analysis.counted import left_out_of_means
    from stepscope.analysis.kernels.use import use_of_kernels
    from stepscope.analysis.recording import device_work, every_step
    from stepscope.analysis.windows import devices_in_windows

    def rows(all_steps: Scope) -> Iterator[list[Any]]:
        for device in devices_in_windows(scope, all_steps, by, device_work):
            use = use_of_kernels(device.work, device.start, device.end)
            if by == "device":
                use = use.total()
            lengths = zip(device.start[: len(use.window_ns)], use.window_ns, use.kernel_ns, strict=True)
            for number, times, ratios in zip(device.numbers, lengths, use.ratios(), strict=True):
                step = [number] if by == "step" else []
                yield [*device.key, device.device, *step, *map(int, times), *ratios]

    with every_step(scope) as all_steps:
        names = [c.name for c in _COLUMNS if by == "step" or c.name != "step"]
        answer = answer_rows(_COLUMNS, rows(all_steps), names)
    together = by == "device" and scope.steps is None
    return noted(answer, left_out_of_means(scope)) if together else answer
