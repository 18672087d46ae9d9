import math
from contextlib import ExitStack
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.literal import literal_store

from stepscope.api.comparisons import diff
from stepscope.api.trace import Trace
from stepscope.base.errors import SourceError, UsageError
from stepscope.compare.gates import judge, parse_gate
from stepscope.compare.interval import RankMean, over_ranks
from stepscope.compare.rows import compare_rows
from stepscope.compare.sides import Part, Side
from stepscope.report.diff_text import verdict_sentence

pytestmark = pytest.mark.slow


@pytest.fixture
def opened():
    """Traces in memory of literal rows, closed at the end."""
    with ExitStack() as stack:
        yield lambda rows: stack.enter_context(Trace(literal_store(rows)))


def phases(ranks):
    """A run of phases: rank → phase → what it took in each step; residual is what is left at 0."""
    phase, phase_step = [], []
    for rank, by_phase in enumerate(ranks):
        steps = [sum(durations) for durations in zip(*by_phase.values(), strict=True)]
        for name, durations in {"step": steps, **by_phase}.items():
            mean = sum(durations) / len(durations)
            phase.append({"rank": rank, "phase": name, "steps": len(durations), "mean_ns": mean})
            phase_step += [
                {"rank": rank, "step": number, "phase": name, "dur_ns": dur} for number, dur in enumerate(durations, 1)
            ]
    return {"phase": phase, "phase_step": phase_step}


def kernels(steps, *, rank=0, work=()):
    """A trace: for each step the kernels in it, name → duration, one after the other."""
    events = []
    for number, of_step in enumerate(steps):
        at = 1000 * number
        for name, dur in of_step.items():
            events.append({"rank": rank, "step": number, "name": name, "start_ns": at, "dur_ns": dur})
            at += dur
    return {
        "step": [{"rank": rank, "step": n, "start_ns": 1000 * n, "end_ns": 1000 * n + 1000} for n in range(len(steps))],
        "device_event": [*events, *work],
    }


def of(table, *columns):
    return [tuple(row[column] for column in columns) for row in table.rows()]


def test_phases_are_compared_per_step_and_their_changes_add_up(opened):
    before = opened(phases([{"forward": [40, 42], "backward": [60, 58]}]))
    after = opened(phases([{"forward": [40, 42, 41], "backward": [90, 91, 89]}]))
    table = diff(before, after)
    assert of(table, "name", "before_ns", "after_ns", "change_ns", "verdict") == [
        ("step", 100, 131, 31, "slower"),
        ("backward", 59, 90, 31, "slower"),
        ("forward", 41, 41, 0, "same"),
    ]
    assert of(table, "share_ratio", "samples_before", "samples_after") == [(1.0, 2, 3), (1.0, 2, 3), (0.0, 2, 3)]
    assert table.rows()[0]["change_ratio"] == pytest.approx(0.31)


def test_a_change_within_the_scatter_of_the_steps_is_unclear_and_has_no_shares(opened):
    before = opened(phases([{"forward": [10, 90]}]))
    after = opened(phases([{"forward": [20, 100]}]))
    (step, forward) = diff(before, after).rows()
    assert step["ci95_low_ns"] < 0 < 10 < step["ci95_high_ns"]
    assert (step["verdict"], forward["verdict"], step["share_ratio"]) == ("unclear", "unclear", None)


def test_one_step_is_too_few_to_test_a_change(opened):
    before = opened(phases([{"forward": [10]}]))
    after = opened(phases([{"forward": [30]}]))
    assert of(diff(before, after), "change_ns", "ci95_low_ns", "verdict", "share_ratio") == [
        (20, None, "untested", 1.0),
        (20, None, "untested", 1.0),
    ]
    assert "Intervals" not in diff(before, after).note


def test_recordings_without_kept_steps_have_means_and_no_intervals(opened):
    rows = [{"phase": "step", "steps": 50, "mean_ns": 100.0}]
    table = diff(opened({"phase": rows}), opened({"phase": [{**rows[0], "mean_ns": 110.0}]}))
    assert of(table, "name", "change_ns", "verdict") == [("step", 10, "untested"), ("(in no phase)", 10, "untested")]


