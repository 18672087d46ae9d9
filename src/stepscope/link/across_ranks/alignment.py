"""Matches the collectives of all ranks, aligns their clocks, and finds who waited for whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stepscope.link.across_ranks.clocks import Clock, learn_clocks
from stepscope.link.across_ranks.gather import Collectives, RankInfo
from stepscope.link.across_ranks.groups import POINT_TO_POINT, Groups, find_groups
from stepscope.link.across_ranks.matching import ORDER, TOGETHER, Matches, Times, match_collectives, numbered
from stepscope.schema.arrays import Int32s, Int64s


@dataclass(frozen=True, slots=True)
class Waits:
    """For each matched collective (in order of `Matches.rows`), -1 if unknown.

    Args:
        last: index of the rank that arrived last.
        wait: time from its start until then, within its duration (ns).
    """

    last: Int32s
    wait: Int64s


def find_waits(
    matches: Matches, rank: Int32s, start: Int64s, end: Int64s, noise: NDArray[np.float64], waits: NDArray[np.bool_]
) -> Waits:
    """Compares the arrivals of the ranks.

    A difference within the error of the clocks counts as none: a rank that arrived so close to the last did not wait,
    and if the last two are so close, no rank is the last.

    Args:
        rank: for each matched collective, the index of its rank.
        start, end: by clocks that agree (ns).
        noise: for each, the error of its rank's clock (ns); NaN if unknown.
        waits: for each match, whether all its ranks wait for the last.
    """
    count = len(rank)
    last, wait = np.full(count, -1, np.int32), np.full(count, -1, np.int64)
    if not count:
        return Waits(last, wait)
    first = matches.first
    comparable = np.logical_and.reduceat(~np.isnan(noise), first) & waits
    # The row of the last arrival of each match, and of the one before it.
    order = np.lexsort((start, matches.each(np.arange(len(matches)))))
    latest = order[np.append(first[1:], count) - 1]
    second = order[np.append(first[1:], count) - 2]
    is_certain = start[latest] - start[second] > noise[latest] + noise[second]
    last = matches.each(np.where(comparable & is_certain, rank[latest], -1)).astype(np.int32)
    gap = matches.each(start[latest]) - start
    gap[gap <= noise + matches.each(noise[latest])] = 0
    wait = np.where(matches.each(comparable), np.clip(gap, 0, end - start), -1)
    return Waits(last, wait)


_UNTESTED = 0.5
"""Confidence of a match by order that no clock could test."""


@dataclass(frozen=True, slots=True)
class Aligned:
    """What the ranks show together.

    Args:
        matches: which collectives are the same.
        confidence: of each match: how certain its group is (`groups.CERTAINTY`), times the share of the group's matches
            by the same rule that are possible: their last rank arrived before the first left, as far as the clocks
            show. If none could be tested, the share is 1 for sequence numbers, else 0.5.
        waits: of each matched collective.
        clocks: of each rank.
        unmatched: collectives without a partner though the recording should have one: another rank of their group is
            there, or their group is unknown.
        unknown: those among them whose group is unknown, or whose sender and receiver were not recorded.
    """

    matches: Matches
    confidence: NDArray[np.float64]
    waits: Waits
    clocks: list[Clock]
    unmatched: int
    unknown: int


def align(collectives: Collectives, ranks: Sequence[RankInfo]) -> Aligned:
    """Matches and aligns the ranks of a job.

    Without sequence numbers, order gives a first matching, the first matching the clocks, and the clocks a second one.
    """
    groups = find_groups(collectives, [rank.rank for rank in ranks])
    hosts: dict[str, int] = {}
    by_host = [
        -1 if rank.host is None or rank.epoch_ns is None else hosts.setdefault(rank.host, len(hosts)) for rank in ranks
    ]
    times = Times(collectives.start, collectives.end, np.array(by_host, np.int32))
    matches = match_collectives(collectives, groups, ranks, times)
    clocks = learn_clocks(collectives, matches, ranks)
    if (matches.rule == ORDER).any():
        matches = match_collectives(collectives, groups, ranks, _corrected(collectives, clocks))
        clocks = learn_clocks(collectives, matches, ranks)
    times = _corrected(collectives, clocks)
    noise = np.array([np.nan if clock.noise_ns is None else clock.noise_ns for clock in clocks])
    matches, confidence = _tested(collectives, groups, matches, times, noise)
    rows = matches.rows
    waits = find_waits(
        matches,
        collectives.rank[rows],
        times.start[rows],
        times.end[rows],
        np.where(times.clock[collectives.rank[rows]] < 0, np.nan, noise[collectives.rank[rows]]),
        _of(collectives, (*TOGETHER, *POINT_TO_POINT))[collectives.kind[rows[matches.first]]]
        & _one_clock(matches, collectives, times),
    )
    unmatched, unknown = _unmatched(collectives, groups, matches)
    return Aligned(matches, confidence, waits, clocks, unmatched, unknown)


def _corrected(collectives: Collectives, clocks: Sequence[Clock]) -> Times:
    start, end = collectives.start, collectives.end
    moved = [at for at, clock in enumerate(clocks) if clock.ahead_ns or clock.drift]
    if moved:
        start, end = start.copy(), end.copy()
    first = np.searchsorted(collectives.rank, np.arange(len(clocks) + 1))
    for at in moved:
        rows = slice(first[at], first[at + 1])
        start[rows] = clocks[at].corrected(start[rows])
        end[rows] = clocks[at].corrected(end[rows])
    return Times(start, end, np.array([clock.among for clock in clocks], np.int32))


def _of(collectives: Collectives, operations: Sequence[str]) -> NDArray[np.bool_]:
    """Whether each recorded kind is one of these operations."""
    return np.array([kind[0] in operations for kind in collectives.kinds], dtype=bool)


def _one_clock(matches: Matches, collectives: Collectives, times: Times) -> NDArray[np.bool_]:
    """Whether the clocks of a match's ranks agree."""
    clock = times.clock[collectives.rank[matches.rows]]
    if not len(matches):
        return np.empty(0, dtype=bool)
    low = np.minimum.reduceat(clock, matches.first)
    return (low >= 0) & (low == np.maximum.reduceat(clock, matches.first))


