"""`scaling` of traces, phases and exports: against a simulated job of which everything is known."""

from contextlib import ExitStack

import pytest
from tests.literal import literal_store
from tests.simulated_job import Delay, Job, simulate

import stepscope
from stepscope.api.comparisons import scaling
from stepscope.api.trace import Trace
from stepscope.base.errors import SourceError
from stepscope.report.renderers import Layout
from stepscope.report.scaling_chart import scaling_chart
from stepscope.report.scaling_text import scaling_lines

SIZES = (1, 2, 4)
SMALL = {"steps": 4, "layers": 1, "jitter": 0.0}
LATE = 400_000


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Recordings of a job whose products are shared by all ranks, and of one whose rank 0 is late."""
    folder = tmp_path_factory.mktemp("runs")
    late = Delay(rank=0, ns=LATE, phase="backward")
    with ExitStack() as stack:

        def recorded(name, **job):
            simulate(Job(**job, **SMALL)).write(folder / name)
            return stack.enter_context(stepscope.open(folder / name))

        yield (
            [recorded(f"strong{n}", ranks=n, gemm_ns=1_600_000 // n) for n in SIZES],
            [recorded(f"weak{n}", ranks=n, delays=(late,)) for n in SIZES],
        )


def of(table, label, ranks):
    (row,) = (row for row in table.rows() if (row["label"], row["ranks"]) == (label, ranks))
    return row


def check_sums(table):
    for ranks in SIZES:
        whole = of(table, "iteration", ranks)
        parts = [row for row in table.rows() if row["ranks"] == ranks and row["label"] != "iteration"]
        for column in ("average_ns", "over_ideal_ns"):
            assert sum(part[column] for part in parts) == pytest.approx(whole[column], abs=1)


def test_the_serial_part_of_the_computation_is_what_was_not_shared(runs):
    """Of a step's kernels only the products are divided by the ranks."""
    table = scaling(runs[0], mode="strong")
    check_sums(table)
    alone = of(table, "computation", 1)["average_ns"]
    shared = of(table, "computation", 1)["average_ns"] - of(table, "computation", 2)["average_ns"]
    serial = 1 - 2 * shared / alone
    for ranks in SIZES[1:]:
        assert of(table, "computation", ranks)["serial_ratio"] == pytest.approx(serial, rel=1e-3)
    assert 0.005 < serial < 0.05
    assert of(table, "exposed transfer", 4)["average_ns"] > 0
    assert of(table, "exposed transfer", 4)["efficiency_ratio"] is None