def test_a_step_that_stands_for_many_counts_as_many_and_is_still_one_measurement(opened):
    """Means are those of all steps that were counted; the interval is what the measurements alone tell."""
    errors = []

    def run(timed):
        rows = [{"step": at, "phase": "step", "dur_ns": ns, "weight": of} for at, (ns, of) in enumerate(timed, 1)]
        each = [ns for ns, of in timed for _ in range(of)]
        mean = {"phase": "step", "steps": len(each), "mean_ns": sum(each) / len(each)}
        off = sum((of * (ns - sum(each) / len(each))) ** 2 for ns, of in timed)
        errors.append(math.sqrt(off * len(timed) / (len(timed) - 1)) / len(each))
        return sum(each) / len(each), opened({"phase": [mean], "phase_step": rows})

    slow = [(3_000 + 10 * place, 1) for place in range(40)]
    (before, one), (after, other) = (
        run(slow + [(ns + 5 * place, of) for place in range(20)]) for ns, of in ((2_000, 64), (2_500, 16))
    )
    (row,) = [row for row in diff(one, other, by="phase").rows() if row["name"] == "step"]
    assert (row["before_ns"], row["after_ns"]) == (round(before), round(after))
    half = (row["ci95_high_ns"] - row["ci95_low_ns"]) / 2
    assert 1.96 < half / math.hypot(*errors) < 2.1


def test_a_phase_that_one_side_could_not_hear_counts_whole_and_is_no_zero(opened):
    before = opened(phases([{"forward": [40, 40], "residual": [10, 10]}]))
    after = opened(phases([{"residual": [50, 50]}]))
    table = diff(before, after)
    assert of(table, "name", "before_ns", "after_ns", "change_ns", "verdict") == [
        ("step", 50, 50, 0, "same"),
        ("residual", 10, 50, 40, "slower"),
        ("forward", 40, None, -40, "only before"),
    ]


def test_ranks_are_averaged_so_that_runs_of_different_sizes_can_be_compared(opened):
    one = opened(phases([{"forward": [10, 10]}]))
    two = opened(phases([{"forward": [10, 10]}, {"forward": [30, 30, 30]}]))
    table = diff(one, two)
    assert of(table, "name", "before_ns", "after_ns") == [("step", 10, 20), ("forward", 10, 20)]
    assert "2 steps of 1 rank" in table.note
    assert "5 steps of 2 ranks" in table.note
    assert "averaged over ranks" in table.note


def test_kernels_that_come_and_go_are_added_and_removed(opened):
    before = opened(kernels([{"gemm": 100, "old": 50}, {"gemm": 100, "old": 50}]))
    after = opened(kernels([{"gemm": 100, "new": 20}, {"gemm": 100, "new": 20}]))
    table = diff(before, after, by="kernel")
    columns = ("name", "before_ns", "after_ns", "verdict", "calls_before", "calls_after")
    assert of(table, *columns) == [
        ("device work", 150, 120, "faster", None, None),
        ("old", 50, 0, "removed", 1.0, 0.0),
        ("new", 0, 20, "added", 0.0, 1.0),
        ("gemm", 100, 100, "same", 1.0, 1.0),
    ]


def test_that_the_step_stayed_the_same_is_said_where_its_kernels_changed(opened):
    before, after = (opened(kernels([{"k": dur}, {"k": dur}])) for dur in (300, 400))  # in steps of 1000 ns each
    table = diff(before, after, by="kernel")
    assert of(table, "name", "verdict") == [("device work", "slower"), ("k", "slower")]
    assert "The step itself, where work may hide other work: 1.000 µs → 1.000 µs, same (--by category)." in table.note
    assert "The step itself" not in diff(before, after, by="category").note
    assert "The step itself" not in diff(before, after, by="kernel", name="k").note


def test_a_kernel_of_every_second_step_counts_half_per_step(opened):
    steps = [{"gemm": 100}, {"gemm": 100, "log": 40}]
    table = diff(opened(kernels(steps)), opened(kernels([{"gemm": 100}] * 2)), by="kernel")
    (log,) = (row for row in table.rows() if row["name"] == "log")
    assert (log["before_ns"], log["calls_before"]) == (20, 0.5)


