"""What all callbacks share: optimizer steps and micro-steps as a framework tells of them."""

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from stepscope.record.callbacks.recordings import Recordings, never_raises
from stepscope.record.trouble import RecordingWarning

from ..small_job import batches, make_model, untouched
from .faults import FAULTS, break_it
from .options import EVERY_OPTION, all_options
from .reading import micro_steps_by_step

pytestmark = pytest.mark.torch


def _train(recording: Recordings, *, accumulate: int = 1, steps: int = 6, at: int = 0) -> Any:
    import torch

    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    recording.start(at, model, [optimizer])
    for number, batch in enumerate(batches(steps * accumulate), start=1):
        recording.start_micro_step()
        loss = model(batch).square().mean()
        loss.backward()
        losses.append(loss.item())
        recording.end_micro_step()
        if number % accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()
        recording.step(at + number // accumulate)
    recording.stop()
    assert untouched(model)
    return losses


def test_a_number_that_stays_is_no_step_and_one_that_grows_is(tmp_path: Path) -> None:
    recording = Recordings(tmp_path, steps=2, name="job")
    _train(recording, accumulate=3, at=40)
    (path,) = recording.written
    assert micro_steps_by_step(path) == {"ProfilerStep#42": 3, "ProfilerStep#43": 3}


def test_what_is_told_before_the_beginning_and_after_the_end_is_nothing(tmp_path: Path) -> None:
    recording = Recordings(tmp_path, steps=1)
    recording.start_micro_step()
    recording.step(1)
    assert recording.stop() == []
    _train(recording)
    recording.start_micro_step()
    recording.step(9)
    recording.exclude_current()
    assert len(recording.stop()) == 1


def test_the_tests_know_every_option() -> None:
    assert all_options() == set(EVERY_OPTION)


def test_an_option_that_does_not_exist_is_refused_before_training() -> None:
    with pytest.raises(TypeError, match="stepz"):
        Recordings(stepz=1)  # type: ignore[call-arg]


def test_a_micro_step_is_a_region_that_a_plan_can_name(tmp_path: Path) -> None:
    plan = {"warmup": 1, "repetitions": 2, "events": ["micro_step"]}
    recording = Recordings(tmp_path, steps=0, plan=plan)
    _train(recording, accumulate=2, steps=16)
    (path,) = recording.written
    (events,) = json.loads(path.read_text())["timeline"]["device_0"].values()
    assert [event["label"] for event in events] == ["micro_step", "micro_step"]
    assert [event["occurrence"] for event in events] == [0, 1]


LOST = {where: set() for where in FAULTS} | {
    "traces.tracing.Tracer.start": {"json.gz"},
    "traces.tracing.Tracer.step": {"json.gz"},
    "inline.session.Session.start_iteration": {"phases.json"},
    "job.loop.LoopFinder.install": {"phases.json"},
}
"""What a fault costs; everything else is recorded all the same."""


@pytest.mark.parametrize("where", FAULTS)
def test_whatever_fails_costs_one_warning_and_no_bit_of_the_losses(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = _train(Recordings(tmp_path / "off", steps=0))
    break_it(where, monkeypatch)
    recording = Recordings(tmp_path, steps=2, phases=True, trigger=tmp_path / "trigger", name="job")
    with pytest.warns(RecordingWarning, match="injected") as caught:
        assert _train(recording) == expected
    assert sum("injected" in str(one.message) for one in caught) == 1
    written = {".".join(path.name.rsplit(".", 2)[1:]) for path in recording.written}
    assert written >= {"phases.json", "json.gz"} - LOST[where]


def test_a_trainer_that_lacks_what_is_asked_of_it_is_told_once() -> None:
    class Callback:
        def __init__(self) -> None:
            self.recordings = Recordings(steps=0)

        @never_raises
        def on_step(self, trainer: Any) -> None:
            self.recordings.step(trainer.no_such_number)

    callback = Callback()
    with pytest.warns(RecordingWarning, match="no_such_number"):
        callback.on_step(object())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        callback.on_step(object())
    assert callback.recordings.guard.tripped
