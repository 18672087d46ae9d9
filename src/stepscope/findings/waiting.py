"""Bounds how long ranks wait for each other, and so what a loss on some of them costs the job.

If ranks meet in collectives, a loss on one delays the others, so the mean of the losses is no bound. But no rank's step
gets shorter by more than its own loss plus its waits for others: the job saves at most the smallest of these sums. Rules
know only the mean loss; the smallest sum is largest if the loss is on the ranks that wait least. Each rank is summed over
all its steps, so it does not matter which steps of different ranks belong together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepscope.findings.declare import LostOn
    from stepscope.findings.facts import Facts

_WAITS = """
    SELECT c.rank, sum(least(
            coalesce(c.exposed_ns, c.end_ns - c.start_ns),
            coalesce(c.wait_ns + {off}, c.end_ns - c.start_ns)
        ))::BIGINT AS wait_ns
    FROM collective AS c JOIN (
        SELECT rank AS on_rank, id AS event_id FROM device_event WHERE kind = 'communication' AND {{counted}}
        UNION ALL
        SELECT rank, id FROM host_event WHERE role = 'communication' AND {{counted}}
    ) ON (on_rank, event_id) = (c.rank, coalesce(c.id, c.host_id))
    GROUP BY c.rank
"""
"""All exposed time of an unmatched collective may be waiting; of a matched one, the uncertainty of the clocks counts as
waiting."""

_MEETINGS = """
    SELECT DISTINCT rank, min(rank) OVER (PARTITION BY match_id) AS first_rank
    FROM collective WHERE match_id IS NOT NULL
"""


@dataclass(frozen=True, slots=True)
class Waiting:
    """How long each rank waits for others in a mean step of its own.

    Args:
        ns: upper bound by rank (ns); None if unknown, for ranks that may meet.
        steps: how many steps of each rank count.
        together: whether all of them meet, so that none gets ahead of the others.
    """

    ns: Mapping[int, float | None]
    steps: Mapping[int, int]
    together: bool

    def saved_by_job(self, saving_ns: float, lost_on: LostOn) -> float:
        """Upper bound of how much shorter a mean step of the job gets (ns)."""
        if lost_on == "job" or not self.ns:
            return saving_ns
        if len(self.ns) > 1 and None in self.ns.values():
            # The critical path lies on one rank at a time: it loses no more than all of them together.
            return saving_ns * (len(self.ns) if lost_on == "ranks" else 1)
        waits = {rank: ns or 0.0 for rank, ns in self.ns.items()}
        if lost_on != "ranks":
            return saving_ns + waits.get(lost_on, 0.0)
        lost = saving_ns * sum(self.steps.values())
        ranks = sorted(waits, key=lambda rank: waits[rank])
        steps = list(accumulate(self.steps[rank] for rank in ranks))
        wait = list(accumulate(waits[rank] * self.steps[rank] for rank in ranks))
        if not self.together:
            return (lost + wait[-1]) / steps[-1]
        # Filled up to the wait of each rank and those before it, until the loss is used up.
        return min((lost + ns) / count for ns, count in zip(wait, steps, strict=True))


def waiting(facts: Facts, *, of_phases: bool) -> Waiting:
    """How long ranks wait for each other in the counted steps of a recording, or by the phases of a run."""
    return facts.scope.cached((__name__, of_phases), lambda: _by_phases(facts) if of_phases else _in_trace(facts))


def _by_phases(facts: Facts) -> Waiting:
    if facts.phases is None:
        return Waiting({}, {}, together=False)
    exposed = facts.phases.exposed_by_rank()
    return Waiting(exposed, dict.fromkeys(exposed, 1), together=True)


def _in_trace(facts: Facts) -> Waiting:
    off = 2 * (facts.scope.value("SELECT max(clock_uncertainty_ns) FROM rank") or 0)
    rows = [] if facts.scope.has_none("collective") else facts.host(_WAITS.format(off=off))
    waits = {row["rank"]: row["wait_ns"] for row in rows}
    steps = dict.fromkeys(facts.scope.ranks, 0 if facts.has_steps else 1)
    for broken in facts.times.broken if facts.has_steps else ():
        steps[broken.rank] += len(broken.counted_parts_ns)
    steps = {rank: count for rank, count in steps.items() if count}
    mean = {rank: waits.get(rank, 0) / count for rank, count in steps.items()}
    return Waiting(mean, steps, _meet(facts, tuple(steps)))


def _meet(facts: Facts, ranks: tuple[int, ...]) -> bool:
    """Whether matched collectives, taken together, connect all of these ranks."""
    group = {rank: rank for rank in ranks}

    def of(rank: int) -> int:
        while group.setdefault(rank, rank) != rank:
            rank = group[rank]
        return rank

    for row in facts.scope.sql(_MEETINGS).to_pylist():
        group[of(row["rank"])] = of(row["first_rank"])
    return len({of(rank) for rank in ranks}) == 1