def test_work_of_no_step_is_left_out(opened):
    outside = {"step": None, "name": "setup", "start_ns": 5000, "dur_ns": 900}
    before = opened(kernels([{"gemm": 100}], work=[outside]))
    table = diff(before, opened(kernels([{"gemm": 100}])), by="kernel")
    assert of(table, "name", "before_ns") == [("device work", 100), ("gemm", 100)]


def test_a_last_step_that_was_cut_off_is_left_out(opened):
    cut = kernels([{"gemm": 100}, {"gemm": 7}])
    cut["step"][1]["complete"] = False
    for by in ("category", "kernel"):
        table = diff(opened(cut), opened(kernels([{"gemm": 100}])), by=by)
        assert table.rows()[0]["change_ns"] == 0


def test_operators_line_up_where_kernels_are_called_otherwise(opened):
    def run(kernel, dur):
        rows = kernels([{kernel: dur}, {kernel: dur}])
        rows["host_event"] = [
            {"id": 10 + n, "step": n, "name": "aten::mm", "start_ns": 1000 * n, "dur_ns": 9} for n in (0, 1)
        ]
        for n, event in enumerate(rows["device_event"]):
            event["operator_id"] = 10 + n
        return opened(rows)

    table = diff(run("sm90_gemm", 100), run("Cijk_Ailk", 130), by="operator")
    assert of(table, "name", "change_ns", "verdict", "calls_before", "calls_after") == [
        ("device work", 30, "slower", None, None),
        ("aten::mm", 30, "slower", 1.0, 1.0),
    ]


def test_replays_of_graphs_line_up_whatever_number_the_graph_has(opened):
    def run(number):
        rows = kernels([{"gemm": 100}])
        rows["device_event"][0]["graph_id"] = number
        rows["host_event"] = [{"step": 0, "name": "aten::mm", "dur_ns": 9}]
        return opened(rows)

    table = diff(run(3), run(8), by="operator")
    assert of(table, "name", "verdict")[1] == ("CUDA graph (unattributed)", "same")


def test_modules_and_what_lies_outside_them_add_up_to_the_device_work(opened):
    def run(dur):
        rows = kernels([{"gemm": dur, "adam": 10}] * 2)
        for event in rows["device_event"]:
            event["module_id"] = 1 if event["name"] == "gemm" else None
        rows["module"] = [{"module_id": 1, "path": "net.fc", "name": "fc"}]
        return opened(rows)

    table = diff(run(100), run(70), by="module")
    assert of(table, "name", "change_ns", "verdict") == [
        ("device work", -30, "faster"),
        ("net.fc", -30, "faster"),
        ("(no module)", 0, "same"),
    ]


def test_without_a_device_operators_are_compared_by_their_time_on_the_host(opened):
    def run(dur):
        event = {"step": 0, "name": "aten::mm", "dur_ns": dur}
        return opened({"step": [{"step": 0, "end_ns": 500}], "host_event": [event]})

    table = diff(run(100), run(80), by="operator")
    assert of(table, "name", "change_ns") == [("host work", -20), ("aten::mm", -20)]
    assert "No device was recorded" in table.note


def labels(**durations):
    place = {"iteration": (None, None), "fc": (0, 9)}
    rows = [
        {
            "kind": "iteration" if label == "iteration" else "event",
            "label": label,
            "dur_ns": dur,
            "start_index": place[label][0] if label in place else 1,
            "end_index": place[label][1] if label in place else 2,
        }
        for label, all_of_it in durations.items()
        for dur in all_of_it
    ]
    return {"inline_timing": rows}


def test_labels_say_what_they_lie_inside_and_what_was_not_measured_has_no_change(opened):
    before = opened(labels(iteration=[100, 102], fc=[50, 52], gemm=[20, 22]))
    after = opened(labels(iteration=[131, 133], fc=[81, 83], relu=[5, 5]))
    table = diff(before, after)
    assert of(table, "name", "change_ns", "verdict", "inside") == [
        ("iteration", 31, "slower", None),
        ("fc", 31, "slower", None),
        ("gemm", None, "only before", "fc"),
        ("relu", None, "only after", "fc"),
    ]
    assert "do not add up" in table.note


