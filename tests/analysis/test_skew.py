"""What waits cost: of several buckets once, beside computation nothing, and none lost where collectives overlap."""

from typing import Any

from tests.literal import literal_store
from tests.questions.meetings import MS, Meetings

from stepscope.analysis.ranks.skew import RankSkew, find_skew
from stepscope.query.scope import Scope

_END = 100


def _lateness(rows: dict[str, Any]) -> RankSkew:
    with literal_store(rows) as store, Scope(store) as scope:
        found = find_skew(scope)
    assert found is not None
    return found


def test_a_wait_is_not_lost_where_the_next_collective_starts_before_its_recorded_end() -> None:
    costs = []
    for skew_ns in (0, 50_000):
        job = Meetings(_END)
        job.meet({0: 10, 1: 40}, 41)
        job.meet({0: 41, 1: 71}, 72, launch_ns=41 * MS)
        first = job.tables["collective"][0]
        first["end_ns"] += skew_ns
        job.tables["device_event"][first["id"]]["dur_ns"] += skew_ns
        costs.append(_lateness(job.rows()).cost_ns.tolist())
    assert costs == [[30 * MS, 30 * MS]] * 2


def buckets(late: int) -> Meetings:
    """A backward of three parts whose gradients are summed beside it; rank 1's batch is there `late` ms later. The host
    is far ahead of the device."""
    job = Meetings(200)
    job.meet({0: 5, 1: 5}, 10)
    job.on_host(1, 10, 10 + late, "loader", kind="annotation", role="dataloader")
    ended = 0
    for part in range(3):
        since = 10 + 10 * part
        for rank, start in ((0, since), (1, since + late)):
            job.compute(rank, start, start + 10, launch_ns=2 * part)
        arrived = since + 10 + late
        job.meet({0: max(since + 10, ended), 1: arrived}, arrived + 2, launch_ns=2 * part + 1)
        ended = arrived + 2
    for rank in (0, 1):
        job.compute(rank, ended, ended + 10, launch_ns=9)
    return job


def test_of_buckets_that_all_wait_for_a_late_batch_what_was_lost_counts_once() -> None:
    for late in (5, 9, 20):
        found = _lateness(buckets(late).rows())
        assert found.wait_ns.sum() > late * MS
        assert found.cost_ns.sum() == late * MS
        assert round(found.charged_ns.sum()) == late * MS
        input_ns, *others = found.by_rank(found.charged_ns)[1].tolist()
        assert input_ns >= late * MS
        assert max(others) < 1


def test_a_wait_beside_computation_costs_nothing() -> None:
    job = Meetings(_END)
    job.meet({0: 10, 1: 30}, 32)
    job.compute(0, 5, 50)
    job.compute(1, 5, 30)
    found = _lateness(job.rows())
    assert found.wait_ns.tolist() == [20 * MS]
    assert found.cost_ns.tolist() == [0]
