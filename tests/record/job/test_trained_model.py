"""A job that goes on with another model: its forward is found again."""

import json
import weakref
from pathlib import Path

import pytest
from tests.record.small_job import batches, events_in, make_model, train, untouched

from stepscope.record import inline
from stepscope.record.job.loop import LoopFinder
from stepscope.record.job.trained_model import MissingForward
from stepscope.record.trouble import RecordingWarning

pytestmark = pytest.mark.torch


def test_steps_without_a_forward_make_it_look_again_and_ever_less_often() -> None:
    missing = MissingForward()
    assert not missing.look_again(4, 4)
    looks = [look for look in range(50) if missing.look_again(4, 5 + look)]
    assert looks == [1, 9, 41]


def test_a_look_that_found_the_forward_makes_the_next_one_come_as_early() -> None:
    """The tenth fold of a cross-validation is found as soon as the second."""
    missing, forwards, backwards = MissingForward(), 4, 4
    for _ in range(9):
        forwards, backwards = forwards + 1, backwards + 1
        assert not missing.look_again(forwards, backwards)
        assert [missing.look_again(forwards, backwards + look) for look in (1, 2)] == [False, True]
        backwards += 2


def test_what_was_never_heard_is_not_looked_for() -> None:
    # Compiled as a whole, say: its calls run no hooks of ours.
    missing = MissingForward()
    assert not any(missing.look_again(0, backwards) for backwards in range(50))


def test_steps_that_train_nothing_are_not_counted() -> None:
    missing = MissingForward()
    missing.look_again(4, 4)
    assert not any(missing.look_again(4, 4) for _ in range(50))


@pytest.mark.parametrize("given", [False, True])
def test_the_forward_of_the_next_fold_is_heard(tmp_path: Path, *, given: bool) -> None:
    first, second = make_model(), make_model()
    inline.start(model=first if given else None, out=tmp_path)
    loader = inline.iterate(batches(120))
    folds = iter(loader)
    train(first, (next(folds) for _ in range(30)))
    train(second, folds)
    inline.stop()
    assert untouched(first)
    assert untouched(second)
    (path,) = tmp_path.glob("*.phases.json")
    phases = json.loads(path.read_text())
    column = phases["step_columns"].index("forward_ns")
    unheard = sum(not row[column] for row in phases["step_samples"])
    # Who names the model means that one. Of one that was found, the steps until the next was found do not count.
    assert unheard == (90 if given else 0)
    assert 0 <= phases["unobserved_steps"] < 15
    assert (phases["unobserved_steps"] > 0) is not given


def test_a_plan_is_measured_on_in_the_next_fold_at_the_same_paths(tmp_path: Path) -> None:
    """What was missed until that one was found is no fault of the event's, nor of the job's."""
    plan = {"warmup": 2, "repetitions": 30, "events": ["0.forward"], "unarmed_every": 0}
    inline.start(plan, out=tmp_path)
    loader = inline.iterate(batches(80))
    of_folds = iter(loader)
    model = make_model()
    freed = weakref.ref(model)
    train(model, (next(of_folds) for _ in range(15)))
    model = make_model()
    assert freed() is None  # at once: nothing of ours keeps it
    train(model, of_folds)
    inline.stop()
    (event,) = events_in(tmp_path)
    (path,) = tmp_path.glob("*.prof.json")
    numbers = [row[0] for row in event["samples"]]
    assert len(numbers) == 30
    assert any(number < 15 for number in numbers)
    assert event["missed"] == 0
    assert 0 < event["other_model"] == numbers[-1] - numbers[0] + 1 - 30
    written = json.loads(path.read_text())
    assert written["complete"] is True
    (changed,) = written["model_changes"]
    assert 15 <= changed <= next(number for number in numbers if number >= 15)


def test_what_the_next_model_does_not_have_is_one_warning(tmp_path: Path) -> None:
    plan = {"warmup": 2, "repetitions": 30, "events": ["2.forward"], "unarmed_every": 0}
    inline.start(plan, out=tmp_path)
    of_folds = iter(inline.iterate(batches(60)))
    model = make_model()
    train(model, (next(of_folds) for _ in range(15)))
    model = make_model()[:1]
    with pytest.warns(RecordingWarning, match="has no 2.forward: what was measured of it is of"):
        train(model, of_folds)
    inline.stop()
    (event,) = events_in(tmp_path)
    assert 0 < len(event["samples"]) < 15


def test_an_optimizer_that_the_job_lets_go_of_is_freed_and_the_next_one_followed(tmp_path: Path) -> None:
    """Its state may be twice as large as the model, and the next fold's comes beside it."""
    import torch

    recording = inline.new_session(None, out=tmp_path)
    recording.start(lead_in=True)
    finder = LoopFinder(recording)
    finder.install()
    steps = []
    for _ in range(2):
        model = make_model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
        train(model, batches(10), optimizer)
        freed = weakref.ref(optimizer)
        steps.append(recording._iterations)
        del scheduler, optimizer, model
        assert freed() is None
    finder.remove()
    inline.stop()
    assert steps == [9, 18]