def test_several_events_of_one_label_are_told_apart_on_both_sides(opened):
    one = [{"label": label, "dur_ns": 5} for label in ("fc", "relu")]
    two = [*one, {"label": "fc", "occurrence": 1, "dur_ns": 6}]
    for before, after in ((one, two), (two, one)):
        table = diff(opened({"inline_timing": before}), opened({"inline_timing": after}))
        assert {row["name"]: row["change_ns"] for row in table.rows()} == {"relu": 0, "fc#0": 0, "fc#1": None}


def test_averages_without_their_measurements_are_untested():
    def run(ms):
        event = {"label": "fc", "start_index": 0, "end_index": 1, "avg_measured_time_ms": ms}
        return [{"host_name": "h", "timeline": {"device_0": {"stream_0": [event]}}}]

    table = diff(run(0.5), run(0.4))
    assert of(table, "name", "change_ns", "verdict") == [("fc", -100_000, "untested")]


@pytest.mark.parametrize("by", [None, "kernel", "operator"])
def test_a_recording_beside_itself_shows_no_change(opened, by):
    rows = kernels([{"gemm": 100, "zero": 0}, {"gemm": 130, "zero": 0}])
    trace = opened({**rows, "host_event": [{"step": 0, "name": "aten::mm", "dur_ns": 9}]})
    table = diff(trace, trace, by=by)
    assert {(row["change_ns"], row["verdict"]) for row in table.rows()} == {(0, "same")}
    assert {row["share_ratio"] for row in table.rows()} == {None}


def test_a_step_that_takes_no_time_divides_nothing_by_zero(opened):
    nothing = opened(phases([{"forward": [0, 0]}]))
    something = opened(phases([{"forward": [5, 5]}]))
    assert of(diff(nothing, something), "change_ns", "change_ratio", "verdict") == [
        (5, None, "slower"),
        (5, None, "slower"),
    ]
    assert of(diff(something, nothing), "change_ratio") == [(-1.0,), (-1.0,)]


def test_recordings_of_different_kinds_are_refused_and_each_is_named(opened):
    trace, run = opened(kernels([{"gemm": 1}])), opened(phases([{"forward": [1]}]))
    with pytest.raises(SourceError) as refused:
        diff(trace, run, names=["old", "new"])
    assert "before (old) has category, kernel" in refused.value.message
    assert "after (new) has phase" in refused.value.message
    with pytest.raises(SourceError, match="cannot be compared by kernel"):
        diff(run, run, by="kernel")


def test_an_empty_recording_has_nothing_to_compare(opened):
    empty = opened({"rank": [{"rank": 0}]})
    with pytest.raises(SourceError, match="has nothing to compare"):
        diff(empty, empty)


def test_steps_are_not_compared_with_a_whole_recording(opened):
    whole = kernels([{"gemm": 100}])
    whole["step"][0]["rule"] = "whole recording"
    stepped = kernels([{"gemm": 100}])
    stepped["step"][0]["rule"] = "ProfilerStep"
    with pytest.raises(SourceError, match=r"after \(after\) has none, so"):
        diff(opened(stepped), opened(whole), by="kernel")
    assert "No steps were found" in diff(opened(whole), opened(whole)).note


def test_device_work_is_not_compared_with_the_hosts(opened):
    host = {"step": [{"step": 0, "end_ns": 500}], "host_event": [{"step": 0, "name": "aten::mm", "dur_ns": 9}]}
    device = {**host, **kernels([{"gemm": 100}])}
    with pytest.raises(SourceError, match="has only the host"):
        diff(opened(device), opened(host), by="operator")


