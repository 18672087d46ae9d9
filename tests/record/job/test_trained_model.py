"""A job that goes on with another model: its forward is found again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.record.small_job import batches, make_model, train, untouched

from stepscope.record import inline
from stepscope.record.job.trained_model import MissingForward

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
