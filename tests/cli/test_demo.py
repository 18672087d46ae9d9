"""`stepscope demo`, with a real training of a single step."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from stepscope.cli.main import main

pytestmark = pytest.mark.torch


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory; temporary files and the cache go to folders beside it."""
    for name, variable in (("temporary", "TMPDIR"), ("cache", "STEPSCOPE_CACHE")):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(variable, str(tmp_path / name))
    monkeypatch.setattr("tempfile.tempdir", None)
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    return tmp_path


def _events(path: Path) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    return events


def test_the_recording_has_what_the_questions_need(tmp_path: Path) -> None:
    from stepscope.cli.demo_training import record_training

    recorded = record_training(tmp_path, steps=1, device="cpu")
    assert recorded.device == "cpu"
    events = _events(recorded.path)
    names = [str(event.get("name")) for event in events]
    assert sum(name.startswith("ProfilerStep#") for name in names) == 1
    assert any(name.startswith("enumerate(DataLoader)#") for name in names)
    assert any(name.startswith("Optimizer.step#") for name in names)
    assert "nn.Module: blocks.0.attention" in names
    assert any("Input Dims" in event.get("args", {}) for event in events)
    assert any(name.startswith("autograd::engine::evaluate_function") for name in names)


def test_the_planned_events_are_measured_before_the_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stepscope.cli.demo_training import PLAN, record_training

    monkeypatch.setattr("stepscope.cli.demo_training.MOST_INLINE_SECONDS", 600.0)
    recorded = record_training(tmp_path, steps=1, device="cpu")
    assert recorded.inline is not None
    profile = json.loads(recorded.inline.read_text())
    assert profile["complete"] is True
    (events,) = profile["timeline"]["device_0"].values()
    assert sorted(event["label"] for event in events) == sorted(PLAN["events"])
    (step,) = [e["name"] for e in _events(recorded.path) if "ProfilerStep" in str(e.get("name"))]
    assert int(step.removeprefix("ProfilerStep#")) > profile["iterations_run"]


def test_the_demo_answers_and_says_what_to_type_next(
    elsewhere: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--steps", "1", "--device", "cpu"]) == 0
    out, err = capfd.readouterr()
    (trace,) = elsewhere.glob("temporary/stepscope-demo-*/demo-0-of-1.json.gz")
    (profile,) = elsewhere.glob("temporary/stepscope-demo-*/*.prof.json")
    assert "How long do the measured events of an iteration take" in out
    assert f"stepscope inline {profile}" in out
    assert f"stepscope steps {trace}" in out
    assert "Recorded 1 step on cpu" in err
    assert list((elsewhere / "here").iterdir()) == []


def test_a_gpu_that_is_not_there_is_a_wrong_call_and_leaves_nothing(
    elsewhere: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert main(["demo", "--device", "cuda"]) == 2
    assert "no CUDA or ROCm device" in capfd.readouterr().err
    assert list((elsewhere / "temporary").iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(
    elsewhere: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    occupied = elsewhere / "file"
    occupied.write_text("")
    assert main(["demo", "--output", str(occupied / "below")]) == 1
    assert str(occupied) in capfd.readouterr().err


@pytest.mark.gpu
def test_on_a_gpu_the_recording_has_kernels(tmp_path: Path) -> None:
    from stepscope.cli.demo_training import record_training

    recorded = record_training(tmp_path, steps=1, device="auto")
    assert recorded.device == "cuda"
    assert any(event.get("cat") == "kernel" for event in _events(recorded.path))
