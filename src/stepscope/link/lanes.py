"""Lanes that keep drawn events from hiding one another, and blocks of short events for drawing many at once."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepscope.formats.consecutive import run_starts
from stepscope.schema.arrays import Int64s

MAX_LANES = 8
"""Lanes for overlapping events of one depth. Events that fit on none of them are drawn over others on the last."""


def in_lanes(key: NDArray[np.integer], start: Int64s, end: Int64s) -> Iterator[tuple[int, Int64s, NDArray[np.int8]]]:
    """Puts events that overlap on separate lanes.

    Yields:
        each key, the rows of its events in order of start, and the lane of each among the key's lanes, from 0.
    """
    # Stable, and fast for 16-bit numbers: rows are nearly in order of time.
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    firsts = np.flatnonzero(run_starts(ordered)).tolist()
    for first, last in pairwise([*firsts, len(ordered)]):
        yield int(ordered[first]), *_in_order(order[first:last], start, end)


def _in_order(rows: Int64s, start: Int64s, end: Int64s) -> tuple[Int64s, NDArray[np.int8]]:
    starts, ends = start[rows], end[rows]
    later = starts[1:] > starts[:-1]
    if not (later | ((starts[1:] == starts[:-1]) & (ends[1:] >= ends[:-1]))).all():
        order = np.lexsort((ends, starts))
        rows, starts, ends = rows[order], starts[order], ends[order]
    if (starts[1:] >= ends[:-1]).all():  # then ends rise too
        return rows, np.zeros(len(rows), np.int8)
    order = np.lexsort((-ends, starts))  # enclosing events come first
    starts, ends = starts[order], ends[order]
    return rows[order], _lane_of_each(starts, ends, np.maximum.accumulate(ends))


def _lane_of_each(start: Int64s, end: Int64s, reach: Int64s) -> NDArray[np.int8]:
    """The lane on which each event has room. Only overlapping events are looked at one by one."""
    meets = start[1:] < reach[:-1]
    rows = np.flatnonzero(np.append(meets, False) | np.append(False, meets))
    result = np.zeros(len(start), np.int8)
    free: list[int] = []
    taken: list[tuple[int, int]] = []
    chosen = []
    lanes = 0
    for event_start, event_end in zip(start[rows].tolist(), end[rows].tolist(), strict=True):
        while taken and taken[0][0] <= event_start:
            heappush(free, heappop(taken)[1])
        if free:
            lane = heappop(free)
        elif lanes < MAX_LANES - 1:
            lane, lanes = lanes, lanes + 1
        else:
            chosen.append(MAX_LANES - 1)
            continue
        heappush(taken, (event_end, lane))
        chosen.append(lane)
    result[rows] = chosen
    return result


class Blocks(NamedTuple):
    """For each block the start of its first event and the end of its last (ns), how many `events` it has, their summed
    time, the longest one's (ns), and the row of that one.
    """

    start: Int64s
    end: Int64s
    events: Int64s
    busy: Int64s
    longest: Int64s
    row: Int64s


def blocks(start: Int64s, end: Int64s, level: int) -> Blocks:
    """Merges the events of a lane that are shorter than a bin of 2^level ns and start in the same bin. A longer
    event is a block by itself.
    """
    length = end - start
    is_long = length >= 1 << level
    bins = start >> level
    new = np.ones(len(start), bool)
    new[1:] = (bins[1:] != bins[:-1]) | is_long[1:] | is_long[:-1]
    first = np.flatnonzero(new)
    if not len(first):
        return Blocks(start, end, length, length, length, length)
    row = longest_of(length, first)
    return Blocks(
        start[first],
        np.maximum.reduceat(end, first),
        np.diff(np.append(first, len(start))),
        np.add.reduceat(length, first),
        length[row],
        row,
    )


def longest_of(length: Int64s, first: NDArray[np.integer]) -> Int64s:
    """The row of the longest event of each run of rows, which start at `first`; the first of several."""
    if len(first) == len(length):
        return first.astype(np.int64)
    max_length = np.maximum.reduceat(length, first)
    run = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(length))))
    candidates = np.flatnonzero(length == max_length[run])
    return candidates[run_starts(run[candidates])]
