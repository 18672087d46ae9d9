"""The time windows in which a device is examined: steps, all of them together, or pieces of time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stepscope.analysis.recording import (
    Array,
    Columns,
    device_work,
    extent,
    groups,
    rank_batches,
    recorded_times,
    requested_windows,
    steps_of,
)

if TYPE_CHECKING:
    from stepscope.query.scope import Scope

_MAX_BUCKETS = 100


class DeviceWindows(NamedTuple):
    """A device of a rank and span with its work, and the windows in which it is examined (ns); `numbers` are their
    steps, None for others."""

    key: tuple[int, int]
    device: int
    work: Columns
    numbers: list[int | None]
    start: Array
    end: Array

    @property
    def place(self) -> dict[str, Any]:
        """The columns of an answer that identify the device."""
        return {"rank": self.key[0], "span": self.key[1], "device": self.device}


def devices_in_windows(
    scope: Scope, all_steps: Scope, by: str, work_of: Callable[[Scope, str], dict[tuple[int, int], Columns]]
) -> Iterator[DeviceWindows]:
    """Each device of each rank and span that has steps, with the windows of `by` (see `windows`)."""
    everything = scope.steps is None and not scope.part
    for ranks in rank_batches(scope):
        chosen = steps_of(scope, ranks)
        device = work_of(all_steps, ranks)
        recorded = recorded_times(all_steps, device, ranks) if by == "time" and everything else {}
        for key, work in device.items():
            if key not in chosen:
                continue
            window_columns = windows(by, chosen[key], recorded.get(key), all_steps=everything)
            for (index,), of_device in groups(work, "device").items():
                yield DeviceWindows(key, index, of_device, *window_columns)


def device_windows(scope: Scope, all_steps: Scope, *, each_step: bool) -> Iterator[DeviceWindows]:
    """The devices of a scope with the windows of `device-time`: each step, or the requested windows, or all of their
    activity."""
    for ranks in rank_batches(scope):
        device = device_work(all_steps, ranks)
        requested = steps_of(scope, ranks) if each_step else requested_windows(scope, all_steps, device, ranks)
        for key, work in device.items():
            if requested is not None and key not in requested:
                continue
            for (index,), of_device in groups(work, "device").items():
                times = extent(of_device)
                if requested is not None:
                    times = requested[key]["start_ns"], requested[key]["end_ns"]
                numbers = requested[key]["step"].tolist() if each_step and requested else [None] * len(times[0])
                yield DeviceWindows(key, index, of_device, numbers, *times)


def windows(
    by: str, steps: Columns, recorded: tuple[int, int] | None, *, all_steps: bool
) -> tuple[list[int | None], Array, Array]:
    """Numbers of steps (None for others), starts and ends of the windows.

    Args:
        by: `step` for each step, `time` for pieces of time, else the chosen steps, or, if all are, those that count.
        recorded: first start and last end of the recording, if pieces of time fill it.
    """
    if by == "time":
        of_steps = int(steps["start_ns"].min()), int(steps["end_ns"].max())
        starts, ends = buckets(*(recorded or of_steps))
        return [None] * len(starts), starts, ends
    if by == "step":
        return steps["step"].tolist(), steps["start_ns"], steps["end_ns"]
    if all_steps:
        return [None], *counted_windows(steps)
    return [None], steps["start_ns"], steps["end_ns"]


def counted_windows(steps: Columns) -> tuple[Array, Array]:
    """Starts and ends of the steps that count (see `counted`); the time between two steps belongs to none."""
    counted = steps["counted"]
    return steps["start_ns"][counted], steps["end_ns"][counted]


def buckets(start: int, end: int) -> tuple[Array, Array]:
    """Starts and ends of equal pieces of time, a power of ten µs long, at most 100; the last is the remainder.

    >>> [edge.tolist() for edge in buckets(0, 2_700)]
    [[0, 1000], [1000, 2700]]
    """
    length = 1_000
    while (end - start) > _MAX_BUCKETS * length:
        length *= 10
    count = max(1, (end - start) // length)
    starts = start + length * np.arange(count, dtype=np.int64)
    return starts, np.append(starts[1:], end)
