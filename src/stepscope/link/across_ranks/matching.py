"""Gives the collectives of all ranks numbers, so that those which are the same have one number.

With a recorded sequence number, a collective is (process group, operation, sequence number). Otherwise the ranks'
collectives of a group are paired with those of the rank that has most of them (`order.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stepscope.formats.consecutive import run_starts
from stepscope.link.across_ranks.gather import Collectives, Known
from stepscope.link.across_ranks.groups import POINT_TO_POINT, Groups
from stepscope.link.across_ranks.order import Run, pair
from stepscope.schema.arrays import Int32s, Int64s

TOGETHER = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")
"""Operations that all ranks leave together, none before the last has arrived."""
_OWN_SIZE = ("all_to_all", "gather", "scatter")
"""Operations whose size may differ from rank to rank."""

NONE, SEQUENCE, ORDER = range(3)
RULES = (None, "sequence", "order")

_PASSES = 3
"""Collectives that the rank with most of them lacks are paired among the other ranks, up to so many times."""


@dataclass(frozen=True, slots=True)
class Matches:
    """Which collectives are the same.

    Args:
        match: for each collective the number of its match, from 0 in order of the first end; -1 for none.
        rule: for each collective the rule that matched it (`SEQUENCE`, `ORDER`).
        rows: the matched collectives, match by match.
        first: where each match starts in `rows`.
    """

    match: Int64s
    rule: NDArray[np.int8]
    rows: Int64s
    first: Int64s

    def __len__(self) -> int:
        """The number of matches."""
        return len(self.first)

    @property
    def ranks(self) -> Int64s:
        """How many ranks each match has."""
        return np.diff(np.append(self.first, len(self.rows)))

    def each(self, values: NDArray[Any]) -> NDArray[Any]:
        """For each of `rows` the value of its match."""
        return np.repeat(values, self.ranks)


def numbered(match: Int64s, rule: NDArray[np.int8], end: Int64s) -> Matches:
    """Matches by their numbers: a single collective is no match; numbers follow the first end."""
    rows = np.flatnonzero(match >= 0)
    rows = rows[np.argsort(match[rows], kind="stable")]
    first = np.flatnonzero(run_starts(match[rows]))
    ranks = np.diff(np.append(first, len(rows)))
    rows, first = rows[np.repeat(ranks > 1, ranks)], first[ranks > 1]
    ranks = ranks[ranks > 1]
    first = np.cumsum(ranks) - ranks
    earliest = np.minimum.reduceat(end[rows], first) if len(first) else first
    order = np.argsort(earliest, kind="stable")
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    found = np.full(len(match), -1, np.int64)
    found[rows] = np.repeat(number, ranks)
    rows = rows[np.argsort(found[rows], kind="stable")]
    counts = ranks[order]
    return Matches(found, np.where(found >= 0, rule, np.int8(NONE)), rows, np.cumsum(counts) - counts)


@dataclass(frozen=True, slots=True)
class Times:
    """Times of all collectives by clocks that are aligned as far as is known.

    Args:
        start, end: of each collective (ns).
        clock: for each rank, the number of the set of clocks that agree with its own; -1 if unknown.
    """

    start: Int64s
    end: Int64s
    clock: Int32s


def match_collectives(found: Collectives, groups: Groups, ranks: Sequence[Known], times: Times) -> Matches:
    """Finds the collectives that are the same. Those of guessed ranks are left out."""
    guessed = np.array([one.guessed for one in ranks], dtype=bool)
    group = np.where(guessed[found.rank], -1, groups.group)
    operation, alike = _kinds(found)
    to_peer = np.array([one[0] in POINT_TO_POINT for one in found.kinds], dtype=bool)
    in_turn = (found.sequence < 0) | to_peer[found.kind]
    sessions = _sessions(ranks, int(found.span.max(initial=0)) + 1)
    match = np.full(len(found), -1, np.int64)
    rule = np.full(len(found), NONE, np.int8)
    count = 0
    for rows in _of_each(group, np.flatnonzero(group >= 0)):
        told = rows[~in_turn[rows]]
        if len(told):
            key = _dense(found.sequence[told]) * len(found.kinds) + operation[found.kind[told]]
            key = _with_occurrence(_dense(key), found.rank[told])
            match[told] = key + count
            rule[told] = SEQUENCE
            count += int(key.max()) + 1
        told = rows[in_turn[rows]]
        rule[told] = ORDER
        session = sessions[found.rank[told], found.span[told]]
        for some in (told[at] for at in _of_each(session, np.arange(len(told)))):
            runs = [
                _OnRank(int(found.rank[own[0]]), own, _run(own, found, times, alike))
                for own in _of_each(found.rank, some)
            ]
            count = _pair_all(runs, times.clock, match, count)
    return numbered(match, rule, times.end)


@dataclass(frozen=True, slots=True)
class _OnRank:
    """A rank's collectives of a group: their rows, and what they are."""

    rank: int
    rows: Int64s
    run: Run


