"""What can be measured in a model, and a plan made of it."""

import json
import sys
from pathlib import Path

import pytest
from tests.record.fake_device import FakeDeviceClock
from tests.record.small_job import batches, make_model, train, untouched

from stepscope.record.annotate import region
from stepscope.record.plan import plan_from, read_plan
from stepscope.record.planning.listing import (
    Listed,
    heaviest,
    iterations_needed,
    listed,
    measurable,
    plan_json,
    plan_text,
)
from stepscope.record.planning.surveyor import Kind, Round, TimedWatch

needs_toml = pytest.mark.skipif(sys.version_info < (3, 11), reason="TOML is in Python since 3.11")


class Ticks:
    """A clock that goes on by what it is told."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns


def _round(kind: Kind, said: str, *, excluded: bool = False, regions: str = "") -> Round:
    """A watched iteration from lines such as `<fc.forward 5 fc.forward>`; numbers let time pass."""
    ticks = Ticks()
    clock = FakeDeviceClock(ticks, done_at_once=True)
    watch = TimedWatch(plan_from({"events": ["**"]}), lambda _: clock)
    watch.regions.update(regions.split())
    opened = {}
    for word in said.split():
        if word.startswith("<"):
            opened[word[1:]] = watch.open(word[1:])
        elif word.endswith(">"):
            watch.close(opened[word[:-1]])
        else:
            ticks.now_ns += int(word)
    return Round(kind, watch, excluded)


def test_labels_come_in_the_order_they_run_with_the_median_of_their_times() -> None:
    found = listed(
        _round("all", f"<forward 1 <fc.forward {fc} fc.forward> forward> <backward 7 backward>") for fc in (50, 20, 30)
    )
    assert [(one.label, one.times, one.time_ns) for one in found] == [
        ("forward", 1, 31),
        ("fc.forward", 1, 30),
        ("backward", 1, 7),
    ]


def test_times_come_from_the_lighter_rounds_but_for_backwards_of_modules() -> None:
    whole = "<forward 90 forward> <fc.backward 8 fc.backward>"
    found = listed([_round("all", whole), _round("forwards", "<forward 40 forward>")])
    assert [(one.label, one.time_ns) for one in found] == [("forward", 40), ("fc.backward", 8)]


def test_the_first_iteration_of_an_epoch_counts_only_where_there_is_no_other() -> None:
    first = _round("all", "<input_wait 900 input_wait>", excluded=True)
    usual = _round("all", "<input_wait 5 input_wait>")
    assert [one.time_ns for one in listed([first, usual])] == [5]
    assert [one.time_ns for one in listed([first])] == [900]


def test_what_runs_several_times_has_its_times_together() -> None:
    (one,) = listed([_round("all", "<forward 3 forward> <forward 4 forward>")])
    assert (one.times, one.time_ns, one.events) == (2, 7, 2)
    (many,) = listed([_round("all", "<r 1 r> " * 9)])
    assert (many.times, many.events) == (9, 1)
    assert '    "r#0",                                      # the first of 9, 9 ns in all' in (
        plan_text([many]).splitlines()
    )


def test_what_a_plan_could_not_measure_is_only_a_comment() -> None:
    found = listed(
        [
            _round("all", "<a a> <x.forward x.forward> <b* b*> <end", regions="x.forward b*"),
            _round("all", "<a a> <x.forward x.forward> <b* b*> <step3 step3>", regions="x.forward"),
        ]
    )
    assert [line for line in plan_text(found).splitlines() if line.startswith("    ")] == [
        '    "a",                                        # 0 ns',
        '    # "x.forward",                              # 0 ns, a plan cannot name it',
        '    # "b*",                                     # 0 ns, a plan cannot name it',
        '    # "step3",                                  # 0 ns, ran in 1 of 2 iterations',
    ]
    assert json.loads(plan_json(found))["events"] == ["a"]


def test_an_operator_is_listed_under_the_innermost_module_that_heard_it() -> None:
    add, mul = "aten::add", "aten::mul"
    # Forward the inner module's mode hears a call first, backward the outer's.
    operators = _round(
        "operators",
        f"<a.b.forward.{add} <a.forward.{add} 2 a.forward.{add}> a.b.forward.{add}> "
        f"<a.forward.{add} 5 a.forward.{add}> "
        f"<a.backward.{mul} <a.b.backward.{mul} 3 a.b.backward.{mul}> a.backward.{mul}>",
    )
    names = "a.forward", "a.b.forward", "a.backward", "a.b.backward"
    whole = _round("all", " ".join(f"<{name} {name}>" for name in names))
    found = {one.label: one.operators for one in listed([whole, operators])}
    assert found == {
        "a.forward": (Listed(f"a.forward.{add}#1", 1, 5),),
        "a.b.forward": (Listed(f"a.b.forward.{add}", 1, 2),),
        "a.backward": (),
        "a.b.backward": (Listed(f"a.b.backward.{mul}", 1, 3),),
    }


def test_the_longest_operators_are_listed_and_the_others_counted() -> None:
    operators = tuple(Listed(f"fc.forward.aten::op{number}", 1, number) for number in range(6))
    found = [Listed("fc.forward", operators=operators)]
    few = plan_text(found).splitlines()
    assert few[3:-1] == [
        '    "fc.forward",',
        *(f'    # "fc.forward.aten::op{number}",                   # {number} ns' for number in range(2, 6)),
        "    #   and 2 shorter: --operators",
    ]
    assert len(plan_text(found, all_operators=True).splitlines()) == len(few) + 1


def test_the_heaviest_modules_are_those_that_take_longest_without_what_is_in_them() -> None:
    found = listed(
        [
            _round(
                "all",
                "<forward <body.forward 5 <body.0.forward 50 body.0.forward> <body.1.forward 40 "
                "body.1.forward> body.forward> <head.forward 8 head.forward> forward> "
                "<a-region 1 a-region> <head.backward 80 head.backward>",
            )
        ]
    )
    assert [one.label for one in heaviest(found, 2)] == [
        "forward",
        "body.0.forward",
        "head.forward",
        "a-region",
        "head.backward",
    ]


def test_operators_of_a_module_that_runs_several_times_are_one_line() -> None:
    name = "fc.forward"
    add = f"{name}.aten::add"
    operators = _round("operators", f"<{add} 2 {add}> <{add} 3 {add}>")
    (twice,) = listed([_round("all", f"<{name} {name}> <{name} {name}>"), operators])
    assert twice.operators == (Listed(add, 2, 5),)
    (once,) = listed([_round("all", f"<{name} {name}>"), operators])
    assert once.operators == (Listed(f"{add}#0", 1, 2), Listed(f"{add}#1", 1, 3))


def test_the_iterations_that_a_plan_takes() -> None:
    # 10 of warm-up, 1 of survey, and 4 events with one discarded; every fifth runs unmeasured
    found = [Listed("forward"), Listed("fc.forward", times=3), Listed("b*", note="no")]
    assert iterations_needed(found, 7) == 10 + 1 + 40


@pytest.mark.torch
def test_everything_that_can_be_measured_is_listed_in_the_order_it_runs() -> None:
    import torch

    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def inside(_: int) -> None:
        with region("between"):
            pass

    events = measurable(lambda: train(model, batches(1), optimizer, inside), model, [optimizer])
    assert [event.label for event in events] == [
        "zero_grad",
        "forward",
        "0.forward",
        "1.forward",
        "2.forward",
        "between",
        "backward",
        "2.backward",
        "1.backward",
        "0.backward",
        "optimizer.step",
    ]
    assert all(event.time_ns is not None for event in events)
    assert untouched(model)


@pytest.mark.torch
def test_operators_are_listed_under_their_modules_when_they_are_asked_for() -> None:
    model = make_model()
    found = measurable(lambda: train(model, batches(1)), model, operators=True)
    inside = {one.label: [operator.label for operator in one.operators] for one in found}
    assert inside["1.forward"][0] == "1.forward.aten::relu_"
    assert "2.forward.aten::addmm" in inside["2.forward"]
    assert "2.backward.aten::mm#0" in inside["2.backward"]
    assert not any("addmm" in operator for operator in inside["forward"])
    assert untouched(model)


@pytest.mark.torch
def test_a_step_that_raises_raises_and_leaves_nothing() -> None:
    model = make_model()

    def step() -> None:
        raise ValueError("the job's own")

    with pytest.raises(ValueError, match="the job's own"):
        measurable(step, model)
    assert untouched(model)


@needs_toml
def test_a_listed_plan_can_be_read_back(tmp_path: Path) -> None:
    found = [
        Listed("forward", 1, 12, operators=(Listed('odd "::op'),)),
        Listed('a "quoted" \\ name', 3),
        Listed("line\nbreak", note="no"),
        Listed("often", 9),
    ]
    path = tmp_path / "plan.toml"
    path.write_text(plan_text(found, repetitions=9, header=["from\ntrain.py", ""]))
    plan = read_plan(path)
    assert plan.repetitions == 9
    assert [(entry.label.text, entry.label.occurrence) for entry in plan.entries] == [
        ("forward", None),
        ('a "quoted" \\ name', None),
        ("often", 0),
    ]
