import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.literal import literal_store

import stepscope
from stepscope.api.trace import Trace

STEP = {"phase": "step", "steps": 4, "mean_ns": 100.0}
FORWARD = {"phase": "forward", "steps": 4, "mean_ns": 40.0}


def test_phases_stand_in_the_order_of_a_step_with_their_share_of_it(diff):
    diff(
        "phases",
        {
            "phase": [
                {**FORWARD, "phase": "residual", "mean_ns": 10.0},
                FORWARD,
                {**FORWARD, "phase": "input_wait", "mean_ns": 50.0, "median_ns": 45.0},
                {**STEP, "peak_bytes": 512},
            ]
        },
        """
        rank,phase,mean_ns,share_ratio,median_ns,peak_bytes,verdict
        0,step,100.0,1.0,,512,Input-bound: for 50.0 % of the step (50 ns) training waits for the next batch of the DataLoader
        0,input_wait,50.0,0.5,45.0,,
        0,forward,40.0,0.4,,,
        0,residual,10.0,0.1,,,
        """,
    )


def test_ranks_are_held_against_the_fastest(diff):
    diff(
        "phases",
        {"phase": [{**FORWARD, "rank": 0}, {**FORWARD, "rank": 1, "mean_ns": 60.0}]},
        "rank,phase,share_ratio,over_fastest_ratio\n0,forward,,1.0\n1,forward,,1.5",
    )


def _step(step, total, rank=0, memory=None, **phases):
    whole = {"phase": "step", "dur_ns": total, "memory_bytes": memory, "peak_bytes": memory}
    rest = total - sum(phases.values())
    parts = [{"phase": name, "dur_ns": dur} for name, dur in {**phases, "residual": rest}.items()]
    return [{"rank": rank, "step": step, **row} for row in (whole, *parts)]


def test_kept_steps_stand_side_by_side_with_their_memory(diff):
    diff(
        "phases",
        {"phase_step": [*_step(6, 100, forward=60), *_step(7, 150, memory=4096, forward=90)]},
        """
        rank,step,total_ns,over_median_ratio,memory_bytes,input_wait_ns,forward_ns,residual_ns
        0,6,100,0.8,,,60,40
        0,7,150,1.2,4096,,90,60
        """,
        by="step",
    )


