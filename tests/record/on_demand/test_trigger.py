"""Whoever asks a running job for a trace is told at once what will not come."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stepscope.base.errors import StepScopeError
from stepscope.base.ranks import host_name
from stepscope.cli.main import main
from stepscope.record.on_demand.request import (
    BUSY,
    Answer,
    Request,
    new_request,
    read_answers,
    read_request,
    write_answer,
    write_request,
)
from stepscope.record.on_demand.trigger import agree, wait_until_done
from stepscope.record.traces.tracing import Tracer
from stepscope.record.trouble import RecordingWarning


def _answer(request: Request, rank: int = 0, of: int = 1, **other: Any) -> Answer:
    known = Answer(request.id, rank, of, "another", 1, 5, 0.5, "here")
    return replace(known, **other)


def _never(_seconds: float) -> None:
    raise AssertionError("there is nothing to wait for")


@pytest.fixture
def sleeps(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[float], None]], None]:
    """Has what waits call the given function instead, while no time passes."""

    def instead(sleep: Callable[[float], None]) -> None:
        fake = SimpleNamespace(sleep=sleep, monotonic=lambda: 0.0)
        monkeypatch.setattr("stepscope.record.on_demand.trigger.time", fake)

    return instead


def test_a_rank_that_records_for_another_request_is_named(
    tmp_path: Path, sleeps: Callable[[Callable[[float], None]], None]
) -> None:
    request = new_request()
    write_answer(tmp_path, _answer(request, state=BUSY))
    sleeps(_never)
    with pytest.raises(StepScopeError, match="rank 0 still records for another request"):
        agree(tmp_path, request)
    assert read_request(tmp_path).at_step is None


def test_ranks_that_the_job_does_not_have_are_told_before_anything_is_ordered(
    tmp_path: Path, sleeps: Callable[[Callable[[float], None]], None]
) -> None:
    request = new_request(ranks="4-7")
    write_answer(tmp_path, _answer(request))
    sleeps(_never)
    with pytest.raises(StepScopeError, match="no rank of the job is among"):
        agree(tmp_path, request)
    assert read_request(tmp_path).at_step is None


def test_ranks_are_chosen_by_the_place_that_they_answer(
    tmp_path: Path, sleeps: Callable[[Callable[[float], None]], None]
) -> None:
    request = new_request(ranks="local:1+node:1")
    for rank, (node, local) in enumerate([(0, 0), (0, 1), (1, 0), (1, 1)]):
        write_answer(tmp_path, _answer(request, rank, of=4, local_rank=local, node=node))
    sleeps(_never)
    assert agree(tmp_path, request).at_step is not None
    with pytest.raises(StepScopeError, match="no rank of the job is among"):
        agree(tmp_path, replace(request, ranks="local:1+node:2"))


@pytest.mark.parametrize(
    ("ranks", "unsure", "said"),
    [
        ("local:0", {}, "its local rank is not known"),
        ("1", {"disagreement": "it is rank 1 by PMI, but rank 0 by Flux"}, "but rank 0 by Flux"),
    ],
)
def test_a_rank_that_cannot_tell_whether_it_is_meant_keeps_the_order_from_being_given(
    ranks: str, unsure: dict[str, Any], said: str, tmp_path: Path, sleeps: Callable[[Callable[[float], None]], None]
) -> None:
    request = new_request(ranks=ranks)
    write_answer(tmp_path, _answer(request, 0, of=2, local_rank=0))
    write_answer(tmp_path, _answer(request, 1, of=2, **unsure))
    sleeps(_never)
    with pytest.raises(StepScopeError, match=said):
        agree(tmp_path, request)
    assert read_request(tmp_path).at_step is None


def test_of_two_calls_at_once_the_first_is_told_that_it_was_replaced(
    tmp_path: Path, sleeps: Callable[[Callable[[float], None]], None]
) -> None:
    def another(_seconds: float) -> None:
        write_request(tmp_path, new_request())

    sleeps(another)
    with pytest.raises(StepScopeError, match="another request has taken the place"):
        agree(tmp_path, new_request())


def test_an_order_that_another_request_replaced_is_not_waited_for(
    tmp_path: Path, sleeps: Callable[[Callable[[float], None]], None]
) -> None:
    mine, theirs = replace(new_request(), at_step=9), new_request()
    write_request(tmp_path, theirs)
    write_answer(tmp_path, _answer(theirs))
    sleeps(_never)
    with pytest.raises(StepScopeError, match="another request has taken the place"):
        wait_until_done(tmp_path, mine, timeout_seconds=600)


def test_an_order_that_is_being_recorded_is_waited_for_although_somebody_calls(
    tmp_path: Path, sleeps: Callable[[Callable[[float], None]], None]
) -> None:
    mine, theirs = replace(new_request(), at_step=9), new_request()
    write_request(tmp_path, theirs)
    write_answer(tmp_path, _answer(theirs, state=BUSY))

    def finished(_seconds: float) -> None:
        write_answer(tmp_path, _answer(mine, state="written", files=("trace",)))

    sleeps(finished)
    (answer,) = wait_until_done(tmp_path, mine, timeout_seconds=600)
    assert answer.files == ("trace",)


@pytest.mark.torch
def test_a_job_listens_where_it_began_and_says_when_it_is_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from stepscope.record.on_demand.listener import on_demand

    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    listener = on_demand("asked", poll_seconds=3600)
    listener.start()
    monkeypatch.chdir(tmp_path / "elsewhere")
    listener._finished = Tracer("asked")  # its files are not taken up yet
    call = new_request()
    write_request(tmp_path / "asked", call)
    with pytest.warns(RecordingWarning, match="another is still running"):
        listener._look()
    assert read_answers(tmp_path / "asked", call)[0].state == BUSY
    listener.stop()


@pytest.fixture
def gone() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_rank_that_was_killed_while_it_recorded_is_not_waited_for(
    tmp_path: Path, gone: int, sleeps: Callable[[Callable[[float], None]], None]
) -> None:
    order = replace(new_request(), at_step=9)
    write_request(tmp_path, order)
    write_answer(tmp_path, _answer(order, host=host_name(), pid=gone, state="recording"))
    sleeps(_never)
    (answer,) = wait_until_done(tmp_path, order, timeout_seconds=600)
    assert (answer.state, answer.why) == ("ended", "its process has gone")


def test_when_nobody_answers_a_job_that_has_ended_is_named(tmp_path: Path, gone: int) -> None:
    write_answer(tmp_path, _answer(new_request(), host=host_name(), pid=gone, state="written"))
    with pytest.raises(StepScopeError) as told:
        agree(tmp_path, new_request(), timeout_seconds=0)
    assert told.value.hint == f"the job that listened here, process {gone}, has ended"


@pytest.mark.parametrize(("ranks", "said"), [((), "no rank has reported"), ((0,), "rank 1 did not report")])
def test_a_rank_that_says_no_more_is_no_success(
    ranks: tuple[int, ...],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ordered(_directory: Path, request: Request, **_: Any) -> Request:
        order = replace(request, at_step=9)
        for rank in ranks:
            write_answer(tmp_path, _answer(order, rank, of=2, state="written", files=("trace",)))
        return order

    monkeypatch.setattr("stepscope.record.on_demand.trigger.agree", ordered)
    assert main(["trigger", str(tmp_path), "--wait", "0.001"]) == 1
    told = capsys.readouterr()
    assert said in told.err
    assert "[not-recorded]" in told.err
    assert told.out == "trace\n" * len(ranks)


def test_ranks_that_are_no_ranks_are_a_wrong_call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trigger", str(tmp_path), "--ranks", "3-1"]) == 2
    assert "[bad-ranks]" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