def test_a_rank_that_is_damaged_on_one_side_is_left_out_on_both(opened):
    def job(last, checks=()):
        ranks = [kernels([{"gemm": dur}] * 2, rank=rank) for rank, dur in enumerate((8, 8, last))]
        return opened(
            {"data_check": list(checks)} | {name: [row for own in ranks for row in own[name]] for name in ranks[0]}
        )

    cut = {"rank": 2, "check": "truncated", "severity": "warning", "affects": "file"}
    table = diff(job(900), job(2, [cut]))
    assert {row["change_ns"] for row in table.rows()} == {0}
    assert table.note.startswith("Damaged, and left out of both: rank 2 of after.")
    assert "2 steps of 2 ranks" not in table.note
    assert table.note.count("4 steps of 2 ranks") == 2
    assert "Damaged" not in diff(job(900), job(2)).note


def test_checks_of_either_side_bear_on_the_answer_and_say_whose_they_are(opened):
    check = {"check": "zero_ts", "severity": "warning", "affects": "device-times", "explanation": "lost"}
    damaged = opened({**kernels([{"gemm": 1}]), "data_check": [{**check, "count": 1}]})
    table = diff(opened(kernels([{"gemm": 1}])), damaged)
    assert table.unreliable
    assert [found["explanation"] for found in table.checks] == ["after: lost"]


def test_a_comparison_rests_on_what_the_question_it_is_answered_like_rests_on(opened):
    check = {"check": "clock_skew", "severity": "warning", "affects": "clocks", "explanation": "off"}
    skewed = opened({**kernels([{"gemm": 1}]), "data_check": [{**check, "count": 1}]})
    well = opened(kernels([{"gemm": 1}]))
    assert diff(well, skewed, by="category").unreliable
    assert not diff(well, skewed, by="kernel").unreliable


@pytest.mark.parametrize("options", [{"by": "colour"}, {"names": ["one"]}, {"names": "ab"}])
def test_a_call_that_cannot_be_meant_is_refused(opened, options):
    trace = opened(kernels([{"gemm": 1}]))
    with pytest.raises(UsageError):
        diff(trace, trace, **options)


_runs = st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(0, 300), max_size=3), min_size=1, max_size=4)


@examples(10)
@given(_runs, st.lists(_runs, min_size=1, max_size=2))
def test_parts_add_up_to_the_whole_whatever_ran(before, after):
    two = {"step": [], "device_event": []}
    for rank, steps in enumerate(after):
        for name, rows in kernels(steps, rank=rank).items():
            two[name] += rows
    with Trace(literal_store(kernels(before))) as one, Trace(literal_store(two)) as other:
        for by in ("category", "kernel"):
            if by == "kernel" and not (any(before) and any(map(any, after))):
                continue
            whole, *parts = diff(one, other, by=by).rows()
            for column in ("before_ns", "after_ns", "change_ns"):
                assert whole[column] == sum(part[column] or 0 for part in parts)


_sides = st.dictionaries(st.sampled_from("abcdef"), st.lists(st.integers(0, 10**12), min_size=1, max_size=4))


@examples(50)
@given(_sides, _sides)
def test_rounding_loses_nothing_of_the_whole(before, after):
    """Each part has samples of its own number: means are fractions of many kinds."""

    def side(parts):
        measured = {name: over_ranks([RankMean.of(times)]) for name, times in parts.items()}
        total = sum((timing.mean_ns for timing in measured.values()), Fraction(0))
        whole = Part(over_ranks([RankMean(total, 1, None)]))
        return Side("step", 1, whole, {name: Part(timing) for name, timing in measured.items()})

    whole, *parts = compare_rows(side(before), side(after), "phase").to_pylist()
    for column in ("before_ns", "after_ns", "change_ns"):
        assert whole[column] == sum(part[column] or 0 for part in parts)


def test_parts_that_are_not_their_whole_are_a_defect_and_no_answer():
    ten, five = (Part(over_ranks([RankMean(Fraction(ns), 1, None)])) for ns in (10, 5))
    with pytest.raises(ValueError, match="do not add up"):
        compare_rows(*[Side("step", 1, ten, {"forward": five})] * 2, "phase")


_phases = st.lists(
    st.fixed_dictionaries(
        {name: st.lists(st.integers(0, 10**9), min_size=3, max_size=3) for name in ("forward", "rest")}
    ),
    min_size=1,
    max_size=3,
)


