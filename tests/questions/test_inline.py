import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.literal import literal_store

from stepscope.base.statistics import describe, quantile
from stepscope.query.ask import ask
from stepscope.questions import find

FC = {"label": "fc1.forward", "device": 0, "stream": 0, "start_index": 1, "end_index": 2}
OUTER = {"label": "forward", "device": 0, "stream": 0, "start_index": 0, "end_index": 3}


def _iteration(dur_ns, **columns):
    return {"kind": "iteration", "label": "iteration", "dur_ns": dur_ns, **columns}


def test_a_start_is_that_of_its_own_measurements(diff):
    """Each was measured in other iterations: a slow one of them moves no event that was measured in another."""
    diff(
        "inline",
        {
            "inline_timing": [
                {"kind": "iteration", "dur_ns": 1_100},
                {**OUTER, "dur_ns": 9, "start_offset_ns": 1_019},
                {**FC, "dur_ns": 5, "start_offset_ns": 915},
                {**FC, "label": "alone", "stream": 1, "dur_ns": 5, "start_offset_ns": 7},
                {**FC, "label": "alone", "stream": 1, "dur_ns": 5, "start_offset_ns": 9_003},
            ]
        },
        """
        label,start_offset_ns,inside
        ,,
        forward,1019.0,
        alone,7.0,
        fc1.forward,915.0,forward
        """,
    )


def test_phases_without_measured_events_are_named(answer):
    empty = answer("inline", {"phase_step": [{"step": 1, "phase": "step", "dur_ns": 5}]})
    assert empty.rows() == []
    assert empty.note.startswith("Nothing was measured inline; `stepscope phases` has")


@pytest.mark.parametrize(
    ("script", "named"),
    [
        ("src/lm.py", "src/lm.py"),
        ("-m package.train", "-m package.train"),
        ("my train.py", "train.py"),  # which would need quotes
        ("x.py`; rm -rf ~", "train.py"),
        ("--inline", "train.py"),
        (None, "train.py"),
    ],
)
def test_a_command_that_records_again_names_the_script_that_was_recorded(answer, script, named):
    step = {"step": 1, "dur_ns": 5}
    source = {"format": "phases", "metadata": json.dumps({"script": script})}
    table = answer("inline", {"phase_step": [step], "source": [source]})
    assert f"`stepscope record --inline -- {named}`" in table.note
    empty = answer("hotspots", {"phase_step": [step], "source": [source]})
    assert f"stepscope record --sample -- {named}, or" in empty.note
    stalled = {"kind": "cpu_utilization", "report": "stepscope", "metric": "m", "unit": "%", "value": 1.0}
    (row,) = answer("host-metrics", {"source": [source], "host_metric": [stalled]}).rows()
    assert row["next"].endswith(f"stepscope record --sample -- {named}")


def test_below_two_per_cent_of_deviation_it_is_stable(diff):
    diff(
        "inline",
        {
            "inline_timing": [
                *({**FC, "label": "steady", "dur_ns": dur} for dur in (1000, 1010, 1020)),
                *({**FC, "label": "unsteady", "dur_ns": dur} for dur in (1000, 1030, 1060)),
                {**FC, "label": "once", "dur_ns": 5},
            ]
        },
        """
        label,n,stable
        once,1,
        steady,3,True
        unsteady,3,False
        """,
    )


def test_events_come_as_they_run_and_know_what_is_around_them(diff):
    diff(
        "inline",
        {
            "inline_timing": [
                {**FC, "dur_ns": 25},
                {**OUTER, "dur_ns": 50},
                # on another stream nothing is around it
                {**FC, "label": "copy", "stream": 7, "dur_ns": 1},
                {**FC, "label": "backward", "start_index": 4, "end_index": 5, "dur_ns": 9},
                _iteration(100),
            ]
        },
        """
        label,mean_ns,share_ratio,inside
        iteration,100.0,1.0,
        forward,50.0,0.5,
        copy,1.0,0.01,
        fc1.forward,25.0,0.25,forward
        backward,9.0,0.09,
        """,
    )


def test_iterations_in_which_nothing_was_measured_count_where_there_are_such(diff):
    diff(
        "inline",
        {
            "inline_timing": [
                _iteration(100, armed=False),
                _iteration(900, armed=True),
                _iteration(300, armed=True, rank=1),
                _iteration(400, rank=2),
            ]
        },
        """
        rank,n,mean_ns
        0,1,100.0
        1,1,300.0
        2,1,400.0
        """,
    )


def test_an_average_alone_has_no_statistics(diff):
    diff(
        "inline",
        {"inline_timing": [{**FC, "dur_ns": 30, "averaged": True}]},
        "label,n,mean_ns,median_ns,std_ns,p95_ns,ci95_low_ns,stable\nfc1.forward,,30.0,,,,,",
    )