def test_windows_are_means_of_twentieths_of_the_run_of_each_rank(answer):
    steps = [row for n in range(40) for row in _step(n, 100 + n // 2, memory=n, forward=60)]
    few = [row for n in range(3) for row in _step(n, 70, rank=1, forward=60)]
    rows = answer("phases", {"phase_step": [*few, *steps]}, by="window").rows()
    assert [row["step"] for row in rows if row["rank"] == 0] == list(range(0, 40, 2))
    assert [row["total_ns"] for row in rows if row["rank"] == 0] == list(range(100, 120))
    assert [row["memory_bytes"] for row in rows if row["rank"] == 0] == list(range(1, 40, 2))
    assert [row["step"] for row in rows if row["rank"] == 1] == [0, 1, 2]


def test_of_asked_steps_everything_is_over_those_alone(diff):
    steps = [*_step(6, 100, forward=60), *_step(7, 150, forward=90), *_step(8, 10**6, forward=0)]
    diff(
        "phases",
        {"phase": [STEP], "phase_step": steps},
        """
        phase,steps,mean_ns,share_ratio,max_ns,verdict
        step,2,125.0,1.0,150,"Residual: 40.0 % of the step (50 ns) is outside loading, forward, backward and optimizer"
        forward,2,75.0,0.6,90,
        residual,2,50.0,0.4,60,
        """,
        steps=(6, 7),
    )


def test_a_step_that_was_timed_in_place_of_many_counts_as_many(answer):
    lasted = {1: (30_000, 1), 2: (30_000, 1), 3: (2_000, 256)}
    rows = [{"step": at, "dur_ns": ns, "weight": of} for at, (ns, of) in lasted.items()]
    (row,) = answer("phases", {"phase": [STEP], "phase_step": rows}, steps=(1, 2, 3)).rows()
    assert (row["steps"], row["mean_ns"]) == (258, 572_000 / 258)
    # Of 258 steps, two took 30 µs.
    assert (row["median_ns"], row["p95_ns"]) == (2_000.0, 2_000.0)
    by_step = answer("phases", {"phase": [STEP], "phase_step": rows}, by="step").rows()
    assert [one["over_median_ratio"] for one in by_step] == [15.0, 15.0, 1.0]


def test_what_timing_takes_of_a_timed_step_is_said_where_it_is_much(answer):
    timed = {**STEP, "timed_every": 64}
    much = answer("phases", {"phase": [{**timed, "timing_ns": 20}]}).note
    assert "One in 64 steps is timed: timing one takes 20 ns, 0.3 % of 64 mean steps. Up to 16.7 % of a timed step is timing itself." in much  # fmt: skip
    little = answer("phases", {"phase": [{**timed, "timing_ns": 4}]}).note
    assert "Up to" not in little


def _timed(steps):
    """Of (forward, residual, steps that it stands for, what these took together): the tables, and the mean step."""
    rows = []
    for at, (forward, residual, of, together) in enumerate(steps):
        whole, *parts = _step(at, forward + residual, forward=forward)
        rows += [{**whole, "weight_ns": together}, *parts]
        for row in rows[-3:]:
            row["weight"] = of
    n = sum(of for *_, of, _ in steps)
    means = {
        "step": sum(together for *_, together in steps) / n,
        "forward": sum(forward * of for forward, _, of, _ in steps) / n,
        "residual": sum(residual * of for _, residual, of, _ in steps) / n,
    }
    phase = [{"phase": name, "steps": n, "mean_ns": mean} for name, mean in means.items()]
    return {"phase": phase, "phase_step": rows}, means["step"]


def _means(found):
    return {row["phase"]: row["mean_ns"] for row in found.rows()}


def test_a_long_step_that_is_seldom_and_timed_does_not_count_as_often_as_the_others_that_it_stands_for(answer):
    """1,000 steps of 100 ns, one of which took 10,100 ns, in its residual: it was one of the ten that were timed."""
    usual = [(80 + at, 20, 100, 100 * 100) for at in (-2, -1, 0, 1, 2, -2, -1, 0, 1)]
    tables, mean = _timed([*usual, (80, 10_020, 100, 100 * 100 + 10_000)])
    found = answer("phases", tables)
    means = _means(found)
    assert (means["step"], set(means)) == (mean, {"step", "forward", "residual"})
    assert mean == 110
    assert means["forward"] == pytest.approx(80, abs=0.5)
    assert means["residual"] == pytest.approx(30, abs=0.5)
    assert "The timed steps take 899.8 % more than the mean step of all, 110 ns" in found.note
    windows = answer("phases", tables, by="window").rows()
    assert all(row["forward_ns"] + row["residual_ns"] <= row["total_ns"] + 1 for row in windows)


def test_long_steps_that_were_not_timed_are_other_steps(answer):
    tables, mean = _timed([(80, 20, 100, 100 * 100), (82, 20, 100, 100 * 300)])
    found = answer("phases", tables)
    assert _means(found) == {
        "step": mean, "forward": 81, "residual": 20, "other steps": mean - 101,
    }  # fmt: skip
    assert "rare long steps were not timed" in found.note


def _two_ranks(usual, with_long):
    """A rank whose timed steps are like all of its steps, and one whose long steps were not timed."""
    tables = [_timed(own)[0] for own in (usual, with_long)]
    return {
        name: [row | {"rank": rank} for rank, own in enumerate(tables) for row in own[name]] for name in tables[0]
    }  # fmt: skip


def test_means_over_ranks_add_up_where_one_rank_alone_has_long_steps_that_were_not_timed(answer):
    even = [(80, 20, 100, 100 * 100), (82, 20, 100, 100 * 102)]
    long = [(80, 20, 100, 100 * 100), (82, 20, 100, 100 * 300)]
    job = _two_ranks(even, long)
    rows = answer("phases", job).rows()
    assert [row["mean_ns"] for row in rows if row["phase"] == "other steps"] == [0, 99]
    shown = [row for row in answer("summary", job).rows() if row["section"] == "phases"]
    parts = {row["item"]: row["time_ns"] for row in shown}
    whole = parts.pop("step", None)
    assert sum(ns for ns in parts.values() if ns) == pytest.approx(whole or (101 + 200) / 2, abs=1)
    assert parts["other steps"] == pytest.approx(99 / 2, abs=1)


def test_steps_that_all_were_timed_have_no_other_steps_and_are_compared_as_having_none():
    even, long = _timed([(80, 20, 100, 100 * 100)] * 2)[0], _timed([(80, 20, 100, 100 * 300)] * 2)[0]
    with Trace(literal_store(even)) as one, Trace(literal_store(long)) as other:
        (row,) = [row for row in stepscope.diff(one, other, by="phase").rows() if row["name"] == "other steps"]
        scaled = [one for one in stepscope.scaling([one, other]).rows() if one["label"] == "other steps"]
    assert (row["before_ns"], row["after_ns"], row["change_ns"]) == (0, 200, 200)
    assert [one["average_ns"] for one in scaled] == [0, 200]


@examples(15)
@given(
    st.lists(
        st.tuples(st.integers(0, 10**6), st.integers(0, 10**9), st.integers(1, 256), st.integers(0, 10**6)),
        min_size=1,
        max_size=12,
    )
)
def test_phases_add_up_to_the_mean_step_and_none_is_below_nothing(answer, steps):
    """Whatever the steps between the timed ones took."""
    tables, mean = _timed([(own, rest, of, own + rest + (of - 1) * each) for own, rest, of, each in steps])
    for asked in (None, tuple(range(len(steps)))):
        means = _means(answer("phases", tables, steps=asked))
        assert means.pop("step") == pytest.approx(mean)
        assert min(means.values()) >= 0
        assert sum(means.values()) == pytest.approx(mean, rel=1e-5, abs=1)


def test_a_run_that_ends_with_its_first_steps_has_all_of_them_timed(answer):
    phase = [{**STEP, "timed_every": 64, "timing_ns": 20}]
    rows = [{"step": 1, "dur_ns": 100, "weight": 1}]
    assert "is timed" not in answer("phases", {"phase": phase, "phase_step": rows}).note
    rows[0]["weight"] = 64
    assert "One in 64 steps is timed" in answer("phases", {"phase": phase, "phase_step": rows}).note
