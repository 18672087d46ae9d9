"""Lanes: events by time that do not overlap, or blocks of such events."""

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
    """Events as arrays of one length: start and end (ns), number of the name, number of the kind, event id."""

    start: Int64s
    end: Int64s
    name: NDArray[np.int32]
    kind: NDArray[np.int8]
    id: Int64s

    def at(self, rows: Any) -> Columns:
        """Some of them, chosen by a slice or row numbers."""
        return Columns(*(column[rows] for column in self))

    def __len__(self) -> int:
        return len(self.start)


class Merged(NamedTuple):
    """What the rows of a lane are if they are blocks: number of events, summed time, duration of the longest (ns),
    which gives the row its name, kind and number; and whether it is a single event that exists only in the blocks."""

    events: Int64s
    busy: Int64s
    longest: Int64s
    single: NDArray[np.bool_]

    def at(self, rows: Any) -> Merged:
        """Some of them, chosen by a slice or row numbers."""
        return Merged(*(column[rows] for column in self))


@dataclass(frozen=True, slots=True)
class Lane:
    """Events by start; `reach` is the latest end so far (ns). With `merged`, a row may be several events."""

    events: Columns
    reach: Int64s
    merged: Merged | None = None

    def touching(self, start: int, end: int) -> slice:
        """The rows that overlap a time interval or start in it, perhaps with others between them."""
        first = min(
            int(np.searchsorted(self.reach, start, "right")), int(np.searchsorted(self.events.start, start, "left"))
        )
        return slice(first, max(first, int(np.searchsorted(self.events.start, end, "left"))))

    def pieces(self, rows: slice) -> Merged:
        """The blocks of some rows."""
        if self.merged is not None:
            return self.merged.at(rows)
        length = self.events.end[rows] - self.events.start[rows]
        return Merged(np.ones(len(length), np.int64), length, length, np.ones(len(length), np.bool_))


@dataclass(frozen=True, slots=True)
class Lanes:
    """The lanes of a track from the top, and the names of its events by number."""

    lanes: tuple[Lane, ...]
    names: pa.StringArray

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(len(lane.events) for lane in self.lanes)


def laid_out(
    events: Columns, track: NDArray[np.integer], depth: NDArray[np.integer], tracks: int
) -> list[tuple[Lane, ...]]:
    """Lays events out, in any order, on the lanes of each track.

    Args:
        track: of each event, from 0.
        depth: the number of events that enclose it.
    """
    depths = int(depth.max(initial=0)) + 1
    narrow = np.dtype(np.uint16 if tracks * depths <= 1 << 16 else np.int64)
    key = track.astype(narrow) * narrow.type(depths) + depth.astype(narrow)
    lanes: list[list[Lane]] = [[] for _ in range(tracks)]
    for number, rows, lane_of in in_lanes(key, events.start, events.end):
        for lane in range(int(lane_of.max()) + 1):
            of_lane = events.at(rows[lane_of == lane] if lane_of.any() else rows)
            lanes[number // depths].append(Lane(of_lane, np.maximum.accumulate(of_lane.end)))
    return [tuple(of_track) for of_track in lanes]


def lanes_from_rows(
    events: Columns, merged: Merged | None, lane: NDArray[np.integer], counts: Sequence[int]
) -> list[tuple[Lane, ...]]:
    """The lanes of each track from rows, in any order, whose lanes are known.

    Args:
        merged: what the rows are; None for single events.
        lane: of each row, counted from 0 through all tracks in order.
        counts: the number of lanes of each track.
    """
    result = []
    for rows in _rows_of(lane, sum(counts)):
        start, end = events.start[rows], events.end[rows]
        if ((start[1:] < start[:-1]) | ((start[1:] == start[:-1]) & (end[1:] < end[:-1]))).any():
            order = np.lexsort((end, start))
            rows = order + rows.start if isinstance(rows, slice) else rows[order]
        of_lane = events.at(rows)
        result.append(Lane(of_lane, np.maximum.accumulate(of_lane.end), None if merged is None else merged.at(rows)))
    bounds = np.cumsum([0, *counts]).tolist()
    return [tuple(result[a:b]) for a, b in pairwise(bounds)]


def _rows_of(lane: NDArray[np.integer], lanes: int) -> list[slice | NDArray[np.int64]]:
    """The rows of each lane: a slice where they are adjacent, to avoid copies."""
    count = np.bincount(lane, minlength=lanes)
    starts = np.flatnonzero(run_starts(lane))
    if len(starts) == np.count_nonzero(count):
        first_rows = dict(zip(lane[starts].tolist(), starts.tolist(), strict=True))
        return [
            slice(first_rows.get(number, 0), first_rows.get(number, 0) + n) for number, n in enumerate(count.tolist())
        ]
    order = np.argsort(lane.astype(np.uint16) if lanes < 1 << 16 else lane, kind="stable")
    ends = np.cumsum(count).tolist()
    return [order[first:last] for first, last in zip([0, *ends], ends, strict=False)]