@examples(10)
@given(_phases, _phases)
def test_phases_add_up_to_the_step_whatever_they_took(before, after):
    with Trace(literal_store(phases(before))) as one, Trace(literal_store(phases(after))) as other:
        whole, *parts = diff(one, other).rows()
    assert {part["name"] for part in parts} == {"forward", "rest"}
    for column in ("before_ns", "after_ns", "change_ns"):
        assert whole[column] == sum(part[column] for part in parts)


@pytest.mark.traces
def test_two_recordings_of_one_training_differ_by_the_wait_for_data(shared_traces):
    """The means are those that the TensorBoard plugin shows, in ms: 177.592 and 154.911."""
    folder = shared_traces / "kineto" / "resnet50_v100"
    first, second = sorted(folder.glob("*.gz"))
    table = diff(first, second)
    assert of(table, "name", "change_ns", "verdict")[:2] == [
        ("step", 154_911_333 - 177_592_167, "faster"),
        ("dataloader", 35_503_667 - 59_261_833, "faster"),
    ]
    whole, *operators = diff(first, second, by="operator").rows()
    (_, *kernels_and_copies) = diff(first, second, by="kernel").rows()
    for parts in (operators, kernels_and_copies):
        assert sum(part["change_ns"] for part in parts) == whole["change_ns"]
    assert {part["verdict"] for part in operators} <= {"same", "unclear", "slower", "faster"}


@pytest.mark.traces
def test_operators_of_an_h100_line_up_with_those_of_an_mi300(shared_traces):
    folder = shared_traces / "kineto"
    h100, mi300 = folder / "bert_small_h100", folder / "bert_small_mi300"
    (_, *operators) = diff(h100, mi300, by="operator").rows()
    assert {"added", "removed"}.isdisjoint(part["verdict"] for part in operators)
    (_, *gpu_kernels) = diff(h100, mi300, by="kernel").rows()
    assert {"added", "removed"} <= {part["verdict"] for part in gpu_kernels}


def test_that_events_were_measured_in_one_of_two_runs_of_phases_is_said(opened):
    """An armed run has hooks in its steps that the other has not."""
    alone = phases([{"forward": [10, 11], "backward": [20, 21]}])
    armed = {
        **alone,
        "inline_timing": [
            {"kind": "iteration", "label": "iteration", "dur_ns": 30, "armed": armed}
            for armed in (True, True, True, False)
        ],
        "source": [{"format": "inline", "metadata": '{"overhead": {"ratio_high": 0.03}}'}],
    }
    said = "Events were measured in the steps of after alone (--inline), which adds at most 3.0 % to one"
    assert said in diff(opened(alone), opened(armed), by="phase").note
    assert "--inline" not in diff(opened(alone), opened(alone), by="phase").note
    assert "--inline" not in diff(opened(armed), opened(armed), by="phase").note


def test_steps_without_the_profiler_are_compared_where_both_have_them(opened):
    """A slow input that the profiled steps do not show: twenty times as long in the phases."""
    trace = kernels([{"gemm": 400}, {"gemm": 500}])
    one, two = phases([{"input_wait": [10, 11, 12]}]), phases([{"input_wait": [200, 210, 220]}])
    before, after = opened(trace | one), opened(trace | two)
    table = diff(before, after)
    assert of(table, "name", "verdict")[0] == ("step", "slower")
    assert of(table, "name")[1:] == [("input_wait",)]
    assert "without the profiler" in table.note
    for by in ("category", "tree"):
        gate = judge(parse_gate("step_time > +3%"), lambda by: diff(before, after, by=by).rows(), by)
        assert gate.outcome == "failed"
    table = diff(before, after, by="category")
    assert verdict_sentence(table.rows()) == "Profiled step: no change."
    assert "without it one takes 11 ns → 210 ns (--by phase)" in table.note
    # One such step is no sample, and of a part of the events phases know nothing.
    few = opened(trace | phases([{"input_wait": [10]}]))
    assert of(diff(few, after), "name")[-1] != ("input_wait",)
    assert of(diff(before, after, window=(0, 1500)), "name")[-1] != ("input_wait",)