def test_the_next_doubling_is_where_the_simulated_job_lands(runs):
    """Eight ranks are simulated and not shown to the model."""
    row = of(scaling(runs[0], mode="strong"), "iteration", 4)
    truth = simulate(Job(ranks=8, gemm_ns=1_600_000 // 8, **SMALL))
    step = truth.step_ns(0)
    assert row["next_ranks"] == 8
    assert row["next_low_ns"] < sum(step) / len(step) < row["next_high_ns"]
    assert row["next_ns"] == pytest.approx(sum(step) / len(step), rel=0.05)


def test_waiting_for_a_late_rank_is_imbalance_and_no_communication(runs):
    """All others wait as long as rank 0 is late, and it waits for nobody."""
    table = scaling(runs[1])
    check_sums(table)
    for ranks in SIZES[1:]:
        imbalance = of(table, "imbalance", ranks)
        assert 0.3 * LATE < imbalance["max_ns"] <= LATE
        assert imbalance["average_ns"] == pytest.approx(imbalance["max_ns"] * (ranks - 1) / ranks, rel=0.05)
        assert of(table, "host", ranks)["slowest_rank"] == 0
    assert of(table, "computation", 4)["efficiency_ratio"] == pytest.approx(1, abs=0.01)


def test_ranks_that_were_not_recorded_may_be_the_late_ones(runs, tmp_path):
    simulate(Job(ranks=2, **SMALL)).write(tmp_path, ranks=[1])
    table = scaling([runs[1][0], tmp_path])
    assert "imbalance" not in {row["label"] for row in table.rows()}
    assert "includes waiting for late ranks" in table.note
    assert f"Figures are over 1 of the 2 ranks of {tmp_path.name}." in table.note
    assert "Figures are over" not in scaling(runs[1]).note


def test_in_words_the_loss_is_told_part_by_part_and_the_next_doubling_with_its_interval(runs):
    table = scaling(runs[0], mode="strong")
    lines = [line.text for line in scaling_lines(table, Layout(120))]
    assert any(line.startswith("On 4 ranks the iteration takes ") for line in lines)
    (place,) = (n for n, line in enumerate(lines) if line.startswith("On 8 ranks, by t = a + b / ranks"))
    assert "; iteration " in lines[place]
    figure = scaling_chart(table)
    assert len(figure.axes) == 2
    assert figure.axes[1].get_ylabel() == "strong-scaling efficiency of the iteration"


def phases(ranks, ns, samples=None):
    """A run of phases: three steps on each rank that take so long, with so many samples."""
    every = [(rank, step) for rank in range(ranks) for step in (1, 2, 3)]
    rows = {
        "rank": [{"rank": rank} for rank in range(ranks)],
        "phase": [{"rank": rank, "phase": "step", "steps": 3, "mean_ns": float(ns)} for rank in range(ranks)],
        "phase_step": [{"rank": rank, "step": step, "dur_ns": ns} for rank, step in every],
    }
    if samples is not None:
        rows["step_value"] = [{"rank": rank, "step": step, "name": "samples", "value": samples} for rank, step in every]
    return Trace(literal_store(rows))


def asked(*runs, **options):
    try:
        return scaling(runs, **options)
    finally:
        for run in runs:
            run.close()


def test_batches_tell_weak_from_strong_scaling():
    weak = asked(phases(1, 100, 16), phases(2, 110, 16))
    assert weak.rows()[0]["mode"] == "weak"
    assert weak.note.startswith("Weak scaling: a step has 16 samples on each rank in every run.")
    strong = asked(phases(1, 100, 32), phases(2, 60, 16))
    assert strong.rows()[0]["mode"] == "strong"
    assert "32 samples on all ranks together" in strong.note
    assert of(strong, "iteration", 2)["efficiency_ratio"] == pytest.approx(100 / 60 / 2)


def test_a_mode_that_the_batches_contradict_is_cautioned():
    contradicted = asked(phases(1, 100, 16), phases(2, 110, 16), mode="strong")
    assert contradicted.rows()[0]["mode"] == "strong"
    assert "the entire job's batch is not the same in all runs (16, 32 samples" in contradicted.note
    neither = asked(phases(1, 100, 16), phases(2, 110, 12))
    assert "each rank's batch is not the same" in neither.note
    unknown = asked(phases(1, 100), phases(2, 110, 12))
    assert unknown.note.startswith("Taken for weak scaling")


def test_samples_per_second_are_set_beside_linear_scaling():
    note = asked(phases(1, 1_000_000, 16), phases(2, 1_250_000, 16)).note
    assert "Samples per second: 16\u202f000 ± 0 on 1 rank; 25\u202f600 ± 0 on 2 ranks, 80.0 % of linear." in note


def test_runs_that_were_recorded_differently_are_refused_and_each_is_named(runs):
    with phases(1, 100) as run, pytest.raises(SourceError) as refused:
        scaling([run, runs[1][1]], names=["one", "two"])
    assert "one has phases; two has traced steps" in refused.value.message


@pytest.mark.traces
def test_exports_of_nsight_systems_are_runs(shared_traces):
    nsys = [shared_traces / "nsys" / f"h100_2gpu_{name}.sqlite.gz" for name in ("before", "after")]
    table = scaling(nsys)
    labels = {row["label"] for row in table.rows()}
    assert {"iteration", "computation", "exposed communication", "host"} <= labels
    # No file tells the ranks, and each rank's steps are found by what recurs on it.
    assert "imbalance" not in labels
    assert "includes waiting for late ranks" in table.note
