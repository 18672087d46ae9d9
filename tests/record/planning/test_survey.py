"""Watching some iterations of a loop and ending it: told by hand, without a script."""

import os
from collections.abc import Callable
from typing import Any

import pytest
from tests.record.small_job import batches, make_model, train, untouched

from stepscope.record import inline
from stepscope.record.planning.survey import Enough, Survey
from stepscope.record.trouble import RecordingWarning

pytestmark = pytest.mark.torch

ALL_STAGES = 2 + 3 * 3 + 1 + 3


def _job() -> tuple[Any, Callable[[], None]]:
    import torch

    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return model, lambda: train(model, batches(1), optimizer) and None


def _told(survey: Survey, step: Callable[[], None], most: int = 100) -> int:
    """Iterations until the survey ends the loop."""
    for number in range(most):
        try:
            survey.start_iteration()
        except Enough:
            return number
        step()
    return most


def _labels(survey: Survey) -> list[str]:
    return [one.label for one in survey.labels]


def test_a_loop_is_ended_when_everything_is_known_and_left_as_it_was() -> None:
    finished: list[Survey] = []
    survey = Survey(finished=finished.append)
    model, step = _job()
    assert _told(survey, step) == ALL_STAGES
    assert finished == [survey]
    assert _labels(survey) == [
        "zero_grad",
        "forward",
        "0.forward",
        "1.forward",
        "2.forward",
        "backward",
        "2.backward",
        "1.backward",
        "0.backward",
        "optimizer.step",
    ]
    operators = {one.label: [each.label for each in one.operators] for one in survey.labels}
    assert "0.forward.aten::addmm" in operators["0.forward"]
    assert (survey.modules, survey.watched("all"), survey.error) == (3, 3, None)
    assert survey.median_ns("plain") is not None
    assert survey.median_ns("forwards") is not None
    assert untouched(model)


def test_the_losses_of_a_watched_loop_are_the_same_bit_for_bit() -> None:
    import torch

    expected = train(make_model(), batches(14))
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    survey, losses = Survey(), []
    for batch in batches(14):
        survey.start_iteration()
        losses += train(model, [batch], optimizer)
    survey.stop()
    assert losses == expected
    assert survey.labels


def test_the_end_is_said_again_to_a_script_that_swallows_it() -> None:
    swallowed: list[int] = []
    survey = Survey(swallowed=lambda: swallowed.append(1))
    _, step = _job()
    _told(survey, step)
    for _ in range(4):
        with pytest.raises(Enough):
            survey.start_iteration()
    assert len(swallowed) == 2
    assert Enough(0).code == 0


def test_all_ranks_end_at_the_same_iteration_also_one_whose_hooks_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    from stepscope.record.planning.surveyor import TimedWatch

    def broken(_self: Any, _label: str) -> None:
        raise OSError("ours")

    monkeypatch.setattr(TimedWatch, "open", broken)
    survey = Survey()
    model, step = _job()
    with pytest.warns(RecordingWarning, match="the survey stopped"):
        assert _told(survey, step) == ALL_STAGES
    assert isinstance(survey.error, OSError)
    assert survey.labels == []
    assert untouched(model)


def test_iterations_that_break_off_are_not_kept() -> None:
    survey = Survey(iterations=1)
    _, step = _job()
    number = survey.start_iteration()
    survey.abandon(number, began=False)  # the end of a loader: no iteration at all
    for _ in range(3):  # untouched, discover, plain
        survey.start_iteration()
        step()
    survey.start_iteration()
    step()
    survey.abandon()  # the one that watches all
    survey.stop()
    assert survey.labels == []
    assert survey.iterations == 4


def test_an_iteration_that_broke_off_before_anything_ran_does_not_end_the_discovery() -> None:
    survey = Survey(iterations=1)
    _, step = _job()
    survey.start_iteration()
    step()
    survey.start_iteration()
    survey.abandon()  # nothing of the model was called in it
    for _ in range(3):
        survey.start_iteration()
        step()
    survey.stop()
    assert "0.forward" in _labels(survey)


def test_what_was_watched_until_the_loop_ended_is_kept() -> None:
    finished: list[Survey] = []
    survey = Survey(finished=finished.append)
    model, step = _job()
    assert _told(survey, step, most=5) == 5
    survey.end_iteration()
    survey.stop()
    survey.stop()
    assert finished == [survey]
    assert (survey.watched("all"), "forward" in _labels(survey)) == (1, True)
    assert untouched(model)


def test_too_few_iterations_give_nothing_and_finish_nothing() -> None:
    finished: list[Survey] = []
    survey = Survey(finished=finished.append)
    _, step = _job()
    _told(survey, step, most=4)
    survey.stop()
    assert (finished, survey.labels) == ([], [])


def test_the_wait_for_a_batch_is_listed_where_it_is_told() -> None:
    survey = Survey()
    model, step = _job()

    def loop() -> None:
        for _ in inline.iterate(range(1000)):
            step()

    inline.drive(survey)
    try:
        with pytest.raises(Enough):
            loop()
    finally:
        survey.stop()
    assert _labels(survey)[0] == "input_wait"
    assert survey.driver == "iterate"
    assert untouched(model)


def test_a_script_that_starts_recording_itself_records_nothing(tmp_path: Any) -> None:
    survey = Survey()
    inline.drive(survey)
    try:
        inline.start({"events": ["forward"]}, out=tmp_path)
        assert inline.active() is survey
        assert not inline.done()
        assert inline.stop() == []
        assert inline.active() is survey
    finally:
        survey.stop()
    assert list(tmp_path.iterdir()) == []


def test_a_forked_child_is_not_surveyed() -> None:
    survey = Survey()
    inline.drive(survey)
    try:
        reads, writes = os.pipe()
        child = os.fork()
        if child == 0:
            told = inline.active() is None and survey.start_iteration() == 0 and survey.guard.tripped
            os.write(writes, b"quiet" if told else b"heard")
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(reads, 5) == b"quiet"
        assert inline.active() is survey
    finally:
        survey.stop()


def test_a_graph_is_captured_again_only_while_it_is_watched() -> None:
    survey = Survey(iterations=1)
    _, step = _job()
    asked = []
    for _ in range(7):
        survey.start_iteration()
        asked.append(survey.recapture())
        step()
    survey.stop()
    # untouched, discover, plain, all, forwards, plain, operators
    assert asked == [False, False, False, True, True, False, True]
