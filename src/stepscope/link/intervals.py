"""Arithmetic of time intervals on arrays of integer nanoseconds.

An interval is half open: `[start, end)`. With `start == end` it is empty, which is legal in every
function and adds nothing. Everything is exact, because nothing leaves int64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stepscope.formats.consecutive import run_starts
from stepscope.schema.arrays import Int64s


@dataclass(frozen=True, slots=True)
class Intervals:
    """Intervals in order of time that neither overlap nor touch; `union` returns them.

    `start` and `end` are int64 arrays of one length (ns).
    """

    start: Int64s
    end: Int64s

    def __len__(self) -> int:
        """The number of intervals."""
        return len(self.start)


@dataclass(frozen=True, slots=True)
class Levels:
    """A step function of time: `value[i]` holds from `time[i]` until `time[i + 1]`.

    Before `time[0]` and from the last time on it is 0.
    """

    time: Int64s
    value: NDArray[Any]


def union(start: ArrayLike, end: ArrayLike) -> Intervals:
    """The time covered by at least one of the intervals, in any order (ns).

    Example:
        >>> union([5, 0, 2], [9, 3, 4])
        Intervals(start=array([0, 5]), end=array([4, 9]))
    """
    starts, ends = _int64(start), _int64(end)
    full = starts < ends
    if not full.all():
        starts, ends = starts[full], ends[full]
    if len(starts) == 0:
        return Intervals(starts, ends)
    if (starts[1:] < starts[:-1]).any():
        # Stable: events come in sorted runs, one a thread or stream, which merge in linear time.
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
    reach = np.maximum.accumulate(ends)
    first = np.empty(len(starts), dtype=bool)
    first[0] = True
    np.greater(starts[1:], reach[:-1], out=first[1:])
    starts_of_runs = np.flatnonzero(first)
    lasts = np.append(starts_of_runs[1:], len(starts)) - 1
    return Intervals(starts[starts_of_runs], reach[lasts])


def total(intervals: Intervals) -> int:
    """The covered time (ns)."""
    return int((intervals.end - intervals.start).sum())


def expanded(first: Int64s, count: Int64s) -> tuple[Int64s, Int64s]:
    """The numbers of several ranges, each with the index of its range.

    >>> expanded(np.array([5, 0]), np.array([2, 1]))
    (array([0, 0, 1]), array([5, 6, 0]))
    """
    of = np.repeat(np.arange(len(count)), count)
    return of, np.arange(len(of)) - np.repeat(np.cumsum(count) - count - first, count)


def overlapping(start: Int64s, end: Int64s, other_start: Int64s, other_end: Int64s) -> tuple[Int64s, Int64s]:
    """Pairs of indices of intervals and of others that overlap them; those are in order and do not overlap."""
    first = np.searchsorted(other_end, start, side="right")
    until = np.searchsorted(other_start, end, side="left")
    return expanded(first, np.where(start < end, np.maximum(until - first, 0), 0))


def intersect(first: Intervals, other: Intervals) -> Intervals:
    """The time covered by both."""
    mine, theirs = overlapping(first.start, first.end, other.start, other.end)
    return Intervals(np.maximum(first.start[mine], other.start[theirs]), np.minimum(first.end[mine], other.end[theirs]))


def subtract(first: Intervals, other: Intervals) -> Intervals:
    """The time covered by the first and not by the second."""
    if len(first) == 0 or len(other) == 0:
        return first
    start = min(int(first.start[0]), int(other.start[0]))
    finish = max(int(first.end[-1]), int(other.end[-1]))
    return intersect(first, gaps(other, start, finish))


def gaps(intervals: Intervals, start: int, end: int) -> Intervals:
    """The time between `start` and `end` that is not covered."""
    inside = clip(intervals, start, end)
    starts = np.concatenate([_int64([start]), inside.end])
    ends = np.concatenate([inside.start, _int64([end])])
    full = starts < ends
    return Intervals(starts[full], ends[full])


def clip(intervals: Intervals, start: int, end: int) -> Intervals:
    """The part between `start` and `end`."""
    starts = np.maximum(intervals.start, start)
    ends = np.minimum(intervals.end, end)
    full = starts < ends
    return Intervals(starts[full], ends[full])


def covered(intervals: Intervals, window_start: ArrayLike, window_end: ArrayLike) -> Int64s:
    """How much of each window is covered (ns, one number a window).

    Windows may overlap and be in any order.

    Example:
        >>> covered(union([0, 10], [4, 20]), [0, 3], [10, 12])
        array([4, 3])
    """
    starts, ends = _int64(window_start), _int64(window_end)
    before = np.zeros(len(intervals) + 1, dtype=np.int64)
    np.cumsum(intervals.end - intervals.start, out=before[1:])
    inside = _covered_before(intervals, before, ends) - _covered_before(intervals, before, starts)
    return np.maximum(inside, 0)


def _covered_before(intervals: Intervals, before: Int64s, time: Int64s) -> Int64s:
    """Covered time from the beginning of time to each of `time`."""
    if len(intervals) == 0:
        return np.zeros(len(time), dtype=np.int64)
    started = np.searchsorted(intervals.start, time, side="right")
    beyond = np.maximum(intervals.end[np.maximum(started - 1, 0)] - time, 0)
    return before[started] - np.where(started > 0, beyond, 0)


def split(window_start: ArrayLike, window_end: ArrayLike, layers: Sequence[Intervals]) -> NDArray[np.int64]:
    """Assigns every moment of each window to the first layer that covers it.

    Returns:
        ns, one row a window, one column a layer, and a last column for what no layer covers. A row
        sums to its window's length exactly, also if a layer uses everything up.

    Example:
        >>> split([0], [100], [union([0], [100]), union([20], [50])])
        array([[100,   0,   0]])
    """
    starts, ends = _int64(window_start), _int64(window_end)
    parts = np.zeros((len(starts), len(layers) + 1), dtype=np.int64)
    taken = Intervals(_int64([]), _int64([]))
    taken_ns = np.zeros(len(starts), dtype=np.int64)
    for column, layer in enumerate(layers):
        if not len(layer):
            continue
        taken = union(np.concatenate([taken.start, layer.start]), np.concatenate([taken.end, layer.end]))
        now_ns = covered(taken, starts, ends)
        parts[:, column] = now_ns - taken_ns
        taken_ns = now_ns
    parts[:, -1] = np.maximum(ends - starts, 0) - taken_ns
    return parts


def concurrency(start: ArrayLike, end: ArrayLike, weight: ArrayLike | None = None) -> Levels:
    """The sum of the weights of the intervals that run at each moment; without weights, how many run.

    Example:
        >>> concurrency([0, 2], [4, 6])
        Levels(time=array([0, 2, 4, 6]), value=array([1, 2, 1, 0]))
    """
    (levels,) = concurrencies(start, end, [np.ones(len(_int64(start)), np.int64) if weight is None else weight])
    return levels


def concurrencies(start: ArrayLike, end: ArrayLike, weights: Sequence[ArrayLike]) -> list[Levels]:
    """`concurrency` of the same intervals with several weights; their times are sorted once."""
    starts, ends = _int64(start), _int64(end)
    times = np.concatenate([starts, ends])
    order = np.argsort(times, kind="stable")
    times = times[order]
    first = np.flatnonzero(run_starts(times))
    return [_levels(times[first], order, first, np.asarray(weight)) for weight in weights]


def _levels(times: Int64s, order: Int64s, first: Int64s, weight: NDArray[Any]) -> Levels:
    changes = np.concatenate([weight, -weight])
    if len(times) == 0:
        return Levels(times, changes)
    value = np.cumsum(np.add.reduceat(changes[order], first))
    value[-1] = 0  # a sum of floats would leave a rounding error after the last end
    return Levels(times, value)


def integral(levels: Levels, window_start: ArrayLike, window_end: ArrayLike) -> NDArray[Any]:
    """The integral of a step function over each window, in its value times ns.

    Example:
        >>> integral(concurrency([0, 2], [4, 6]), [0, 3], [6, 5])
        array([8, 3])
    """
    starts, ends = _int64(window_start), _int64(window_end)
    if len(levels.time) == 0:
        return np.zeros(len(starts), dtype=levels.value.dtype)
    area = np.zeros_like(levels.value)
    np.cumsum(levels.value[:-1] * np.diff(levels.time), out=area[1:])

    def until(time: Int64s) -> NDArray[Any]:
        index = np.searchsorted(levels.time, time, side="right") - 1
        clipped = np.maximum(index, 0)
        here = area[clipped] + levels.value[clipped] * (time - levels.time[clipped])
        return np.where(index >= 0, here, 0)

    return until(ends) - until(starts)


def _int64(values: ArrayLike) -> Int64s:
    return np.asarray(values, dtype=np.int64)
