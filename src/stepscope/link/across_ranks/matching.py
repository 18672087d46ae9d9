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
from stepscope.link.across_ranks.gather import Collectives, RankInfo
from stepscope.link.across_ranks.groups import POINT_TO_POINT, Groups
from stepscope.link.across_ranks.order import Run, pair
from stepscope.schema.arrays import Int32s, Int64s

TOGETHER = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")
"""Operations that all ranks leave together, none before the last has arrived."""
_SIZE_VARIES = ("all_to_all", "gather", "scatter")
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
    numbers = np.full(len(match), -1, np.int64)
    numbers[rows] = np.repeat(number, ranks)
    rows = rows[np.argsort(numbers[rows], kind="stable")]
    counts = ranks[order]
    return Matches(numbers, np.where(numbers >= 0, rule, np.int8(NONE)), rows, np.cumsum(counts) - counts)


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


def match_collectives(collectives: Collectives, groups: Groups, ranks: Sequence[RankInfo], times: Times) -> Matches:
    """Finds the collectives that are the same. Those of guessed ranks are left out."""
    guessed = np.array([item.guessed for item in ranks], dtype=bool)
    group = np.where(guessed[collectives.rank], -1, groups.group)
    operation, kind_key = _kinds(collectives)
    to_peer = np.array([item[0] in POINT_TO_POINT for item in collectives.kinds], dtype=bool)
    in_turn = (collectives.sequence < 0) | to_peer[collectives.kind]
    sessions = _sessions(ranks, int(collectives.span.max(initial=0)) + 1)
    match = np.full(len(collectives), -1, np.int64)
    rule = np.full(len(collectives), NONE, np.int8)
    count = 0
    for rows in _of_each(group, np.flatnonzero(group >= 0)):
        chosen = rows[~in_turn[rows]]
        if len(chosen):
            key = _dense(collectives.sequence[chosen]) * len(collectives.kinds) + operation[collectives.kind[chosen]]
            key = _with_occurrence(_dense(key), collectives.rank[chosen])
            match[chosen] = key + count
            rule[chosen] = SEQUENCE
            count += int(key.max()) + 1
        chosen = rows[in_turn[rows]]
        rule[chosen] = ORDER
        session = sessions[collectives.rank[chosen], collectives.span[chosen]]
        for some in (chosen[at] for at in _of_each(session, np.arange(len(chosen)))):
            runs = [
                _OnRank(int(collectives.rank[of_rank[0]]), of_rank, _run(of_rank, collectives, times, kind_key))
                for of_rank in _of_each(collectives.rank, some)
            ]
            count = _pair_all(runs, times.clock, match, count)
    return numbered(match, rule, times.end)


@dataclass(frozen=True, slots=True)
class _OnRank:
    """A rank's collectives of a group: their rows, and what they are."""

    rank: int
    rows: Int64s
    run: Run


def _run(rows: Int64s, collectives: Collectives, times: Times, kind_key: Int64s) -> Run:
    kind = collectives.kind[rows]
    leave = np.array([item[0] in TOGETHER for item in collectives.kinds], dtype=bool)
    return Run(kind_key[kind], times.start[rows], times.end[rows], leave[kind])


def _pair_all(left: list[_OnRank], clock: Int32s, match: Int64s, count: int) -> int:
    """Numbers the collectives of a group's ranks in `match`, from `count` on; returns the next free number."""
    for _ in range(_PASSES):
        if len(left) < 2:
            break
        longest = max(left, key=lambda member: len(member.rows))
        match[longest.rows] = np.arange(len(longest.rows)) + count
        others = []
        for member in left:
            if member is longest:
                continue
            aligned = clock[member.rank] >= 0 and clock[member.rank] == clock[longest.rank]
            at = pair(member.run, longest.run, aligned=bool(aligned))
            match[member.rows[at >= 0]] = at[at >= 0] + count
            if unpaired := np.flatnonzero(at < 0).tolist():
                others.append(_OnRank(member.rank, member.rows[unpaired], member.run.part(unpaired)))
        count += len(longest.rows)
        left = others
    return count


def _kinds(collectives: Collectives) -> tuple[Int64s, Int64s]:
    """For each recorded kind a number for its operation, and one for what all ranks have in common."""
    operations: dict[Any, int] = {}
    keys: dict[Any, int] = {}
    numbers = []
    for operation, dtype, size, _, _ in collectives.kinds:
        size_varies = operation in _SIZE_VARIES
        to_peer = operation in POINT_TO_POINT
        what = (None if to_peer else operation, None if size_varies else dtype, None if size_varies else size)
        numbers.append((operations.setdefault(operation, len(operations)), keys.setdefault(what, len(keys))))
    of_operation, of_key = np.array(numbers, np.int64).reshape(-1, 2).T
    return of_operation, of_key


def _sessions(ranks: Sequence[RankInfo], spans: int) -> Int64s:
    """For each rank and span, the recording session of the job that it belongs to.

    If all ranks were recorded equally often, sessions are spans. Otherwise a new session starts when a rank is recorded
    again, or when no rank is being recorded any more.
    """
    count = max(spans, *(max(rank.spans, default=0) + 1 for rank in ranks))
    session = np.tile(np.arange(count), (len(ranks), 1))
    if len({len(rank.spans) for rank in ranks}) == 1 or any(rank.epoch_ns is None for rank in ranks):
        return session
    recorded = sorted(
        ((rank.epoch_ns or 0) + low, (rank.epoch_ns or 0) + high, at, span)
        for at, rank in enumerate(ranks)
        for span, (low, high) in rank.spans.items()
    )
    number, until, recording_ranks = 0, 0, set[int]()
    for start, end, at, span in recorded:
        if at in recording_ranks or (recording_ranks and start > until):
            number, recording_ranks = number + 1, set()
        recording_ranks.add(at)
        until = max(until, end) if len(recording_ranks) > 1 else end
        session[at, span] = number
    return session


def _of_each(values: NDArray[Any], rows: Int64s) -> Iterator[Int64s]:
    """Groups rows by their value, in order within each group."""
    if len(rows):
        rows = rows[np.argsort(values[rows], kind="stable")]
        yield from np.split(rows, np.flatnonzero(np.diff(values[rows])) + 1)


def _dense(values: Int64s) -> Int64s:
    """Numbers from 0 for distinct values."""
    return pa.array(values).dictionary_encode().indices.to_numpy().astype(np.int64)


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
