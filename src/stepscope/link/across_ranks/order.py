"""Pairs the collectives of two ranks of a group if no sequence number decides which are the same.

Ranks of a group run its collectives in the same order, and one that all leave together ends at the same time
everywhere. If recordings have the same collectives, their order pairs them. If one of them lacks some, times do: by
clocks that are known to agree, or by the difference of the clocks under which most of them end together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stepscope.schema.arrays import Int64s

_ANCHORS = 64
"""Collectives of one rank that are compared with all of the other to find the difference of their clocks."""
_ANCHORS_NS = 10 * 10**9
"""The anchors are within this time: meanwhile the difference of two clocks changes by less than `_WINDOW_NS`."""
_WINDOW_NS = 500_000
_CANDIDATES = 8
_SAMPLE = 4096
_SAME_SHIFT = 0.9
"""This share of the ends must differ by the same, or the n-th of one rank is not the n-th of the other."""
_NOISE_NS = 10_000
"""By how much the ends of one collective may differ."""
_LINE = 16
"""Fewer pairs do not show how clocks drift apart."""

_SLACK_NS = 50_000
"""By how much clocks that agree may still differ."""


@dataclass(frozen=True, slots=True)
class Run:
    """Collectives of a rank in a group, by start.

    Args:
        kind: what they are, equal on all ranks of a collective.
        start, end: when (ns).
        together: whether all ranks leave it together, none before the last has arrived.
    """

    kind: Int64s
    start: Int64s
    end: Int64s
    together: NDArray[np.bool_]

    def __len__(self) -> int:
        """The number of collectives."""
        return len(self.kind)

    def part(self, rows: slice | list[int]) -> Run:
        """Some of the collectives."""
        return Run(self.kind[rows], self.start[rows], self.end[rows], self.together[rows])

    def moved(self, by: Int64s | int) -> Run:
        """The collectives with shifted times."""
        return Run(self.kind, self.start + by, self.end + by, self.together)


def same_order(first: Run, other: Run) -> bool:
    """Whether two ranks recorded the same kinds of collectives in the same order."""
    return len(first) == len(other) and bool((first.kind == other.kind).all())


def pair_by_time(first: Run, other: Run) -> Int64s:
    """For each collective of `one` the index of the same one in `other`, or -1: of the same kind, each nearest to the
    other by its end, and, if all ranks leave it together, both running at some moment.
    """
    kinds = int(max(first.kind.max(initial=0), other.kind.max(initial=0))) + 1
    low = min(int(first.end.min()), int(other.end.min()))
    stride = 2 * (max(int(first.end.max()), int(other.end.max())) - low + 1)
    unit = stride * kinds // (1 << 62) + 1
    at = first.kind * (stride // unit) + (first.end - low) // unit
    other_at = other.kind * (stride // unit) + (other.end - low) // unit
    order = np.argsort(other_at, kind="stable")
    nearest = _nearest(at, other_at[order])
    back = np.argsort(at, kind="stable")
    mutual = back[_nearest(other_at[order][nearest], at[back])]
    nearest_row = order[nearest]
    meet = (first.start <= other.end[nearest_row] + _SLACK_NS) & (other.start[nearest_row] <= first.end + _SLACK_NS)
    good = (at[mutual] == at) & (first.kind == other.kind[nearest_row]) & (meet | ~first.together)
    return _once(np.where(good, nearest_row, -1), len(other_at))


def _once(partner: Int64s, count: int) -> Int64s:
    """Leaves each index to the first that has it: two that end at the same moment are nearest to the same one."""
    first = np.full(count + 1, len(partner), np.int64)
    np.minimum.at(first, partner, np.arange(len(partner)))
    return np.where(first[partner] == np.arange(len(partner)), partner, -1)


def _nearest(values: Int64s, rising: Int64s) -> Int64s:
    """For each asked value the index of the nearest of some rising ones."""
    after = np.minimum(np.searchsorted(rising, values), len(rising) - 1)
    before = np.maximum(after - 1, 0)
    return np.where(values - rising[before] <= np.abs(rising[after] - values), before, after)


def clocks_apart(first: Run, other: Run) -> int | None:
    """The lead of `other`'s clock over `one`'s (ns): the difference under which most of their collectives are paired;
    None if they have no kind in common.
    """
    middle = min(int(np.searchsorted(first.end, _middle(first))), len(first) - 1)
    near = np.flatnonzero(np.abs(first.end - first.end[middle]) <= _ANCHORS_NS // 2)
    anchors = near[np.linspace(0, len(near) - 1, min(_ANCHORS, len(near))).astype(np.int64)]
    apart = np.concatenate([other.end[other.kind == first.kind[at]] - first.end[at] for at in anchors])
    if not len(apart):
        return None
    apart.sort()
    votes = np.searchsorted(apart, apart + _WINDOW_NS, side="right") - np.arange(len(apart))
    best: list[int] = []
    max_votes = int(votes.max())
    while len(best) < _CANDIDATES and 2 * int(votes.max()) >= max_votes:
        at = int(votes.argmax())
        best.append(int(np.median(apart[at : at + votes[at]])))
        low, high = np.searchsorted(apart, (best[-1] - _WINDOW_NS, best[-1] + _WINDOW_NS)).tolist()
        votes[min(low, at) : max(high, at + 1)] = 0
    sample = first.part(slice(max(0, middle - _SAMPLE // 2), middle + _SAMPLE // 2))
    return max(best, key=lambda ahead: int((pair_by_time(sample.moved(ahead), other) >= 0).sum()))


def _middle(first: Run) -> int:
    return (int(first.end[0]) + int(first.end[-1])) // 2


def pair(first: Run, other: Run, *, aligned: bool) -> Int64s:
    """For each collective of `one` the index of its partner in `other`, or -1."""
    if aligned:
        return np.arange(len(first)) if _met_in_order(first, other) else pair_by_time(first, other)
    if same_order(first, other) and _near(other.end - first.end).mean() >= _SAME_SHIFT:
        return np.arange(len(first))
    apart = clocks_apart(first, other)
    return np.full(len(first), -1, np.int64) if apart is None else _following(first, other, apart)


def _met_in_order(first: Run, other: Run) -> bool:
    """Whether the n-th of one rank can be the n-th of the other, by clocks that agree: each pair runs at the same time
    at some moment. On threads of the host several run at once, and a rank that is delayed leaves long after the others:
    then the nearest end belongs to another collective."""
    if not same_order(first, other) or not first.together.any():
        return False
    meet = (first.start < other.end) & (other.start < first.end)
    return bool((meet | ~first.together).all())


def _near(apart: Int64s) -> NDArray[np.bool_]:
    """Which differences are close to most of them."""
    if not len(apart):
        return np.empty(0, dtype=bool)
    off = np.abs(apart - int(np.median(apart)))
    return off <= 4 * np.median(off) + _NOISE_NS


def _following(first: Run, other: Run, apart: int) -> Int64s:
    """Pairs by time under a difference of the clocks that may grow or shrink."""
    middle = _middle(first)
    partner = pair_by_time(first.moved(apart), other)
    for _ in range(2):
        paired = np.flatnonzero(partner >= 0)
        near = paired[_near(other.end[partner[paired]] - first.end[paired])]
        if len(near) < _LINE:
            break
        time = (first.end[near] - middle).astype(float)
        if not np.ptp(time):
            break
        ahead = (other.end[partner[near]] - first.end[near] - apart).astype(float)
        slope, at_middle = np.polyfit(time, ahead, 1)
        by = apart + np.rint(slope * (first.end - middle) + at_middle).astype(np.int64)
        partner = pair_by_time(first.moved(by), other)
    return partner
