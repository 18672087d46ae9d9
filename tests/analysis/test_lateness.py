"""The exposed part of waits: each moment once, and none lost where collectives overlap."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.questions.meetings import MS, Meetings

from stepscope.analysis.lateness import Lateness, find_lateness
from stepscope.answers.scope import Scope
from stepscope.store.open import Store

_END = 100
_TIME = st.integers(0, 60)


def _lateness(job: Meetings) -> Lateness:
    with Store.from_rows(job.rows()) as store, Scope(store) as scope:
        found = find_lateness(scope)
    assert found is not None
    return found


def test_a_wait_is_not_lost_where_the_next_collective_starts_before_its_recorded_end() -> None:
    exposed = []
    for late_ns in (0, 50_000):
        job = Meetings(_END)
        job.meet({0: 10, 1: 40}, 41)
        job.meet({0: 41, 1: 71}, 72)
        first = job.tables["collective"][0]
        first["end_ns"] += late_ns
        job.tables["device_event"][first["id"]]["dur_ns"] += late_ns
        exposed.append(_lateness(job).exposed_ns.tolist())
    assert exposed == [[30 * MS, 30 * MS]] * 2


@examples(60)
@given(
    st.lists(st.tuples(_TIME, _TIME, st.integers(1, 20)), min_size=1, max_size=6),
    st.lists(st.tuples(_TIME, st.integers(1, 15)), max_size=3),
)
def test_exposed_waits_of_a_rank_add_up_to_their_union(
    meetings: list[tuple[int, int, int]], computed: list[tuple[int, int]]
) -> None:
    job = Meetings(_END)
    for stream, (first, second, dur) in enumerate(meetings):
        job.meet({0: first, 1: second}, max(first, second) + dur, stream=20 + stream)
    for start, dur in computed:
        job.compute(0, start, start + dur)
    waits = np.zeros((2, _END), dtype=bool)
    for first, second, _ in meetings:
        waits[0, first:second] = True
        waits[1, second:first] = True
    for start, dur in computed:
        waits[0, start : start + dur] = False
    found = _lateness(job)
    for rank in (0, 1):
        assert found.exposed_ns[found.waiter == rank].sum() == waits[rank].sum() * MS
