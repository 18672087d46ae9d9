"""Which event encloses which, on every thread at once.

Events of a thread should nest like calls, but recorded ones do not always: rows that are a nanosecond or two off, whole
microseconds that cut a parent short, ranges that one piece of code opens and another closes. Here an event's parent is
the innermost event that encloses it completely. An event that crosses its neighbour's end belongs to the nearest one
that does enclose it, and none is lost.

Events are sorted by (thread, start, longest first, outermost kind first, order in the file). In that order the parent
is the nearest earlier event whose end is not before the event's own, and everything below an event directly follows it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.formats.scratch import spill
from stepscope.schema.arrays import Int32s, Int64s

_DEEPEST = 1 << 15
"""Rows that are climbed: no call stack is deeper, and numbers in a damaged file may form a circle."""

JITTER_NS = 2
"""How far apart two ends that mean the same moment may be: Kineto moves ranges by 1 or 2 ns."""

_ROUNDS = 4
"""How often ends are repaired; what still crosses then is taken as crossing."""


@dataclass(frozen=True, slots=True)
class Forest:
    """Rows, some of which enclose others.

    Args:
        parent: position of the row above each, or -1.
        by_depth: positions ordered by depth.
        level: int64, where each depth starts in `by_depth`, and its length at the end.
    """

    parent: NDArray[Any]
    by_depth: NDArray[Any]
    level: Int64s

    @classmethod
    def of(cls, parent: NDArray[Any]) -> Forest:
        """The forest of rows in any order."""
        depth = levels(parent)
        return cls(parent, np.argsort(depth, kind="stable"), _starts_of(depth))

    def layers(self) -> list[NDArray[Any]]:
        """Positions by depth, outermost first."""
        return np.split(self.by_depth, self.level[1:-1])

    def inherit(self, values: NDArray[Any], missing: int = -1) -> NDArray[Any]:
        """Passes values down in place: a row without one gets that of the nearest row above with one."""
        for here in self.layers()[1:]:
            here = here[values[here] == missing]
            values[here] = values[self.parent[here]]
        return values

    def spread_up(self, flags: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Sets, in place, the flag of each row above a flagged one."""
        for here in self.layers()[:0:-1]:
            flags[self.parent[here[flags[here]]]] = True
        return flags

    def sum_up(self, values: Int64s) -> Int64s:
        """Adds to each row, in place, the values of all rows below it."""
        for here in self.layers()[:0:-1]:
            here = here[values[here] != 0]
            np.add.at(values, self.parent[here], values[here])
        return values


@dataclass(frozen=True, slots=True)
class Nesting(Forest):
    """The events of all threads as a forest. All arrays except `row` contain positions in `row`.

    Args:
        parent, by_depth: int32.
        row: int32, the events' rows, parents before children.
        depth: int16 (int32 if that is too small), number of events above.
        self_ns: int64, duration less the time that children cover.
    """

    row: Int32s
    depth: NDArray[Any]
    self_ns: Int64s

    def __len__(self) -> int:
        """The number of events."""
        return len(self.row)


def levels(parent: NDArray[Any]) -> NDArray[np.int64]:
    """The depth of each row of a forest given by the positions of parents."""
    level = (parent >= 0).astype(np.int64)
    at = parent
    # The reach doubles at each round; numbers in a damaged file may form a circle.
    for _ in range(len(parent).bit_length()):
        if not (at >= 0).any():
            break
        level += np.where(at >= 0, level[at], 0)
        at = np.where(at >= 0, at[at], -1)
    return level


def _starts_of(depth: NDArray[Any]) -> Int64s:
    """Where each depth starts among rows ordered by it, and their number at the end."""
    return np.concatenate([[0], np.cumsum(np.bincount(depth))]).astype(np.int64)


def climb(at: Int32s, above: NDArray[Any], arrived: Callable[[NDArray[Any], Int32s], NDArray[np.bool_]]) -> Int32s:
    """The nearest wanted row at or above each start, or -1.

    All climb together, one row at a time; those that arrive drop out.

    Args:
        at: where each one starts, -1 for nowhere; changed in place.
        above: the row above each row, -1 for none.
        arrived: which ones are at a wanted row, given their indices in `at` and the rows they are at.
    """
    climbing = np.flatnonzero(at >= 0)
    for _ in range(_DEEPEST):
        if not len(climbing):
            break
        climbing = climbing[~arrived(climbing, at[climbing])]
        at[climbing] = above[at[climbing]]
        climbing = climbing[at[climbing] >= 0]
    at[climbing] = -1
    return at


