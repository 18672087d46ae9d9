"""The windows of time over which a device is looked at: steps, all of them as one, or pieces of time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stepscope.analysis.recording import (
    Array,
    Columns,
    asked_times,
    device_work,
    extent,
    groups,
    rank_batches,
    recorded_times,
    steps_of,
)

if TYPE_CHECKING:
    from stepscope.answers.scope import Scope

_MOST_BUCKETS = 100


class DeviceWindows(NamedTuple):
    """A device with its work, and the windows over which it is looked at.

    Args:
        key: rank and span.
        device: index of the device in its process.
        work: its device events.
        numbers: of each window, the step; None for windows that are no step.
        start: their starts (ns).
        end: their ends (ns).
    """

    key: tuple[int, int]
    device: int
    work: Columns
    numbers: list[int | None]
    start: Array
    end: Array

    @property
    def place(self) -> dict[str, Any]:
        """The device by the columns of an answer."""
        return {"rank": self.key[0], "span": self.key[1], "device": self.device}


def devices_in_windows(
    scope: Scope, whole: Scope, by: str, work_of: Callable[[Scope, str], dict[tuple[int, int], Columns]]
) -> Iterator[DeviceWindows]:
    """Each device of each rank and span that has steps, with the windows that were asked for.

    Args:
        whole: the same with all of its work (`every_step`).
        by: as `windows` takes it.
        work_of: reads the device events of some ranks, by rank and span.
    """
    everything = scope.steps is None and not scope.part
    for ranks in rank_batches(scope):
        chosen = steps_of(scope, ranks)
        device = work_of(whole, ranks)
        recorded = recorded_times(whole, device, ranks) if by == "time" and everything else {}
        for key, work in device.items():
            if key not in chosen:
                continue
            found = windows(by, chosen[key], recorded.get(key), all_steps=everything)
            for (index,), own in groups(work, "device").items():
                yield DeviceWindows(key, index, own, *found)


def devices_looked_at(scope: Scope, whole: Scope, *, each_step: bool) -> Iterator[DeviceWindows]:
    """The devices of a scope over the time that `device-time` looks at.

    Args:
        whole: its ranks with everything (`every_step`).
        each_step: whether each step is a window; else the asked ones, or all that the device did.
    """
    for ranks in rank_batches(scope):
        device = device_work(whole, ranks)
        asked = steps_of(scope, ranks) if each_step else asked_times(scope, whole, device, ranks)
        for key, work in device.items():
            if asked is not None and key not in asked:
                continue
            for (index,), own in groups(work, "device").items():
                times = extent(own)
                if asked is not None:
                    times = asked[key]["start_ns"], asked[key]["end_ns"]
                numbers = asked[key]["step"].tolist() if each_step and asked else [None] * len(times[0])
                yield DeviceWindows(key, index, own, numbers, *times)


def windows(
    by: str, steps: Columns, recorded: tuple[int, int] | None, *, all_steps: bool
) -> tuple[list[int | None], Array, Array]:
    """Numbers (of steps, None for other windows), starts and ends of the windows to look at.

    Args:
        by: `step` for a window a step, `time` for pieces of time; anything else for the chosen steps
            or, of all steps, those that count.
        steps: the chosen steps, as `steps_of` gives them.
        recorded: first start and last end of the recording, where pieces of time are to fill it.
        all_steps: whether no steps were chosen.
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
    """Starts and ends of the steps that count (see `counted`): what lies between two of them is no part of any."""
    counted = steps["counted"]
    return steps["start_ns"][counted], steps["end_ns"][counted]


def buckets(begin: int, end: int) -> tuple[Array, Array]:
    """Starts and ends of equal pieces of time: a power of ten of µs long, at most 100 of them.

    The last takes what remains, so that the pieces add up to the whole.

    >>> [edge.tolist() for edge in buckets(0, 2_700)]
    [[0, 1000], [1000, 2700]]
    """
    length = 1_000
    while (end - begin) > _MOST_BUCKETS * length:
        length *= 10
    count = max(1, (end - begin) // length)
    starts = begin + length * np.arange(count, dtype=np.int64)
    return starts, np.append(starts[1:], end)
