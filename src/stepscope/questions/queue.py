"""How far the host is ahead: work that was launched but has not started."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from stepscope.query.declare import DEVICE, RANK, SPAN, STEP, Column, Parameter, by_form, question
from stepscope.query.rows import answer_dicts, noted

if TYPE_CHECKING:
    import pyarrow as pa

    from stepscope.analysis.recording import Array, Columns
    from stepscope.analysis.windows import DeviceWindows
    from stepscope.link.intervals import Intervals, Levels
    from stepscope.query.scope import Scope

_COLUMNS = (
    RANK,
    SPAN,
    DEVICE,
    Column("stream", "int", "stream; empty for all streams of the device together"),
    STEP,
    Column("start_ns", "int", "start of the window, since the run's start", moment=True),
    Column("window_ns", "int", "length of the window"),
    Column("started", "int", "kernels, copies and fills that started in the window", "count"),
    Column("unlinked", "int", "those whose launch is not known", "count", shown=False),
    Column("mean_queued", "float", "mean number of pieces of work in the queue", "count"),
    Column("max_queued", "int", "most pieces of work in the queue at one time", "count"),
    Column(
        "max_launches",
        "int",
        "most launches outstanding on a stream at one time, a graph's kernels as one",
        "count",
        shown=False,
    ),
    Column("blocked_ns", "int", "launches outstanding on a stream had reached the limit"),
    Column("queued_ns", "int", "at least one piece of work was in the queue"),
    Column("running_ns", "int", "the queue was empty, and work was running"),
    Column("starved_ns", "int", "the queue was empty, and nothing was running", sums=True),
    Column("empty_ratio", "float", "the part of the window in which the queue was empty", sums=True),
)
_OF_WINDOWS = {"stream": (), "step": ("step", "start_ns"), "time": ("start_ns",)}
"""The columns that each form has for a window besides its length."""
_OF_THE_QUEUE = (
    "mean_queued", "max_queued", "max_launches", "blocked_ns", "queued_ns", "running_ns", "starved_ns",
    "empty_ratio",
)  # fmt: skip
"""The columns that are unknown without launches."""


@question(
    "queue",
    "How much work was queued ahead on each stream, and for how long was the queue empty?",
    _COLUMNS,
    rests_on=("devices", "device-work", "device-times", "launches", "own-launches", "clocks", "steps"),
    about="time",
    parameters=(
        by_form(
            "`stream` for a row a stream, `step` for one a step, `time` for at most 100 pieces of time", *_OF_WINDOWS
        ),
        Parameter(
            "limit", "int", "launches outstanding on a stream at which a further launch call waits", default=1_024
        ),
    ),
    needs="device",
    fills="Record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA].",
)
def queue(scope: Scope, by: str = "stream", limit: int = 1_024) -> pa.Table:
    """How far the host is ahead of the device. A kernel, copy or fill is in its stream's queue from the end of the call
    that launched it until it starts; a copy from the start of its call, which may wait for the copy. It also counts as
    queued while it waits for another stream or for an event. Time in the launch call is not queueing: a first launch
    that loads its module takes seconds, and the device starves meanwhile. Work that starts before its call has returned
    was never in the queue. A graph's kernels are in the queue from the end of the graph's launch.

    `blocked_ns` is the time in which `--limit` launches or more were outstanding on a stream (for a device, on
    any of its streams), including calls under way: CUDA keeps about 1024 launches, and a further call waits
    until one starts. A graph is one launch. The host is then as far ahead as possible.

    A device's queue, in the rows without a stream, is that of all its streams together: `mean_queued`
    and `started` are the sums of its streams', and it is empty when all of them are.

    The window is divided completely: at least one piece of work was queued (`queued_ns`); none was,
    but work was still running (`running_ns`); neither (`starved_ns`), in which the device,
    or the stream, had been given nothing to do. A queue that is often empty and a device that starves
    show that the host is too slow. A stream that is used now and then starves too, which costs nothing
    while others run: read the device's rows first.

    `mean_queued` times `window_ns` is the total time of all pieces of work in the queue (Little's
    law), so a mean of 100 does not mean 100 pieces at all times: `--by time` shows how it rises and falls.

    The window is all steps that count in means, as the question `steps` bounds them, without the time between two of
    them; with `--step` it is the chosen steps. With `by="step"` every step is a window, and with `by="time"` pieces of
    time as in `utilization`.

    Work of unknown launch is never in the queue, but counts as running. If no launch on a
    stream is known, its queue is empty in the answer.

    Holistic Trace Analysis counts pieces from the start of the launch call, so that the calls' own time looks like
    queueing, and only those launched by runtime calls, one per call; the statistics of its summary are over
    the changes of the queue's length, ours over time.
    """
    from stepscope.analysis.counted import left_out_of_means
    from stepscope.analysis.recording import every_step, groups
    from stepscope.analysis.steps.gaps import launched_work
    from stepscope.analysis.windows import devices_in_windows

    def rows(whole: Scope) -> Iterator[dict[str, Any]]:
        for one in devices_in_windows(scope, whole, by, launched_work):
            streams: dict[int | None, Columns] = {None: one.work}
            streams |= {stream: part for (stream,), part in groups(one.work, "stream").items()}
            for stream, part in streams.items():
                for window in _figures(part, one, limit, together=by == "stream"):
                    yield one.place | {"stream": stream} | window

    left_out = {"step", "start_ns"} - set(_OF_WINDOWS[by])
    names = [column.name for column in _COLUMNS if column.name not in left_out]
    with every_step(scope) as whole:
        answer = answer_dicts(_COLUMNS, rows(whole), names)
    together = by == "stream" and scope.steps is None
    return noted(answer, left_out_of_means(scope)) if together else answer


def _figures(work: Columns, windows: DeviceWindows, limit: int, *, together: bool) -> Iterator[dict[str, Any]]:
    """The columns of each window, or of all `together`, by name."""
    import numpy as np

    from stepscope.analysis.recording import NEVER, groups, union_of
    from stepscope.link.intervals import concurrency, covered, integral, split, union

    numbers, start, end = windows.numbers, windows.start, windows.end
    known = work["launch_ns"] != NEVER
    handed = np.where(work["launch_end_ns"] == NEVER, work["launch_ns"], work["launch_end_ns"])
    # If clocks disagree, work starts before it was launched: it was never in the queue.
    waits = known & (handed < work["start_ns"])
    launch, begin = handed[waits], work["start_ns"][waits]
    length = concurrency(launch, begin)
    outstanding = [
        _outstanding({name: values[known] for name, values in own.items()})
        for own in groups(work, "stream").values()
        for known in [own["launch_ns"] != NEVER]
    ]
    full = [_reached(levels, limit) for levels in outstanding]
    blocked = union(np.concatenate([one.start for one in full]), np.concatenate([one.end for one in full]))
    parts = split(start, end, [union(launch, begin), union_of(work)])
    columns = {
        "window_ns": end - start,
        "started": _starts(work["start_ns"], start, end),
        "unlinked": _starts(work["start_ns"][~known], start, end),
        "queued_ns": parts[:, 0],
        "running_ns": parts[:, 1],
        "starved_ns": parts[:, 2],
        "waited_ns": integral(length, start, end),
        "max_queued": _highest([length], start, end),
        "max_launches": _highest(outstanding, start, end),
        "blocked_ns": covered(blocked, start, end),
    }
    if together:
        columns = {
            name: (values.max if name.startswith("max_") else values.sum)(keepdims=True)
            for name, values in columns.items()
        }
        numbers = [None]
    for number, at, *values in zip(numbers, start.tolist(), *columns.values(), strict=False):
        window: dict[str, Any] = dict(zip(columns, map(int, values), strict=True))
        size = window["window_ns"]
        window |= {
            "step": number,
            "start_ns": at,
            "mean_queued": window["waited_ns"] / size if size else None,
            "empty_ratio": (size - window["queued_ns"]) / size if size else None,
        }
        yield window if known.any() else window | dict.fromkeys(_OF_THE_QUEUE)


def _outstanding(work: Columns) -> Levels:
    """How many launches of a stream are outstanding over time: from the start of the call until its first
    work starts. Work launched by one call has that call's times."""
    import numpy as np

    from stepscope.formats.consecutive import run_starts
    from stepscope.link.intervals import concurrency

    order = np.lexsort((work["start_ns"], work["launch_end_ns"], work["launch_ns"]))
    launch, ended, start = (work[name][order] for name in ("launch_ns", "launch_end_ns", "start_ns"))
    first = run_starts(launch, ended) & (launch < start)
    return concurrency(launch[first], start[first])


def _reached(levels: Levels, limit: int) -> Intervals:
    """When a step function is at or above a limit."""
    import numpy as np

    from stepscope.link.intervals import union

    at = np.flatnonzero(levels.value[:-1] >= limit)
    return union(levels.time[at], levels.time[at + 1])


def _highest(functions: Sequence[Levels], start: Array, end: Array) -> Array:
    """The highest value of any of some step functions in each window."""
    import numpy as np

    highest = np.zeros(len(start), dtype=np.int64)
    for levels in functions:
        first = np.maximum(np.searchsorted(levels.time, start, side="right") - 1, 0)
        last = np.searchsorted(levels.time, end, side="left")
        own = [levels.value[a:b].max(initial=0) for a, b in zip(first.tolist(), last.tolist(), strict=True)]
        highest = np.maximum(highest, np.array(own, dtype=np.int64))
    return highest


def _starts(times: Array, start: Array, end: Array) -> Array:
    """How many of some times are in each window."""
    import numpy as np

    ordered = np.sort(times)
    return np.searchsorted(ordered, end, side="left") - np.searchsorted(ordered, start, side="left")