def nest(thread: NDArray[Any], start: Int64s, dur: Int64s, outer: NDArray[Any], *, resolution_ns: int = 1) -> Nesting:
    """Nests events.

    Args:
        thread: number of each event's thread, from 0.
        start, dur: start and duration (ns).
        outer: rank of each event's kind from 0 (outermost) to 7; it decides between events of equal
            start and duration, and whether an event of no duration is inside one whose end it touches.
        resolution_ns: smallest step of the times. Ends that differ by no more than it, or by no more
            than 2 ns, count as equal.
    """
    row = _order(thread, start, dur, outer)
    starts = spill(start[row])
    del start
    dur = spill(dur[row])
    end = spill(starts + dur)
    rank = outer[row].astype(np.int8)
    del outer
    for rounds in range(_ROUNDS + 1):
        parent = _parents(thread, row, starts, end, rank)
        depth = _depths(parent)
        by_depth = np.argsort(depth, kind="stable").astype(np.int32)
        overlaps = _sibling_overlaps(thread, row, parent, by_depth, starts, end)
        if rounds == _ROUNDS or not len(overlaps):
            break
        if rounds == 0:
            recorded = starts.copy(), end.copy()
        if not _repair(overlaps, parent, starts, end, recorded, resolution_ns):
            break
        again = _order(thread[row], starts, end - starts, rank)
        row, starts, end, rank = row[again], starts[again], end[again], rank[again]
        dur = dur[again]
        recorded = recorded[0][again], recorded[1][again]
    self_ns = _self_time(dur, parent, by_depth, starts, end)
    level = _starts_of(depth)
    return Nesting(spill(parent), spill(by_depth), level, spill(row), spill(depth), spill(self_ns))


def _order(thread: NDArray[Any], start: Int64s, dur: Int64s, outer: NDArray[Any]) -> Int32s:
    """Rows by thread, start, longest first, outermost first, and original order."""
    if len(start) == 0:
        return np.empty(0, dtype=np.int32)
    first = int(start.min())
    bits = (int(start.max()) - first).bit_length()
    if bits + int(thread.max()).bit_length() > 62:
        return np.lexsort((outer, -dur, start, thread)).astype(np.int32)
    key = thread.astype(np.int64) << bits
    key |= start - first
    # Events are written roughly in order of time, and merging sorted parts takes almost no time.
    falls = np.count_nonzero(key[1:] < key[:-1])
    order = np.argsort(key, kind="stable" if falls < len(key) >> 5 else None).astype(np.int32)
    key = key[order]
    same = key[1:] == key[:-1]
    tied = np.zeros(len(order), dtype=bool)
    tied[1:] = same
    tied[:-1] |= same
    place = np.flatnonzero(tied)
    rows = order[place]
    order[place] = rows[np.lexsort((rows, outer[rows], -dur[rows], key[place]))]
    return order


def _parents(thread: NDArray[Any], row: Int32s, starts: Int64s, end: Int64s, rank: NDArray[np.int8]) -> Int32s:
    """The nearest earlier position of the thread whose end is not before the event's own, or -1.

    Each position first points at the one before. A position that points at an event that ends too early
    takes over that event's pointer: all it skips ends earlier still. Consecutive siblings halve their
    number at each round, so rounds grow with the depth and with the logarithm of the number of siblings.
    """
    count = len(row)
    parent = np.arange(-1, count - 1, dtype=np.int32)
    track = thread[row]
    parent[1:][track[1:] != track[:-1]] = -1
    # The last bits hold the rank, so that one comparison also decides for events that only touch an end.
    key = np.empty(count + 1, dtype=np.int64)
    key[:count] = end
    key[:count] -= int(starts.min()) if count else 0
    if int(key[:count].max(initial=0)) >> _KEY_BITS:  # damaged times, years apart
        key[:count] = np.unique(end, return_inverse=True)[1]
    key[:count] <<= 4
    key[:count] |= 7 - rank
    key[count] = np.iinfo(np.int64).max  # read through index -1: nothing encloses a root
    touching = np.where(starts == end, 8 - rank, 0).astype(np.int8)
    moving = np.flatnonzero(key[parent] < (key[:count] & ~15) + touching)
    while len(moving):
        above = parent[parent[moving]]
        parent[moving] = above
        moving = moving[key[above] < (key[moving] & ~15) + touching[moving]]
    return parent


