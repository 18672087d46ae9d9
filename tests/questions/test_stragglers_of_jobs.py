"""Stragglers in recordings: of simulated jobs, whose delays are known, and of a real one."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.simulated_job import START_NS, Delay, Job, Simulated, simulate

import stepscope

MS = 1_000_000


def test_a_delay_in_backward_is_pinned_on_its_rank_whoever_passes_it_on(tmp_path: Path) -> None:
    """Ranks 2 and 3 share layers, so that rank 2 arrives as late as rank 3 wherever both meet others."""
    job = simulate(
        Job(
            ranks=8, hosts=2, steps=3, tensor_parallel=2, clock_offset_ns=(0, -2_500_000_000),
            clock_drift_ppb=(0, 20_000), delays=(Delay(rank=3, ns=200 * MS, phase="backward", step=1),),
        )
    )  # fmt: skip
    job.write(tmp_path / "job")
    with stepscope.open(tmp_path / "job") as trace:
        rows = trace.ask("stragglers").rows()
        by_step = trace.ask("stragglers", by="step").rows()
        (finding,) = trace.ask("findings", id="straggling-rank").rows()
    late, *others = rows
    waited = sum(row["waited_ns"] for row in rows)
    assert late["rank"] == 3
    assert late["charged_ns"] > 0.97 * waited > 0.97 * 7 * 195 * MS
    assert max(abs(row["charged_ns"]) for row in others) < 0.01 * waited
    assert max(row["waited_by_others_ns"] for row in others if row["rank"] == 2) > 0.3 * waited
    assert late["host_ns"] > 0.97 * late["charged_ns"]
    assert late["why"].startswith("host")
    assert "nonzero" in late["why"]
    (in_step,) = [row for row in by_step if row["rank"] == 3 and row["step"] == 1]
    assert in_step["charged_ns"] > 0.97 * late["charged_ns"]
    assert finding["rank"] == 3


@pytest.mark.parametrize(
    ("delay", "cause"),
    [
        (Delay(rank=1, ns=20 * MS, phase="backward", kernels="GEMM"), "computation_ns"),
        (Delay(rank=1, ns=20 * MS, phase="input"), "input_ns"),
    ],
)
def test_slow_kernels_and_slow_input_are_told_apart(tmp_path: Path, delay: Delay, cause: str) -> None:
    simulate(Job(ranks=3, steps=4, delays=(delay,))).write(tmp_path / "job")
    with stepscope.open(tmp_path / "job") as trace:
        late, *others = trace.ask("stragglers").rows()
    assert late["rank"] == 1
    assert late[cause] > 0.9 * late["charged_ns"] > 0
    assert not any(row["charged_ns"] for row in others)


US = 1_000
AHEAD = Job(
    ranks=3, steps=5, exchange=True, synchronize=False, jitter=0.0, input_ns=10 * US, gemm_ns=15 * US, bucket_bytes=100_000,
)  # fmt: skip
"""Its hosts run ahead of their devices, by as much as a late first step made them."""


@pytest.mark.parametrize(
    ("job", "cause"),
    [
        (replace(AHEAD, layers=6, delays=(Delay(rank=2, ns=MS, phase="input"),)), None),
        (replace(AHEAD, delays=(Delay(rank=0, ns=150 * US, phase="backward", kernels="GEMM"),)), "computation_ns"),
        (
            Job(ranks=2, layers=7, steps=5, gemm_ns=15 * US, bucket_bytes=1_000_000, delays=(Delay(rank=1, ns=MS, phase="forward"),)),
            "host_ns",
        ),
        (
            Job(ranks=2, layers=8, steps=5, gemm_ns=60 * US, bucket_bytes=1_000_000, delays=(Delay(rank=1, ns=MS, phase="forward", step=2),)),
            "host_ns",
        ),
        (
            Job(
                ranks=4, layers=5, steps=5, tensor_parallel=2, gemm_ns=60 * US, bucket_bytes=1_000_000, jitter=0.0,
                delays=(Delay(rank=1, ns=MS, phase="forward", kernels="GEMM"),),
            ),
            "computation_ns",
        ),
        (
            Job(ranks=16, hosts=2, layers=2, steps=4, tensor_parallel=4, delays=(Delay(rank=5, ns=1500 * US, phase="backward"),)),
            "host_ns",
        ),
    ],
    ids=[
        "paced by a late loader", "ahead of slow kernels", "buckets behind a late host", "one late step", "shared layers",
        "layers shared by those who catch up",
    ],
)  # fmt: skip
def test_what_a_rank_is_charged_with_is_what_the_others_steps_lose(tmp_path: Path, job: Job, cause: str | None) -> None:
    """By the same job without the delay: the steps that count, from when the one before was done."""
    late, ran, even = job.delays[0].rank, simulate(job), simulate(replace(job, delays=()))
    others = [rank for rank in range(job.ranks) if rank != late]
    ran.write(tmp_path / "job")
    with stepscope.open(tmp_path / "job") as trace:
        rows = {row["rank"]: row for row in trace.ask("stragglers").rows()}
        what_if = trace.ask("what-if", without="straggler").rows()[1:]
        steps = {row["step"] for row in trace.ask("steps").rows() if row["counted"]}

    def mean_ns(of: Simulated) -> float:
        done = [[START_NS, *of.done_ns(rank)] for rank in others]
        return sum(own[max(steps) + 1] - own[min(steps)] for own in done) / len(done) / len(steps)

    step_ns = mean_ns(ran)
    lost_ns = step_ns - mean_ns(even)
    assert rows[late]["skew_ns"] == pytest.approx(lost_ns, abs=0.03 * step_ns)
    assert all(-0.01 * step_ns < rows[rank]["skew_ns"] < 0.03 * step_ns for rank in others)
    if cause is not None:
        assert rows[late][cause] > 0.8 * rows[late]["charged_ns"]
    for row in what_if:
        assert row["saved_ns"] == pytest.approx(lost_ns, abs=0.01 * step_ns)
        assert row["saved_high_ns"] >= lost_ns - 0.01 * step_ns


def test_where_the_late_rank_was_not_recorded_no_wait_is_told_and_no_transfer_is_certain(tmp_path: Path) -> None:
    simulate(Job(ranks=4, steps=4, delays=(Delay(rank=2, ns=3 * MS),))).write(tmp_path / "job", [0, 1, 3])
    with stepscope.open(tmp_path / "job") as trace:
        (moved,) = (table := trace.ask("communication")).rows()
        note = trace.ask("stragglers").note
        (_, row) = (what_if := trace.ask("what-if", without="communication")).rows()
        (finding,) = trace.ask("findings", id="communication-bound").rows()
        path = {row["kind"]: row["path_ns"] for row in trace.ask("critical-path").rows()}
        steps = trace.ask("critical-path", by="step").rows()
    assert "transfer" not in path
    assert path["communication"] == sum(row["communication_ns"] for row in steps) > 4 * MS
    assert "some lack a rank of their group, which may be the one that the others waited for" in note
    assert "No recorded rank is a straggler" in note
    assert (moved["wait_ns"], moved["transfer_ns"], moved["bandwidth_over"]) == (None, None, "duration")
    assert "bandwidths over them are lower bounds" in table.note
    assert (row["step_ns"], row["saved_ns"]) == (None, None)
    assert row["saved_low_ns"] == 0
    assert row["saved_high_ns"] > 2 * MS
    assert "12 collectives lack a rank that was not recorded, and may have come last" in what_if.note
    assert "waiting for the last rank" not in finding["title"]


def test_an_even_job_has_no_straggler(tmp_path: Path) -> None:
    simulate(Job(ranks=4, hosts=2, steps=3)).write(tmp_path / "job")
    with stepscope.open(tmp_path / "job") as trace:
        assert not trace.ask("findings", id="straggling-rank").rows()
        assert set(trace.ask("stragglers")["why"]) == {None}


@pytest.mark.traces
def test_rank_7_of_a_recommender_is_late_from_before_its_recording(shared_traces: Any) -> None:
    """Its profiler starts 7.5 ms after rank 1's, and from there to its first all-to-all it takes as long."""
    with stepscope.open(shared_traces / "kineto" / "dlrm_8rank_v100") as trace:
        rows = trace.ask("stragglers").rows()
        (longest,) = trace.sql("SELECT rank, wait_ns, last_rank FROM collective ORDER BY wait_ns DESC LIMIT 1").rows()
    assert (longest["rank"], longest["last_rank"]) == (1, 7)
    assert longest["wait_ns"] == pytest.approx(7_624_000, abs=10_000)
    late = rows[0]
    assert (late["rank"], late["last"]) == (7, 5)
    assert late["before_ns"] / late["charged_ns"] == pytest.approx(0.799, abs=0.01)
    assert late["host_ns"] / late["charged_ns"] == pytest.approx(0.200, abs=0.01)
    assert late["why"].startswith("before the recording 79.")


