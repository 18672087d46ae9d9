"""What a cure saves the job at most, where a loss on one rank holds the others up."""

from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.simulated_job import Delay, Job, Simulated, simulate

import stepscope
from stepscope.findings.declare import HIGH, MEDIUM
from stepscope.findings.waiting import Waiting

MS = 1_000_000
RANKS, STEPS = 3, 6


def of(*ns: float | None, together: bool = True) -> Waiting:
    return Waiting(dict(enumerate(ns)), dict.fromkeys(range(len(ns)), 2), together=together)


@pytest.mark.parametrize(
    ("waiting", "lost_on", "most"),
    [
        (of(0, 80, 80, 80), "ranks", 40),  # all of it may lie on rank 0, for which the others wait
        (of(0, 10, 80, 80), "ranks", 25),
        (of(30, 30, 30, 30), "ranks", 40),
        (of(0, 80, 80, 80), 0, 10),  # no step gets shorter than what rank 0 does without it
        (of(0, 80, 80, 80), 2, 90),
        (of(0, 80, 80, 80), "job", 10),
        (of(0, 80, 80, 80, together=False), "ranks", 70),
        (of(0, 0, 0, 0, together=False), "ranks", 10),  # nobody waits: each rank's own step counts
        (of(5, None, 5, 5), "ranks", 40),  # not timed on all ranks: all of them may lose it in turn
        (of(None), "ranks", 10),
        (of(), "ranks", 10),
    ],
)
def test_a_loss_counts_with_what_others_wait_for_it(waiting: Waiting, lost_on: object, most: float) -> None:
    assert waiting.saved_by_job(10, lost_on) == most  # type: ignore[arg-type]


@given(ranks=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=6))
@examples(100)
def test_no_way_to_lie_on_the_ranks_makes_a_loss_larger_than_its_bound(ranks: list[tuple[int, int]]) -> None:
    lost, waits = zip(*ranks, strict=True)
    bound = of(*waits).saved_by_job(fmean(lost), "ranks")
    assert bound >= min(a + b for a, b in ranks) - 1e-9
    assert bound <= min(fmean(lost) + fmean(waits), sum(lost) + min(waits)) + 1e-9


def _mean_step_ns(job: Simulated) -> float:
    """Of the steps of which findings are, whose first is left out as slow."""
    return fmean(ns for rank in range(RANKS) for ns in job.step_ns(rank)[1:])


def test_the_bound_of_a_loader_that_waits_on_one_rank_in_turn_holds(tmp_path: Path) -> None:
    delays = tuple(Delay(step % RANKS, 9 * MS, "input", step) for step in range(STEPS))
    made = simulate(Job(ranks=RANKS, steps=STEPS, layers=2, input_ns=300_000, delays=delays))
    cured = simulate(replace(made.job, delays=()))
    made.write(tmp_path / "job")
    with stepscope.open(tmp_path / "job") as trace:
        (found,) = trace.ask("findings", id="input-bound").rows()
    saved = _mean_step_ns(made) - _mean_step_ns(cured)
    assert found["value"] * _mean_step_ns(made) < 0.6 * saved  # what it rests on is no bound
    assert saved <= found["saving_job_ns"] < 1.1 * saved
    assert found["saving_job_ns"] < _mean_step_ns(made)
    assert "may gain more" in found["advice"]
    assert HIGH > found["saving_share_ratio"] >= found["value"] > MEDIUM
    assert found["severity"] == "medium"  # by its own loss, however long the others wait for it


def test_messages_of_a_pipeline_have_the_cures_of_a_pipeline(tmp_path: Path) -> None:
    job = Job(ranks=4, steps=3, pipeline_parallel=4, microbatches=4, layers=4)
    simulate(job).write(tmp_path / "job")
    with stepscope.open(tmp_path / "job") as trace:
        (finding,) = trace.ask("findings", id="communication-bound").rows()
    assert "microbatches" in finding["advice"]
    assert "no_sync" not in finding["advice"]


def test_what_is_said_of_a_saving_is_a_ranks_own_however_long_it_may_have_waited(tmp_path: Path) -> None:
    """On one rank of several nothing tells waiting from transfer: all of its communication would be in the bound of a copy."""
    simulate(Job(ranks=RANKS, steps=STEPS, copy_ns=2 * MS, delays=(Delay(1, 9 * MS),))).write(tmp_path / "job", [0])
    with stepscope.open(tmp_path / "job") as trace:
        (found,) = trace.ask("findings", id="copy-bound").rows()
    assert found["saving_high_ns"] < 3 * MS < 8 * MS < found["saving_job_ns"]
    assert "Ranks that wait for each other may gain more." in found["advice"]
