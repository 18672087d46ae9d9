import pytest
from tests.literal import literal_store

from stepscope.api.comparisons import diff
from stepscope.api.trace import Trace
from stepscope.base.errors import SourceError, UsageError
from stepscope.compare.gates import judge, parse_gate

pytestmark = pytest.mark.slow


@pytest.fixture
def failed():
    """Whether a gate fails on two runs of phases, `steps` of them each: phase → what it took."""

    def ask(gate, before, after, by=None):
        def run(durations):
            phase, kept = [], []
            whole = [sum(parts) for parts in zip(*durations.values(), strict=True)]
            for name, samples in {"step": whole, **durations}.items():
                mean = sum(samples) / len(samples)
                phase.append({"phase": name, "steps": len(samples), "mean_ns": mean})
                kept += [{"step": n, "phase": name, "dur_ns": dur} for n, dur in enumerate(samples, 1)]
            return Trace(literal_store({"phase": phase, "phase_step": kept}))

        with run(before) as one, run(after) as two:
            return judge(parse_gate(gate), lambda by: diff(one, two, by=by).rows(), by)

    return ask


@pytest.mark.parametrize(
    ("text", "name", "by", "above", "limit", "relative"),
    [
        ("step_time>+3%", "step_time", None, True, 0.03, True),
        (" step_time  <  -0.5 % ", "step_time", None, False, -0.005, True),
        ("forward > +2ms", "forward", None, True, 2e6, False),
        ("forward > + .5 us", "forward", None, True, 500.0, False),
        ("phase:forward > -2 s", "forward", "phase", True, -2e9, False),
        ("aten::mm > +7ns", "aten::mm", None, True, 7.0, False),
        ("operator:aten::mm > +7µs", "aten::mm", "operator", True, 7e3, False),
        ("kernel::fused > +1%", "kernel::fused", None, True, 0.01, True),
        ("kernel:gemm<float, 3> > +1%", "gemm<float, 3>", "kernel", True, 0.01, True),
        ("kernel:a < b < -1%", "a < b", "kernel", False, -0.01, True),
    ],
)
def test_a_gate_is_a_name_a_direction_and_a_change(text, name, by, above, limit, relative):
    gate = parse_gate(text)
    assert (gate.name, gate.by, gate.above, gate.relative) == (name, by, above, relative)
    assert gate.limit == pytest.approx(limit)


@pytest.mark.parametrize(
    ("text", "place", "wrong"),
    [
        ("step_time", 10, "> or < is missing"),
        ("", 1, "> or < is missing"),
        ("> +3%", 1, "the name before it is missing"),
        ("step_time >", 12, "a change is missing"),
        ("step_time > 3%", 13, "the change needs a sign"),
        ("step_time > +x%", 14, "a number is missing"),
        ("step_time > +3", 15, "the unit is none of"),
        ("step_time > +3 min", 15, "the unit is none of"),
        ("step_time > +3% or so", 15, "the unit is none of"),
        ("__import__('os') > +1e3%", 22, "the unit is none of"),
    ],
)
def test_what_is_no_gate_is_refused_with_the_place(text, place, wrong):
    with pytest.raises(UsageError) as refused:
        parse_gate(text)
    assert f"at character {place}, {wrong}" in refused.value.message


BEFORE = {"forward": [100, 100, 100], "backward": [100, 100, 100]}
SLOWER = {"forward": [100, 100, 100], "backward": [109, 110, 111]}


@pytest.mark.parametrize(
    ("gate", "fails"),
    [
        ("step_time > +4.9%", True),
        ("step_time > +5%", False),  # by 5 % exactly, and not by more
        ("step_time > +9ns", True),
        ("step_time > +10ns", False),
        ("step_time < -1%", False),
        ("step_time < +6%", True),
        ("step > +4%", True),
        ("backward > +9%", True),
        ("phase:backward > +9%", True),
        ("forward > +0%", False),
        ("forward > -1%", True),  # at least one per cent faster was asked for
    ],
)
def test_a_gate_fails_when_the_mean_changed_by_more(failed, gate, fails):
    assert failed(gate, BEFORE, SLOWER).outcome == ("failed" if fails else "passed")


def test_a_change_within_noise_counts_as_none(failed):
    noisy = {"forward": [10, 90, 50], "backward": [10, 90, 50]}
    more = {"forward": [20, 110, 60], "backward": [20, 110, 60]}
    judged = failed("step_time > +3%", noisy, more)
    assert judged.outcome == "passed"
    assert "within noise" in judged.reason
    # ... so that it is no improvement either, where one was asked for.
    assert failed("step_time > -3%", more, noisy).outcome == "failed"


@pytest.mark.parametrize("gate", ["step_time > +3%", "step_time > +30%"])
def test_of_one_step_nobody_can_tell(failed, gate):
    judged = failed(gate, {"forward": [100]}, {"forward": [110]})
    assert judged.outcome == "cannot tell"
    assert "too few steps" in judged.reason
    assert judged.as_row()["change_ns"] == 10


def test_what_came_from_nothing_grew_by_more_than_any_percentage(failed):
    nothing, some = {"forward": [9, 9], "late": [0, 0]}, {"forward": [9, 9], "late": [4, 4]}
    assert failed("late > +1000%", nothing, some).outcome == "failed"
    assert failed("late > +5ns", nothing, some).outcome == "passed"
    assert failed("late > +0%", nothing, nothing).outcome == "passed"


def test_what_neither_side_has_is_no_passed_gate(failed):
    with pytest.raises(UsageError) as refused:
        failed("backwards > +3%", BEFORE, SLOWER)
    assert "neither recording has 'backwards'" in refused.value.message
    assert "backward" in refused.value.hint


def test_a_gate_on_what_was_not_recorded_is_an_error(failed):
    with pytest.raises(SourceError, match="cannot be compared by kernel"):
        failed("kernel:gemm > +3%", BEFORE, SLOWER)


def test_a_label_of_one_side_alone_fails_because_nothing_can_be_compared():
    def run(label):
        rows = [{"label": label, "dur_ns": 5}, {"label": "both", "dur_ns": 5}]
        return Trace(literal_store({"inline_timing": rows}))

    with run("old") as one, run("new") as two:
        rows = diff(one, two).rows()
        assert judge(parse_gate("both > +1%"), lambda _: rows, None).outcome == "passed"
        judged = judge(parse_gate("new > +1%"), lambda _: rows, None)
        assert judged.outcome == "failed"
        assert judged.reason == "only after, so nothing to compare"


def test_step_time_is_the_steps_even_where_the_table_is_about_kernels():
    def run(kernel, end):
        work = [{"step": 0, "name": "gemm", "dur_ns": kernel}]
        return Trace(literal_store({"step": [{"step": 0, "end_ns": end}], "device_event": work}))

    with run(100, 1000) as one, run(50, 1100) as two:

        def compare(by):
            return diff(one, two, by=by).rows()

        about = [judge(parse_gate(gate), compare, "kernel") for gate in ("step_time > +9%", "gemm < -40%")]
        assert [(one.row["name"], one.row["change_ns"]) for one in about] == [("step", 100), ("gemm", -50)]
