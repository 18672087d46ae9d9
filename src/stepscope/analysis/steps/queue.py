"""How far the host is ahead of the device: work that was launched but has not started, over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.analysis.recording import NEVER, Array, Columns, every_step, groups, union_of
from stepscope.analysis.steps.gaps import launched_work
from stepscope.analysis.windows import DeviceWindows, devices_in_windows
from stepscope.formats.consecutive import run_starts
from stepscope.link.intervals import Intervals, Levels, concurrency, covered, integral, split, union

if TYPE_CHECKING:
    from stepscope.query.scope import Scope

_NEED_LAUNCHES = (
    "mean_queued", "max_queued", "max_launches", "blocked_ns", "queued_ns", "running_ns", "starved_ns",
    "empty_ratio",
)  # fmt: skip
"""The columns that are unknown without launches."""


def queue_rows(scope: Scope, by: str, limit: int) -> Iterator[dict[str, Any]]:
    """The queue of each device and of each of its streams, in each window.

    Args:
        by: `stream` for all windows together, `step` or `time` for each.
        limit: launches outstanding on a stream at which a further launch call waits.
    """
    with every_step(scope) as all_steps:
        for device in devices_in_windows(scope, all_steps, by, launched_work):
            streams: dict[int | None, Columns] = {None: device.work}
            streams |= {stream: work for (stream,), work in groups(device.work, "stream").items()}
            for stream, work in streams.items():
                for window in _windows(work, device, limit, together=by == "stream"):
                    yield device.place | {"stream": stream} | window


def _windows(work: Columns, windows: DeviceWindows, limit: int, *, together: bool) -> Iterator[dict[str, Any]]:
    """The columns of each window, or of all `together`, by name."""
    numbers, start, end = windows.numbers, windows.start, windows.end
    has_launch = work["launch_ns"] != NEVER
    queued_from = np.where(work["launch_end_ns"] == NEVER, work["launch_ns"], work["launch_end_ns"])
    # If clocks disagree, work starts before it was launched: it was never in the queue.
    waits = has_launch & (queued_from < work["start_ns"])
    launch, started = queued_from[waits], work["start_ns"][waits]
    length = concurrency(launch, started)
    outstanding = [_outstanding(stream) for stream in groups(work, "stream").values()]
    full = [_reached(levels, limit) for levels in outstanding]
    blocked = union(np.concatenate([times.start for times in full]), np.concatenate([times.end for times in full]))
    parts = split(start, end, [union(launch, started), union_of(work)])
    columns = {
        "window_ns": end - start,
        "started": _starts(work["start_ns"], start, end),
        "unlinked": _starts(work["start_ns"][~has_launch], start, end),
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
        yield window if has_launch.any() else window | dict.fromkeys(_NEED_LAUNCHES)


def _outstanding(work: Columns) -> Levels:
    """How many launches of a stream are outstanding over time: from the start of the call until its first
    work starts. Work launched by one call has that call's times."""
    names = ("start_ns", "launch_end_ns", "launch_ns")
    start, ended, launch = (work[name][work["launch_ns"] != NEVER] for name in names)
    order = np.lexsort((start, ended, launch))
    start, ended, launch = start[order], ended[order], launch[order]
    first = run_starts(launch, ended) & (launch < start)
    return concurrency(launch[first], start[first])


def _reached(levels: Levels, limit: int) -> Intervals:
    """When a step function is at or above a limit."""
    at = np.flatnonzero(levels.value[:-1] >= limit)
    return union(levels.time[at], levels.time[at + 1])


def _highest(functions: Sequence[Levels], start: Array, end: Array) -> Array:
    """The highest value of any of some step functions in each window."""
    highest = np.zeros(len(start), dtype=np.int64)
    for levels in functions:
        first = np.maximum(np.searchsorted(levels.time, start, side="right") - 1, 0)
        last = np.searchsorted(levels.time, end, side="left")
        peaks = [levels.value[a:b].max(initial=0) for a, b in zip(first.tolist(), last.tolist(), strict=True)]
        highest = np.maximum(highest, np.array(peaks, dtype=np.int64))
    return highest


def _starts(times: Array, start: Array, end: Array) -> Array:
    """How many of some times are in each window."""
    ordered = np.sort(times)
    return np.searchsorted(ordered, end, side="left") - np.searchsorted(ordered, start, side="left")
