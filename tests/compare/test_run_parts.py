"""Waiting is told from transfer only where the recordings say which steps of which ranks are one."""

import pytest
from tests.literal import literal_store
from tests.questions.meetings import Meetings

from stepscope.compare.run_parts import separates_waiting, step_parts
from stepscope.query.scope import Scope


@pytest.mark.parametrize(
    ("world_size", "rule", "told"),
    [
        (2, "ProfilerStep", True),
        (3, "ProfilerStep", False),
        (None, "ProfilerStep", False),
        (2, "recurring operators", False),
    ],
)
def test_waiting_is_told_where_all_ranks_and_marked_steps_are_there(world_size, rule, told):
    job = Meetings(end=20, steps=1)
    for rank in range(2):
        job.on_host(rank, 0, 1, "aten::mm")
        job.compute(rank, 1, 4 + rank)
    job.meet({0: 5, 1: 6}, 9)
    rows = job.rows()
    rows["step"] = [step | {"rule": rule} for step in rows["step"]]
    rows["rank"] = [{"rank": rank, "world_size": world_size} for rank in range(2)]
    with literal_store(rows) as store, Scope(store) as scope:
        assert separates_waiting(scope, step_parts(scope)) == told