def _tested(
    collectives: Collectives, groups: Groups, matches: Matches, times: Times, noise: NDArray[np.float64]
) -> tuple[Matches, NDArray[np.float64]]:
    """The matches without impossible ones by order, and the confidence of each."""
    if not len(matches):
        return matches, np.empty(0)
    rows, first = matches.rows, matches.first
    off = noise[collectives.rank[rows]]
    latest = np.maximum.reduceat(times.start[rows] - off, first)
    earliest = np.minimum.reduceat(times.end[rows] + off, first)
    tested = _of(collectives, TOGETHER)[collectives.kind[rows[first]]] & _one_clock(matches, collectives, times)
    tested &= ~np.isnan(latest)
    possible = latest <= earliest
    group, by_order = groups.group[rows[first]], matches.rule[rows[first]] == ORDER
    key = group * 2 + by_order
    share = _share(key, possible, tested)
    share[np.isnan(share)] = np.where(by_order, _UNTESTED, 1.0)[np.isnan(share)]
    dropped = by_order & tested & ~possible
    possible_matches = numbered(
        np.where(matches.match >= 0, np.where(dropped, -1, np.arange(len(matches)))[matches.match], -1),
        matches.rule,
        times.end,
    )  # fmt: skip
    before = matches.match[possible_matches.rows[possible_matches.first]]
    return possible_matches, (groups.certainty[group] * share)[before]


def _share(key: Int32s, possible: NDArray[np.bool_], tested: NDArray[np.bool_]) -> NDArray[np.float64]:
    """For each match the share of possible matches among the tested ones of its key; NaN if none was tested."""
    count = np.bincount(key[tested], minlength=int(key.max()) + 1)
    good = np.bincount(key[tested & possible], minlength=len(count))
    with np.errstate(invalid="ignore"):
        return (good / count)[key]


def _unmatched(collectives: Collectives, groups: Groups, matches: Matches) -> tuple[int, int]:
    """How many collectives lack a partner that should be there, and how many of them have no known group."""
    left = np.flatnonzero(matches.match < 0)
    group = groups.group[left]
    has_group = group >= 0
    recorded = np.zeros((len(groups.certainty) + 1, int(collectives.rank.max(initial=0)) + 1), dtype=bool)
    recorded[groups.group, collectives.rank] = True
    expected = recorded.sum(axis=1)[group] > 1
    unknown = int((~has_group).sum())
    return unknown + int((has_group & expected).sum()), unknown
