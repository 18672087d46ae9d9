"""Plans as people write them, and what they are told when one is wrong."""

import json
import os
import sys
from pathlib import Path

import pytest

from stepscope.record.inline.events import NotMeasured, not_measured_words
from stepscope.record.plan import PlanError, as_plan, generate_schedule, plan_from, read_plan

TOML = """\
warmup = 3
repetitions = 7
mode = "one_at_a_time"
events = [
    "forward",
    "TopMLP.*.backward",
]

[layers."BottomMLP.fc1"]
forward_events = ["forward", "aten::addmm"]
backward_events = ["fused.bprop"]
"""

needs_toml = pytest.mark.skipif(sys.version_info < (3, 11), reason="TOML is in Python since 3.11")


def _file(tmp_path: Path, text: str, name: str = "plan.toml") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


@needs_toml
def test_a_toml_plan_is_read_with_its_lines(tmp_path: Path) -> None:
    plan = read_plan(_file(tmp_path, TOML))
    assert (plan.warmup, plan.repetitions, plan.source) == (3, 7, "plan.toml")
    assert [(entry.label.text, entry.line) for entry in plan.entries] == [
        ("forward", 5),
        ("TopMLP.*.backward", 6),
        ("BottomMLP.fc1.forward", 10),
        ("BottomMLP.fc1.forward.aten::addmm", 10),
        ("BottomMLP.fc1.fused.bprop", 11),
    ]


def test_a_json_plan_and_a_dict_are_the_same(tmp_path: Path) -> None:
    plan = {
        "repetitions": 5,
        "fc1": {"forward_events": ["forward"], "backward_events": []},
        "layers": {"fc2": {"backward_events": ["aten::mm#1"]}},
    }
    read = read_plan(_file(tmp_path, json.dumps(plan, indent=1), "plan.json"))
    given = as_plan(plan)
    assert [entry.label for entry in read.entries] == [entry.label for entry in given.entries]
    assert [entry.line for entry in read.entries] == [5, 12]
    assert [entry.line for entry in given.entries] == [None, None]


def test_an_event_named_twice_is_measured_once() -> None:
    plan = plan_from({"events": ["fc1.forward"], "fc1": {"forward_events": ["forward"]}})
    assert len(plan.entries) == 1


@needs_toml
@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ('evnts = ["forward"]', 'bad.toml, line 1: a plan has no "evnts"', "events"),
        ('events = ["forward"]\nwarmup = -1', "bad.toml, line 2: warmup is -1", "0 or more"),
        ('events = ["forward"]\nwarmup = true', "bad.toml, line 2: warmup is True", "number"),
        ('events = ["forward"]\nmode = "fast"', "bad.toml, line 2: mode is 'fast'", "one_shot"),
        ('\nevents = "forward"', "bad.toml, line 2: events is not a list of labels", "events = ["),
        ('events = ["forward", ""]', "bad.toml, line 1: a label is empty", ""),
        ("warmup = 3", "bad.toml names no events", "events"),
        ('events = ["a"\nwarmup = 3', "bad.toml, line 2: not TOML", ""),
        ('[layers.fc1]\nforward = ["forward"]', 'bad.toml, line 2: layer "fc1" has "forward"', "forward_events"),
    ],
)
def test_a_bad_plan_is_told_its_line(tmp_path: Path, text: str, message: str, hint: str) -> None:
    with pytest.raises(PlanError) as caught:
        read_plan(_file(tmp_path, text, "bad.toml"))
    assert caught.value.message.startswith(message)
    assert hint in caught.value.hint
    assert caught.value.slug == "bad-plan"


def test_broken_json_is_told_its_line(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"plan\.json, line 2: not JSON"):
        read_plan(_file(tmp_path, '{\n "events": [forward]}', "plan.json"))