def test_of_more_than_was_kept_mean_deviation_and_interval_are_of_all(answer):
    """Ten thousand were measured, three were kept: 9950 to 10050 by t(1000) of 1.962 and a deviation of 100."""
    kept = [{**FC, "dur_ns": dur} for dur in (9_000, 10_100, 12_000)]
    of_all = {"dur_ns": 10_000, "averaged": True, "measurements": 10_000, "std_ns": 100.0}
    (row,) = answer("inline", {"inline_timing": [*kept, {**FC, **of_all}]}).rows()
    assert (row["n"], row["mean_ns"], row["median_ns"]) == (10_000, 10_000.0, 10_100.0)
    assert row["ci95_high_ns"] - row["mean_ns"] == pytest.approx(1.962, rel=1e-3)
    assert row["stable"]


def test_several_events_of_one_label_are_numbered_and_those_on_several_streams_told_apart(diff):
    def event(occurrence, stream):
        return {**FC, "occurrence": occurrence, "stream": stream, "dur_ns": 9}

    diff(
        "inline",
        {"inline_timing": [event(0, 0), event(1, 0), event(0, 7), event(0, -1)]},
        """
        label,ran_on
        fc1.forward#0,host
        fc1.forward#0,stream 0
        fc1.forward#0,stream 7
        fc1.forward#1,stream 0
        """,
    )


def test_what_measuring_costs_is_in_the_row_of_the_iteration(answer):
    told = {"overhead": {"ratio": 0.01, "ratio_low": 0.005, "ratio_high": 0.02}}
    rows = {
        "inline_timing": [_iteration(100), {**FC, "dur_ns": 5}],
        "source": [{"format": "inline", "metadata": json.dumps(told)}],
    }
    costs = [row["overhead_ratio"] for row in answer("inline", rows).rows()]
    assert costs == [0.01, None]


def test_by_label_sets_the_average_over_ranks_beside_the_slowest(diff):
    diff(
        "inline",
        {
            "inline_timing": [
                {**FC, "rank": 0, "dur_ns": 10},
                {**FC, "rank": 0, "dur_ns": 30},
                {**FC, "rank": 1, "dur_ns": 40},
                {**FC, "rank": 1, "occurrence": 1, "dur_ns": 7},
                _iteration(100, rank=0),
                _iteration(200, rank=1),
            ]
        },
        """
        label,ranks,average_ns,max_ns,slowest_rank,share_ratio,occurrence
        iteration,2,150.0,200.0,1,1.0,0
        fc1.forward#0,2,30.0,40.0,1,0.2,0
        fc1.forward#1,1,7.0,7.0,1,0.035,1
        """,
        by="label",
        columns=("label", "ranks", "average_ns", "max_ns", "slowest_rank", "share_ratio", "occurrence"),
    )


def test_recordings_of_one_rank_are_kept_apart(diff):
    diff(
        "inline",
        {
            "inline_timing": [
                {**FC, "span": 0, "dur_ns": 10},
                {**FC, "span": 1, "dur_ns": 30},
                _iteration(100, span=1, armed=True),
                _iteration(50, span=0, armed=False),
            ]
        },
        """
        label,span,mean_ns,share_ratio
        iteration,0,50.0,1.0
        iteration,1,100.0,1.0
        fc1.forward,0,10.0,0.2
        fc1.forward,1,30.0,0.3
        """,
    )


@examples(25)
@given(st.lists(st.tuples(st.integers(1, 10**9), st.sampled_from([1, 2, 16, 256])), min_size=2, max_size=40))
def test_statistics_are_those_of_the_recorder(measured):
    """Two implementations, one in SQL and one in the recorded job, of the same definitions; and each counts as often as
    the iterations that it stands for."""
    rows = [{**FC, "dur_ns": ns, "start_offset_ns": 2 * ns, "weight": of} for ns, of in measured]
    with literal_store({"inline_timing": rows}) as store:
        (row,) = ask(find("inline"), store).rows()
    expected = describe(*zip(*measured, strict=True))
    for name in ("mean", "median", "std", "p5", "p95", "ci95_low", "ci95_high"):
        assert row[f"{name}_ns"] == pytest.approx(getattr(expected, name), rel=1e-6, abs=1e-3), name
    assert row["n"] == expected.n
    repeated = sorted(ns for ns, of in measured for _ in range(of))
    assert row["mean_ns"] == pytest.approx(sum(repeated) / len(repeated))
    for name, share in (("median_ns", 0.5), ("p5_ns", 0.05), ("p95_ns", 0.95)):
        assert row[name] == pytest.approx(quantile(repeated, share)), name
    assert row["start_offset_ns"] == pytest.approx(2 * row["median_ns"])