def test_in_a_pipeline_nobody_costs_the_others_more_than_they_waited(tmp_path: Path) -> None:
    """Its stages meet in sends alone: followed back to the start of the recording, waits made 293 % of a step."""
    job = simulate(
        Job(
            ranks=8, hosts=2, steps=3, pipeline_parallel=4, microbatches=4,
            delays=(Delay(rank=3, ns=5 * MS, phase="backward"),),
        )
    )  # fmt: skip
    job.write(tmp_path / "job")
    with stepscope.open(tmp_path / "job") as trace:
        answer = trace.ask("stragglers")
    rows = answer.rows()
    waited = sum(row["waited_ns"] for row in rows)
    assert rows[0]["rank"] == 3
    assert "nonzero" in rows[0]["why"]
    assert 0.8 * waited < sum(row["charged_ns"] for row in rows) <= waited
    assert all(-0.05 * waited < row["charged_ns"] < waited for row in rows)


def test_stages_whose_clocks_nothing_compares_cost_no_more_than_was_waited(tmp_path: Path) -> None:
    """Between stages on two hosts nothing compares clocks, so that what a wait hangs on may not be known."""
    job = simulate(
        Job(
            ranks=8, hosts=2, steps=4, pipeline_parallel=2, tensor_parallel=2, microbatches=2,
            schedule="GPipe", delays=(Delay(rank=7, ns=5 * MS, phase="input"),),
        )
    )  # fmt: skip
    job.write(tmp_path / "job")
    with stepscope.open(tmp_path / "job") as trace:
        answer = trace.ask("stragglers")
        by_cause = trace.ask("stragglers", by="cause").rows()
    rows = answer.rows()
    assert rows[0]["rank"] == 7
    assert sum(row["charged_ns"] for row in rows) <= sum(row["waited_by_others_ns"] for row in rows)
    assert by_cause