def _depths(parent: Int32s) -> NDArray[Any]:
    """Number of events above each.

    Positions form chains in which each is the first child of the one before; only the heads of
    chains are followed upwards, by pointers whose reach doubles at each round.
    """
    count = len(parent)
    is_head = parent != np.arange(-1, count - 1, dtype=np.int32)
    if count:
        is_head[0] = True
    head = np.flatnonzero(is_head).astype(np.int32)
    chain = np.cumsum(is_head, dtype=np.int32)
    chain -= 1
    above = parent[head]
    nested = above >= 0
    chain_above = np.where(nested, chain[above], -1)
    depth_of_head = np.where(nested, above - head[chain_above] + 1, 0).astype(np.int32)
    moving = np.flatnonzero(nested)
    while len(moving):
        higher = chain_above[moving]
        depth_of_head[moving] += depth_of_head[higher]
        higher = chain_above[higher]
        chain_above[moving] = higher
        moving = moving[higher >= 0]
    depth = np.arange(count, dtype=np.int32)
    depth += np.repeat(depth_of_head - head, np.diff(np.append(head, count)))
    # 16 bits sort several times faster, and no call stack is deeper.
    return depth.astype(np.int16) if depth.max(initial=0) < 1 << 15 else depth


_KEY_BITS = 58
_BLOCK = 1 << 20
"""Pairs of siblings are compared in blocks, to keep temporary arrays small."""


def _sibling_overlaps(
    thread: NDArray[Any], row: Int32s, parent: Int32s, by_depth: Int32s, starts: Int64s, end: Int64s
) -> NDArray[np.int32]:
    """Positions of two consecutive siblings of which the second starts before the first ends."""
    overlaps = []
    for low in range(0, len(by_depth) - 1, _BLOCK):
        left = by_depth[low : low + _BLOCK]
        right = by_depth[low + 1 : low + 1 + _BLOCK]
        left = left[: len(right)]
        pairs = np.flatnonzero((parent[left] == parent[right]) & (end[left] > starts[right]))
        left, right = left[pairs], right[pairs]
        same = thread[row[left]] == thread[row[right]]
        overlaps.append(np.stack([left[same], right[same]], axis=1))
    return np.concatenate(overlaps) if overlaps else np.empty((0, 2), dtype=np.int32)


def _repair(
    overlaps: NDArray[np.int32],
    parent: Int32s,
    starts: Int64s,
    end: Int64s,
    recorded: tuple[Int64s, Int64s],
    resolution_ns: int,
) -> bool:
    """Corrects, in place, starts and ends that are off by no more than jitter; returns whether any was.

    None is moved further than that from its recorded time, however many rounds there are.
    """
    late_ns = max(JITTER_NS, resolution_ns)
    early_ns = JITTER_NS if resolution_ns <= JITTER_NS else 0
    left, right = overlaps[:, 0], overlaps[:, 1]
    shared = end[left] - starts[right]
    excess = end[right] - end[left]
    lead = starts[right] - starts[left]
    late = (excess <= late_ns) & (shared > excess)
    early = ~late & (lead <= early_ns) & (shared > lead)
    if not (late.any() or early.any()):
        return False
    latest = np.full(len(parent), np.iinfo(np.int64).max)
    latest[right[late]] = end[left[late]]
    earliest = np.full(len(parent), np.iinfo(np.int64).min)
    earliest[left[early]] = starts[right[early]]
    _limit_below(parent, latest, earliest)
    np.minimum(end, np.maximum(latest, recorded[1] - late_ns), out=end)
    np.minimum(starts, end, out=starts)
    np.maximum(starts, np.minimum(earliest, recorded[0] + early_ns), out=starts)
    np.maximum(end, starts, out=end)
    return True


def _limit_below(parent: Int32s, latest: Int64s, earliest: Int64s) -> None:
    """Passes limits down: an event's children must stay within its new limits."""
    above = parent.copy()
    moving = np.flatnonzero(above >= 0)
    while len(moving):
        higher = above[moving]
        latest[moving] = np.minimum(latest[moving], latest[higher])
        earliest[moving] = np.maximum(earliest[moving], earliest[higher])
        higher = above[higher]
        above[moving] = higher
        moving = moving[higher >= 0]


def _self_time(dur: Int64s, parent: Int32s, by_depth: Int32s, starts: Int64s, end: Int64s) -> Int64s:
    """Subtracts from each duration, in place, the time that children cover; overlaps count once."""
    self_ns = dur
    for low in range(0, len(by_depth), _BLOCK):
        child = by_depth[low : low + _BLOCK]
        before = by_depth[max(low - 1, 0) : low + len(child) - 1]
        if low == 0:
            before = np.concatenate([child[:1], before])
        inner = np.flatnonzero(parent[child] >= 0)
        child, before = child[inner], before[inner]
        above = parent[child]
        since = np.maximum(starts[child], starts[above])
        since = np.where(parent[before] == above, np.maximum(since, end[before]), since)
        np.subtract.at(self_ns, above, np.maximum(end[child] - since, 0))
    return self_ns