def _run(rows: Int64s, found: Collectives, times: Times, alike: Int64s) -> Run:
    kind = found.kind[rows]
    leave = np.array([one[0] in TOGETHER for one in found.kinds], dtype=bool)
    return Run(alike[kind], times.start[rows], times.end[rows], leave[kind])


def _pair_all(left: list[_OnRank], clock: Int32s, match: Int64s, count: int) -> int:
    """Numbers the collectives of a group's ranks in `match`, from `count` on; returns the next free number."""
    for _ in range(_PASSES):
        if len(left) < 2:
            break
        most = max(left, key=lambda one: len(one.rows))
        match[most.rows] = np.arange(len(most.rows)) + count
        others = []
        for one in left:
            if one is most:
                continue
            aligned = clock[one.rank] >= 0 and clock[one.rank] == clock[most.rank]
            at = pair(one.run, most.run, aligned=bool(aligned))
            match[one.rows[at >= 0]] = at[at >= 0] + count
            if rest := np.flatnonzero(at < 0).tolist():
                others.append(_OnRank(one.rank, one.rows[rest], one.run.part(rest)))
        count += len(most.rows)
        left = others
    return count


def _kinds(found: Collectives) -> tuple[Int64s, Int64s]:
    """For each recorded kind a number for its operation, and one for what all ranks have in common."""
    operations: dict[Any, int] = {}
    alike: dict[Any, int] = {}
    numbers = []
    for operation, dtype, size, _, _ in found.kinds:
        own_size = operation in _OWN_SIZE
        to_peer = operation in POINT_TO_POINT
        what = (None if to_peer else operation, None if own_size else dtype, None if own_size else size)
        numbers.append((operations.setdefault(operation, len(operations)), alike.setdefault(what, len(alike))))
    of_operation, of_alike = np.array(numbers, np.int64).reshape(-1, 2).T
    return of_operation, of_alike


def _sessions(ranks: Sequence[Known], spans: int) -> Int64s:
    """For each rank and span, the recording session of the job that it belongs to.

    If all ranks were recorded equally often, sessions are spans. Otherwise a new session starts when a rank is recorded
    again, or when no rank is being recorded any more.
    """
    most = max(spans, *(max(one.spans, default=0) + 1 for one in ranks))
    session = np.tile(np.arange(most), (len(ranks), 1))
    if len({len(one.spans) for one in ranks}) == 1 or any(one.epoch_ns is None for one in ranks):
        return session
    recorded = sorted(
        ((one.epoch_ns or 0) + low, (one.epoch_ns or 0) + high, at, span)
        for at, one in enumerate(ranks)
        for span, (low, high) in one.spans.items()
    )
    number, until, there = 0, 0, set[int]()
    for start, end, at, span in recorded:
        if at in there or (there and start > until):
            number, there = number + 1, set()
        there.add(at)
        until = max(until, end) if len(there) > 1 else end
        session[at, span] = number
    return session


def _of_each(values: NDArray[Any], rows: Int64s) -> Iterator[Int64s]:
    """Groups rows by their value, in order within each group."""
    if len(rows):
        rows = rows[np.argsort(values[rows], kind="stable")]
        yield from np.split(rows, np.flatnonzero(np.diff(values[rows])) + 1)


def _dense(values: Int64s) -> Int64s:
    """Numbers from 0 for distinct values."""
    found: Int64s = pa.array(values).dictionary_encode().indices.to_numpy().astype(np.int64)
    return found


def _with_occurrence(key: Int64s, rank: Int32s) -> Int64s:
    """Numbers from 0 for a key and its occurrence on the rank: several coalesced collectives share one sequence
    number.
    """
    ranks = int(rank.max()) + 1
    order = np.argsort(key * ranks + rank, kind="stable")
    starts = run_starts(key[order], rank[order])
    place = np.arange(len(order))
    occurrence = np.empty(len(order), np.int64)
    occurrence[order] = place - np.maximum.accumulate(np.where(starts, place, 0))
    if not occurrence.any():
        return key
    return _dense(key * (int(occurrence.max()) + 1) + occurrence)
