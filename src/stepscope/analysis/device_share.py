"""Divides device time into computation, exposed communication, exposed copies and idle time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from stepscope.analysis.recording import COMMUNICATION, COPY, NEVER, Array, Columns, extent, union_of
from stepscope.analysis.windows import DeviceWindows
from stepscope.link.intervals import Intervals, covered, intersect, split

_SORT: Final = "stable"
"""Events are almost in order, for which this sort is many times faster than the default."""


@dataclass(frozen=True, slots=True)
class DeviceShare:
    """What one device did in each window (ns): `span_ns` is computation + exposed communication + exposed copies +
    idle."""

    span_ns: Array
    computation_ns: Array
    communication_ns: Array
    exposed_communication_ns: Array
    copy_ns: Array
    exposed_copy_ns: Array
    idle_ns: Array
    events: Array
    unlinked_ns: Array
    work_ns: Array
    """Summed duration of the work; overlapping work counts several times."""

    def total(self) -> dict[str, int]:
        """The sums over all windows."""
        return {name: int(getattr(self, name).sum()) for name in self.__slots__}


def share_device(work: Columns, window_start: Array, window_end: Array) -> DeviceShare:
    """Divides a device's time (`device_work`) in each of some windows that do not overlap."""
    kind = work["work"]
    communication, copies = union_of(work, kind == COMMUNICATION), union_of(work, kind == COPY)
    computation = union_of(work, (kind != COMMUNICATION) & (kind != COPY))
    parts = split(window_start, window_end, [computation, communication, copies])
    unlinked = work["launch_ns"] == NEVER
    return DeviceShare(
        span_ns=parts.sum(axis=1),
        computation_ns=parts[:, 0],
        communication_ns=covered(communication, window_start, window_end),
        exposed_communication_ns=parts[:, 1],
        copy_ns=covered(copies, window_start, window_end),
        exposed_copy_ns=parts[:, 2],
        idle_ns=parts[:, 3],
        events=_running(work["start_ns"], work["end_ns"], window_start, window_end),
        unlinked_ns=summed(work["start_ns"][unlinked], work["end_ns"][unlinked], window_start, window_end),
        work_ns=summed(work["start_ns"], work["end_ns"], window_start, window_end),
    )


def device_totals(work: Columns, windows: tuple[Array, Array] | None) -> dict[str, int]:
    """Divides a device's time from its first start to its last end, or in windows (starts and ends) together."""
    if windows is not None:
        return share_device(work, *windows).total()
    share = share_device(work, *extent(work)).total()
    share["events"] = len(work["start_ns"])  # includes events without duration at the very end
    return share


def summed(start: Array, end: Array, window_start: Array, window_end: Array) -> Array:
    """The summed length of the parts of intervals that lie in each window; overlaps count twice."""
    starts, ends = np.sort(start, kind=_SORT), np.sort(end, kind=_SORT)
    starts_before = np.concatenate([[0], np.cumsum(starts)])
    ends_before = np.concatenate([[0], np.cumsum(ends)])

    def until(time: Array) -> Array:
        started, ended = np.searchsorted(starts, time), np.searchsorted(ends, time)
        return (started - ended) * time - starts_before[started] + ends_before[ended]

    return np.subtract(until(window_end), until(window_start))


def _running(start: Array, end: Array, window_start: Array, window_end: Array) -> Array:
    """How many intervals run in each window; one without duration runs in the window it starts in."""
    started = np.searchsorted(np.sort(start, kind=_SORT), window_end)
    over = np.sort(np.maximum(end, start + 1), kind=_SORT)
    over = np.searchsorted(over, window_start, side="right")
    return np.subtract(started, over)


TYPES = ("computation", "communication", "copy")


def types_together(device: DeviceWindows) -> dict[tuple[str, ...], Array]:
    """How long each combination of work types ran at once in each window (ns); the empty one is idle time.

    Combinations add up to the windows' lengths. Fills count as computation.
    """
    kind = device.work["work"]
    unions = {
        "computation": union_of(device.work, (kind != COMMUNICATION) & (kind != COPY)),
        "communication": union_of(device.work, kind == COMMUNICATION),
        "copy": union_of(device.work, kind == COPY),
    }

    def together(*types: str) -> Array:
        both: Intervals = unions[types[0]]
        for other in types[1:]:
            both = intersect(both, unions[other])
        return covered(both, device.start, device.end)

    a, b, c = TYPES
    all_three = together(a, b, c)
    times: dict[tuple[str, ...], Array] = {TYPES: all_three}
    for pair in ((a, b), (a, c), (b, c)):
        times[pair] = together(*pair) - all_three
    for only in TYPES:
        others = [ns for types, ns in times.items() if only in types]
        times[only,] = together(only) - sum(others[1:], others[0])
    busy = list(times.values())
    times[()] = np.maximum(device.end - device.start, 0) - sum(busy[1:], busy[0])
    return times
