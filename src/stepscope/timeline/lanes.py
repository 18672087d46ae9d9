"""Lanes: events in order of time, those of a lane one after the other, or blocks of such events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stepscope.formats.consecutive import run_starts
from stepscope.link.lanes import in_lanes
from stepscope.schema.arrays import Int64s


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


class Merged(NamedTuple):
    """What rows of a lane stand for that are blocks: how many events, their summed time, the longest one's (ns), which
    has the row's name, kind and number; and whether it is an event that only the blocks have by itself.
    """

    events: Int64s
    busy: Int64s
    longest: Int64s
    alone: NDArray[np.bool_]

    def at(self, rows: Any) -> Merged:
        """Some of them: a slice, or the numbers of rows."""
        return Merged(*(column[rows] for column in self))


@dataclass(frozen=True, slots=True)
class Lane:
    """Events in order of start; `reach` is the latest end of an event and those before it (ns). Where `merged` is
    there, rows may stand for several events.
    """

    events: Columns
    reach: Int64s
    merged: Merged | None = None

    def touching(self, start: int, end: int) -> slice:
        """The rows that have a moment in a stretch of time or start in it, and on a lane whose events
        overlap perhaps others between them."""
        first = min(
            int(np.searchsorted(self.reach, start, "right")), int(np.searchsorted(self.events.start, start, "left"))
        )
        return slice(first, max(first, int(np.searchsorted(self.events.start, end, "left"))))

    def pieces(self, rows: slice) -> Merged:
        """What some rows stand for."""
        if self.merged is not None:
            return self.merged.at(rows)
        length = self.events.end[rows] - self.events.start[rows]
        return Merged(np.ones(len(length), np.int64), length, length, np.ones(len(length), np.bool_))


@dataclass(frozen=True, slots=True)
class Lanes:
    """The lanes of a track from the top, and the names that its events have, by number."""

    lanes: tuple[Lane, ...]
    names: pa.StringArray

    @property
    def rows(self) -> int:
        """How many rows they have."""
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
    lanes: list[list[Lane]] = [[] for _ in range(tracks)]
    for number, rows, beside in in_lanes(key, events.start, events.end):
        for one in range(int(beside.max()) + 1):
            own = events.at(rows[beside == one] if beside.any() else rows)
            lanes[number // depths].append(Lane(own, np.maximum.accumulate(own.end)))
    return [tuple(of_track) for of_track in lanes]


def put(
    events: Columns, merged: Merged | None, lane: NDArray[np.integer], counts: Sequence[int]
) -> list[tuple[Lane, ...]]:
    """The lanes of each track, of rows that are known to lie on them.

    Args:
        events: in any order.
        merged: what they stand for; None for themselves.
        lane: which of all lanes each is on, from 0, those of a track after those of the one before.
        counts: how many lanes each track has.
    """
    made = []
    for rows in _rows_of(lane, sum(counts)):
        start, end = events.start[rows], events.end[rows]
        if ((start[1:] < start[:-1]) | ((start[1:] == start[:-1]) & (end[1:] < end[:-1]))).any():
            order = np.lexsort((end, start))
            rows = order + rows.start if isinstance(rows, slice) else rows[order]
        own = events.at(rows)
        made.append(Lane(own, np.maximum.accumulate(own.end), None if merged is None else merged.at(rows)))
    bounds = np.cumsum([0, *counts]).tolist()
    return [tuple(made[a:b]) for a, b in pairwise(bounds)]


def _rows_of(lane: NDArray[np.integer], lanes: int) -> list[slice | NDArray[np.int64]]:
    """The rows of each lane: a stretch of all where they lie together, so that nothing is copied."""
    count = np.bincount(lane, minlength=lanes)
    starts = np.flatnonzero(run_starts(lane))
    if len(starts) == np.count_nonzero(count):
        found = dict(zip(lane[starts].tolist(), starts.tolist(), strict=True))
        return [slice(found.get(one, 0), found.get(one, 0) + n) for one, n in enumerate(count.tolist())]
    order = np.argsort(lane.astype(np.uint16) if lanes < 1 << 16 else lane, kind="stable")
    ends = np.cumsum(count).tolist()
    return [order[first:last] for first, last in zip([0, *ends], ends, strict=False)]
