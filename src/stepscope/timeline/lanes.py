"""Lanes: events in order of time, those of a lane one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Int64s = NDArray[np.int64]

MOST_BESIDE = 8
"""Lanes for the events of one depth that overlap. What overlaps on all of them is drawn over others on the last."""


class Columns(NamedTuple):
    """Events as arrays of one length: start and end (ns), number of the name, of the kind, and of the event."""

    start: Int64s
    end: Int64s
    name: NDArray[np.int32]
    kind: NDArray[np.int8]
    id: Int64s

    def at(self, rows: Any) -> Columns:
        """Some of them: a slice, or the numbers of rows."""
        return Columns(*(column[rows] for column in self))

    def __len__(self) -> int:
        """How many events there are."""
        return len(self.start)


SUMMED = 64
"""Events of a summary."""
_LONG_LANE = 1 << 15


class Summaries(NamedTuple):
    """Of each `SUMMED` events in a row of a long lane: the longest one's time, their summed time (ns), the latest
    end, and the row of the longest. What is left at the lane's end has none.
    """

    longest: Int64s
    busy: Int64s
    end: Int64s
    row: Int64s


@dataclass(frozen=True, slots=True)
class Lane:
    """Events in order of start; `reach` is the latest end of an event and those before it (ns). A long lane has
    `summaries`.
    """

    events: Columns
    reach: Int64s
    summaries: Summaries | None = None

    def touching(self, start: int, end: int) -> slice:
        """The events that have a moment in a stretch of time or start in it, and on a lane whose events
        overlap perhaps others between them."""
        first = min(
            int(np.searchsorted(self.reach, start, "right")),
            int(np.searchsorted(self.events.start, start, "left")),
        )
        return slice(first, max(first, int(np.searchsorted(self.events.start, end, "left"))))


@dataclass(frozen=True, slots=True)
class Lanes:
    """The lanes of a track from the top, and the names that its events have, by number."""

    lanes: tuple[Lane, ...]
    names: pa.StringArray

    @property
    def events(self) -> int:
        """How many events they have."""
        return sum(len(lane.events) for lane in self.lanes)


def laid_out(
    events: Columns, track: NDArray[np.integer], depth: NDArray[np.integer], tracks: int
) -> list[tuple[Lane, ...]]:
    """The lanes of each track.

    Args:
        events: in any order.
        track: which of the tracks each is on, from 0.
        depth: how many events enclose it.
        tracks: how many there are.
    """
    depths = int(depth.max(initial=0)) + 1
    narrow = np.dtype(np.uint16 if tracks * depths <= 1 << 16 else np.int64)
    key = track.astype(narrow) * narrow.type(depths) + depth.astype(narrow)
    # Stable, and quick for numbers of 16 bits: rows come nearly in order of time.
    order = np.argsort(key, kind="stable")
    ends = np.cumsum(np.bincount(key, minlength=tracks * depths))
    del key
    events = events.at(order)
    lanes: list[list[Lane]] = [[] for _ in range(tracks)]
    first = 0
    for number, last in enumerate(ends.tolist()):
        if last > first:
            lanes[number // depths] += _without_overlap(events.at(slice(first, last)))
        first = last
    return [tuple(of_track) for of_track in lanes]


def _without_overlap(events: Columns) -> list[Lane]:
    start, end = events.start, events.end
    later = start[1:] > start[:-1]
    if not (later | ((start[1:] == start[:-1]) & (end[1:] >= end[:-1]))).all():
        events = events.at(np.lexsort((end, start)))
        start, end = events.start, events.end
    if (start[1:] >= end[:-1]).all():  # so ends rise, too
        return [_lane(events, end)]
    events = events.at(np.lexsort((-end, start)))  # what encloses others comes before them
    beside = _beside(events.start, events.end, np.maximum.accumulate(events.end))
    lanes = []
    for number in range(int(beside.max(initial=0)) + 1):
        own = events.at(np.flatnonzero(beside == number))
        lanes.append(_lane(own, np.maximum.accumulate(own.end)))
    return lanes


def _lane(events: Columns, reach: Int64s) -> Lane:
    rows = len(events) // SUMMED * SUMMED
    if rows < _LONG_LANE:
        return Lane(events, reach)
    length = (events.end[:rows] - events.start[:rows]).reshape(-1, SUMMED)
    longest = length.argmax(axis=1)
    places = np.arange(len(length))
    latest = events.end[:rows].reshape(-1, SUMMED).max(axis=1)
    own = Summaries(length[places, longest], length.sum(axis=1), latest, places * SUMMED + longest)
    return Lane(events, reach, own)


def _beside(start: Int64s, end: Int64s, reach: Int64s) -> NDArray[np.int8]:
    """On which of several lanes each event has room. Only those that do overlap are looked at one by one."""
    meets = start[1:] < reach[:-1]
    rows = np.flatnonzero(np.append(meets, False) | np.append(False, meets))
    result = np.zeros(len(start), np.int8)
    free: list[int] = []
    taken: list[tuple[int, int]] = []
    chosen = []
    lanes = 0
    for begin, finish in zip(start[rows].tolist(), end[rows].tolist(), strict=True):
        while taken and taken[0][0] <= begin:
            heappush(free, heappop(taken)[1])
        if free:
            lane = heappop(free)
        elif lanes < MOST_BESIDE - 1:
            lane, lanes = lanes, lanes + 1
        else:
            chosen.append(MOST_BESIDE - 1)
            continue
        heappush(taken, (finish, lane))
        chosen.append(lane)
    result[rows] = chosen
    return result
