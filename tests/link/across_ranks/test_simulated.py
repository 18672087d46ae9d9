"""64 ranks on 8 hosts whose clocks are seconds apart and drift: what they tell together is what was."""

import random

import numpy as np
import pyarrow as pa
import pytest
from tests.simulated_job import Job, Simulated, host_of, simulate

from stepscope.link.across_ranks.alignment import align
from stepscope.link.across_ranks.gather import READ, RankInfo, gather
from stepscope.schema.tables import TABLES

RANKS, HOSTS = 64, 8
MISSING = 13
LOST = {(5, 3), (40, 10), (41, 11), (62, 30)}
"""Rank, and which of its collectives in time the recording lost."""
SECONDS = 10**9


@pytest.fixture(scope="module")
def job() -> Simulated:
    draw = random.Random(3)  # noqa: S311
    return simulate(
        Job(
            ranks=RANKS, hosts=HOSTS, tensor_parallel=8, exchange=True, steps=6, layers=1,
            clock_offset_ns=tuple(draw.randrange(-5 * SECONDS, 5 * SECONDS) for _ in range(HOSTS)),
            clock_drift_ppb=tuple(draw.randrange(-50_000, 50_000) for _ in range(HOSTS)),
        )
    )  # fmt: skip


@pytest.mark.parametrize(
    ("stated", "certainty"),
    [
        (("group_ranks", "group_name", "group_size", "sequence"), 1.0),
        (("group_ranks", "group_name", "group_size"), 1.0),
        # Every tensor-parallel group is called the same, and a communicator tells them apart.
        (("group_size", "communicator", "sequence"), 1.0),
    ],
)
def test_clocks_matches_and_waits_are_those_that_were(job, stated, certainty):
    members = {group.name: group.ranks for group in job.groups}
    ranks = [rank for rank in range(RANKS) if rank != MISSING]
    noise = random.Random(9)  # noqa: S311
    tables, kept = [], {}
    for rank in ranks:
        own = sorted((one for one in job.collectives if rank in one.arrivals_ns), key=lambda one: one.end_ns)  # fmt: skip
        kept[rank] = [one for at, one in enumerate(own) if (rank, at) not in LOST]
        rows = []
        for one in kept[rank]:
            of_group = members[one.group]
            said = {
                "group_ranks": str(list(of_group)), "group_name": one.group, "group_size": len(of_group),
                "sequence": one.sequence, "communicator": f"0x{one.group}",
            }  # fmt: skip
            late = job.clock(rank, one.end_ns) + noise.randrange(2_000)
            start = job.clock(rank, one.arrivals_ns[rank])
            rows.append(
                {"operation": one.operation, "bytes": one.bytes, "start_ns": start, "end_ns": late}
                | {name: said[name] for name in stated}
            )
        schema = TABLES["collective"].arrow(READ)
        tables.append((rank, 0, pa.Table.from_pylist(rows, schema=schema)))
    facts = [RankInfo(rank, f"n{host_of(job.job, rank)}", 0, 1, False, {}) for rank in ranks]
    found = gather(facts, tables)
    aligned = align(found, facts)

    # Matches.
    was: dict[int, set[tuple[str, int]]] = {}
    alone = 0
    for at, rank in enumerate(ranks):
        for match, one in zip(aligned.matches.match[found.rank == at].tolist(), kept[rank], strict=True):  # fmt: skip
            alone += match < 0
            was.setdefault(match, set()).add((one.group, one.sequence))
    assert alone == aligned.unmatched == 0
    assert all(len(one) == 1 for one in was.values())
    assert len(was) == len(job.collectives)
    assert set(aligned.confidence.tolist()) == {certainty}

    # Clocks: each shows what it showed, within what is said to be uncertain.
    true = np.array([one.end_ns for one in job.collectives])
    by_first = np.array([job.clock(0, at) for at in true.tolist()])
    for at, rank in enumerate(ranks):
        clock = aligned.clocks[at]
        assert clock.rule == ("same host" if host_of(job.job, rank) == 0 else "collectives")
        assert clock.noise_ns is not None
        assert clock.noise_ns < 2_500
        shown = np.array([job.clock(rank, moment) for moment in true.tolist()])
        assert np.abs(clock.corrected(shown) - by_first).max() <= clock.noise_ns

    # Waits: of those who were not the last by less than the clocks let tell.
    wait = np.full(len(found), -1)
    wait[aligned.matches.rows] = aligned.waits.wait
    last = np.full(len(found), -1)
    last[aligned.matches.rows] = aligned.waits.last
    for at, rank in enumerate(ranks):
        rows = np.flatnonzero(found.rank == at)
        for row, one in zip(rows.tolist(), kept[rank], strict=True):
            if one.last_rank == MISSING:
                continue
            truth = max(one.arrivals_ns.values()) - one.arrivals_ns[rank]
            assert abs(wait[row] - truth) <= 5_000
            assert last[row] < 0 or ranks[last[row]] == one.last_rank
    assert (last >= 0).sum() > 100