def test_a_name_that_is_there_twice_is_told_its_line(tmp_path: Path) -> None:
    text = '{"layers": {\n "fc1": {"forward_events": ["forward"]},\n "fc1": {"backward_events": ["backward"]}}}'
    with pytest.raises(PlanError, match=r'plan\.json, line 3: "fc1" is there twice'):
        read_plan(_file(tmp_path, text, "plan.json"))
    text = '{"events": ["events"], "events": ["forward"]}'
    with pytest.raises(PlanError, match=r'plan\.json: "events" is there twice'):
        read_plan(_file(tmp_path, text, "plan.json"))


def test_a_plan_that_is_not_there_is_told() -> None:
    with pytest.raises(PlanError, match="cannot read the plan"):
        read_plan("nowhere/plan.toml")


@pytest.mark.parametrize("name", ["deep.json", "deep.toml"])
def test_a_plan_that_is_nested_too_deep_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    nested = "[" * 100_000 + "]" * 100_000
    path.write_text(f'{{"events": {nested}}}' if name.endswith("json") else f"events = {nested}")
    with pytest.raises(PlanError, match="nested too deep"):
        read_plan(path)


@pytest.mark.parametrize("text", ['events = ["forward"]', '{"events": ["forward"]}'])
def test_a_mark_of_the_encoding_before_a_plan_is_passed_over(tmp_path: Path, text: str) -> None:
    path = tmp_path / ("plan.json" if text.startswith("{") else "plan.toml")
    path.write_text(text, encoding="utf-8-sig")
    assert [entry.text for entry in read_plan(path).entries] == ["forward"]


def test_the_lines_of_a_long_plan_are_looked_up_and_not_searched() -> None:
    labels = [f"layers.{number}.forward" for number in range(20_000)]
    text = "\n".join(["events = [", *(f'    "{label}",' for label in labels), "]"])
    plan = plan_from({"events": labels}, text=text)  # took minutes
    assert [entry.line for entry in plan.entries] == list(range(2, 20_002))


def test_hugectrs_schedule_becomes_a_file_that_is_a_plan(tmp_path: Path) -> None:
    schedule: dict[str, object] = {
        "BottomMLP.fc1": {
            "forward_events": ["forward", "fused_fully_connected.fprop.cublasGemmEx"],
            "backward_events": ["aten::mm#1"],
        },
        "interaction1": {"forward_events": [], "backward_events": []},
        "repetitions": 20,
    }
    written = generate_schedule(schedule, tmp_path / "test")
    assert written == tmp_path / "test" / "prof.schedule"
    plan, expected = read_plan(written), plan_from(schedule)
    assert [entry.label for entry in plan.entries] == [entry.label for entry in expected.entries]
    assert (plan.repetitions, plan.warmup, plan.mode) == (20, 10, "one_at_a_time")
    with pytest.raises(PlanError, match="names no events"):
        generate_schedule({}, tmp_path)


@pytest.mark.parametrize("name", ["plan.json", "plan.toml"])
def test_a_number_of_thousands_of_digits_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text('{"warmup": 1%s}' % ("0" * 5000) if name.endswith("json") else "warmup = 1" + "0" * 5000)
    with pytest.raises(PlanError, match="thousands of digits"):
        read_plan(path)


def test_a_job_does_not_wait_for_a_pipe_nor_read_without_end(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "plan.toml")
    with pytest.raises(PlanError, match="it is no file"):
        read_plan(tmp_path / "plan.toml")
    with (tmp_path / "large.toml").open("wb") as file:
        file.truncate(1 << 34)
    with pytest.raises(PlanError, match="more than 4 MiB"):
        read_plan(tmp_path / "large.toml")


def test_of_many_events_that_do_not_run_the_first_are_said() -> None:
    plan = plan_from({"events": [f"region {number}" for number in range(1000)]})
    said = not_measured_words(plan, [NotMeasured(entry, "it did not run") for entry in plan.entries])
    assert said.endswith('"region 19" is not measured: it did not run; and 980 more are not measured')
