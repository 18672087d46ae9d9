"""The examples train, alone and in two processes, and their plans measure what they name."""

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.record.two_ranks import run_ranks

from stepscope.api.inline_profiles import parse_result
from stepscope.record.job.as_main import MainProgram

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
pytestmark = [pytest.mark.torch, pytest.mark.skipif(not EXAMPLES.is_dir(), reason="the examples are not installed")]


def _train_here(script: str, *arguments: str) -> None:
    """In this process, which has loaded torch."""
    program = MainProgram()
    try:
        program.run_script(str(EXAMPLES / script), arguments)
    finally:
        program.restore()


@pytest.mark.parametrize(
    ("script", "steps", "samples", "below"),
    [("dlrm.py", 250, 64, 0.5), ("cnn.py", 100, 16, 1.0), ("gpt.py", 30, 8, 2.0), ("resnet50.py", 2, 2, 9.0)],
)
def test_an_example_learns(
    script: str, steps: int, samples: int, below: float, capsys: pytest.CaptureFixture[str]
) -> None:
    _train_here(script, "--steps", str(steps), "--batch-size", str(samples))
    said = capsys.readouterr().out
    assert float(said.splitlines()[0].rsplit(" ", 1)[1]) < below


def _events(profile: dict[str, Any]) -> list[dict[str, Any]]:
    return [event for events in profile["timeline"]["device_0"].values() for event in events]


def _planned() -> list[str]:
    sys.path.insert(0, str(EXAMPLES))
    try:
        from dlrm_plan import dlrm_perf_schedule as plan  # type: ignore[import-not-found]
    finally:
        sys.path.remove(str(EXAMPLES))
    return [
        f"{layer}.{event}"
        for layer, lists in plan.items()
        for event in (*lists["forward_events"], *lists["backward_events"])
    ]


@pytest.mark.long
def test_the_recommender_with_hugectrs_plan_measures_every_planned_event(tmp_path: Path) -> None:
    _train_here(*("dlrm.py", "--plan", "seed", "--steps", "1610", "--batch-size", "4"), *("--out", str(tmp_path)))
    (profile,) = parse_result(tmp_path)
    events = _events(profile)
    assert profile["complete"] is True
    assert profile["not_measured"] == []
    assert sorted(event["label"] for event in events) == sorted(_planned())
    assert [event["start_index"] for event in events] == sorted(event["start_index"] for event in events)
    for event in events:
        assert event["end_index"] > event["start_index"]
        assert event["avg_measured_time_ms"] > 0
        assert event["avg_iter_start_to_event_start_time_ms"] > 0
        assert len(event["samples"]) == 20
    labels = [event["label"] for event in events]
    assert labels[0].startswith("sparse_embedding1.")
    assert labels.index("TopMLP.fc4.fused_fully_connected.bprop") < labels.index(
        "BottomMLP.fc3.fused_fully_connected.bprop"
    )


@pytest.mark.long
def test_two_processes_over_gloo_write_one_profile_each(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text('{"warmup": 2, "repetitions": 2, "events": ["forward", "fc1.forward", "fc1.backward"]}')
    out = tmp_path / "out"
    words = ("--plan", str(plan), "--steps", "20", "--batch-size", "4", "--out", str(out))
    said = run_ranks([[sys.executable, str(EXAMPLES / "cnn.py"), *words]] * 2)
    assert "loss" in said[0]
    first, second = parse_result(out)
    assert (first["rank"], second["rank"], first["world_size"]) == (0, 1, 2)
    for profile in (first, second):
        assert [event["label"] for event in _events(profile)] == ["forward", "fc1.forward", "fc1.backward"]
        assert profile["complete"] is True
