"""`stepscope demo`, with a real training of a single step."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from stepscope.cli.demo import PLAN, example, record_example
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


def test_what_is_recorded_is_one_of_the_examples() -> None:
    assert example().parent.name == "examples"


def test_the_recordings_have_what_the_questions_need(tmp_path: Path) -> None:
    measured, traced = record_example(tmp_path, steps=1, device="cpu")
    profile = json.loads(measured.read_text())
    assert profile["complete"] is True
    (stream,) = profile["timeline"]["device_0"].values()
    assert [event["label"] for event in stream] == PLAN["events"]
    assert all(len(event["samples"]) == PLAN["repetitions"] for event in stream)

    events = _events(traced)
    names = [str(event.get("name")) for event in events]
    assert sum(name.startswith("ProfilerStep#") for name in names) == 1
    assert any(name.startswith("enumerate(DataLoader)#") for name in names)
    assert any(name.startswith("Optimizer.step#") for name in names)
    assert "nn.Module: layers.0.attn" in names
    assert any("Input Dims" in event.get("args", {}) for event in events)
    assert any(name.startswith("autograd::engine::evaluate_function") for name in names)


def test_the_demo_answers_and_says_what_to_type_next(
    elsewhere: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepscope.cli.demo.invoked_as", lambda: "bin/stepscope")
    assert main(["demo", "--steps", "1", "--device", "cpu"]) == 0
    out, err = capfd.readouterr()
    (trace,) = elsewhere.glob("temporary/stepscope-demo-*/demo-0-of-1.json.gz")
    (profile,) = elsewhere.glob("temporary/stepscope-demo-*/*.prof.json")
    assert "How long do the measured events of an iteration take" in out
    assert "Steps      1 (ProfilerStep" in out
    assert f"bin/stepscope inline {profile}" in out
    assert f"bin/stepscope steps {trace}" in out
    assert "gpt: " not in out
    assert "gpt: " in err
    assert list((elsewhere / "here").iterdir()) == []


def test_a_gpu_that_is_not_there_is_a_wrong_call_and_leaves_nothing(
    elsewhere: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert main(["demo", "--device", "cuda"]) == 2
    assert "no CUDA or ROCm device" in capfd.readouterr().err
    assert list((elsewhere / "temporary").iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(elsewhere: Path, capfd: pytest.CaptureFixture[str]) -> None:
    occupied = elsewhere / "file"
    occupied.write_text("")
    assert main(["demo", "--output", str(occupied / "below")]) == 1
    assert str(occupied) in capfd.readouterr().err


@pytest.mark.gpu
def test_on_a_gpu_the_recording_has_kernels(tmp_path: Path) -> None:
    _, traced = record_example(tmp_path, steps=1, device="cuda")
    assert any(event.get("cat") == "kernel" for event in _events(traced))
