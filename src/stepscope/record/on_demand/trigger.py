"""Asks a running job for a trace: calls its ranks, orders a step, waits for their final answers.

The files are described in `request`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from stepscope.base.chosen_ranks import chosen
from stepscope.base.errors import StepScopeError
from stepscope.base.ranks import Process, host_name, is_alive
from stepscope.record.on_demand.request import (
    BUSY,
    FINAL,
    WARMUP,
    Answer,
    Request,
    all_answers,
    read_answers,
    read_request,
    write_request,
)

ERRORS = {
    "no-answer": (
        "`stepscope trigger` calls all ranks of a running job before it orders a step. Not all of "
        "them answered in time, or the step that was asked for would have been over before the "
        "order came. Nothing was recorded. The directory must be the one the job listens to, on a "
        "file system that all ranks see."
    )
}


def agree(directory: Path, request: Request, *, lead_seconds: float = 3.0, timeout_seconds: float = 60.0) -> Request:
    """Calls the ranks, and orders a step that none of them has reached; returns the request with its step.

    Args:
        request: its step, if it has one, is used if it is far enough ahead.
        lead_seconds: the time that the order may take to reach the slowest rank.
        timeout_seconds: the time for ranks to answer.

    Raises:
        StepScopeError: ranks did not answer, are recording for another request, are not among those that should record,
            or do not know whether they are; or the given step is too near.
        OSError: the directory cannot be written.
    """
    if not directory.is_dir():
        raise _no_answer(
            f"there is no directory {directory}",
            "give the one that the job listens to; it makes it when it starts",
        )
    call_s = time.monotonic()
    write_request(directory, replace(request, at_step=None))
    answers = _everybody(directory, request, call_s + timeout_seconds)
    busy = [str(answer.rank) for answer in answers if answer.state == BUSY]
    if busy:
        raise _no_answer(
            f"{directory}: rank {_some(busy)} still records for another request",
            "ask again when that is done; nothing was recorded for this one",
        )
    # All are checked, so that one that does not know is not overlooked.
    recording = [answer for answer in answers if chosen(request.ranks, _process(answer))]
    if not recording:
        raise _no_answer(
            f'no rank of the job is among --ranks "{request.ranks}"',
            f"the job has the ranks 0 to {len(answers) - 1}",
        )
    # An answer is at most as old as the call.
    away = max(
        answer.step + math.ceil((time.monotonic() - call_s + lead_seconds) / max(answer.step_seconds, 1e-6))
        for answer in answers
    )
    earliest = away + WARMUP + 1
    if request.at_step is not None and request.at_step < earliest:
        raise _no_answer(
            f"step {request.at_step} is too near: the ranks are in steps up to "
            f"{max(answer.step for answer in answers)}",
            f"ask for step {earliest} or a later one, or leave --at out",
        )
    order = replace(request, at_step=request.at_step or earliest)
    write_request(directory, order)
    return order


def wait_until_done(directory: Path, request: Request, *, timeout_seconds: float) -> list[Answer]:
    """Returns the ranks' final answers to an order, as far as they arrive; StepScopeError if it was replaced."""
    deadline = time.monotonic() + timeout_seconds
    while True:
        answers = [_if_alive(answer) for answer in read_answers(directory, request).values()]
        size = max((answer.world_size for answer in answers), default=1)
        done = len(answers) >= size and all(answer.state in FINAL for answer in answers)
        if done or time.monotonic() >= deadline:
            return sorted(answers, key=lambda answer: answer.rank)
        if not answers and not any(answer.state == BUSY for answer in all_answers(directory)):
            _refuse_replaced(directory, request)
        time.sleep(0.2)


def _no_answer(what: str, hint: str) -> StepScopeError:
    return StepScopeError(what, hint=hint, slug="no-answer")


def _process(answer: Answer) -> Process:
    return Process(
        answer.rank,
        answer.local_rank,
        answer.world_size,
        answer.host,
        answer.pid,
        rule="its launcher",
        node=answer.node,
        disagreement=answer.disagreement,
    )


def _if_alive(answer: Answer) -> Answer:
    if answer.state in FINAL or answer.host != host_name():
        return answer
    if is_alive(answer.pid):
        return answer
    return replace(answer, state="ended", why="its process has gone")


def _refuse_replaced(directory: Path, request: Request) -> None:
    try:
        other = read_request(directory).id != request.id
    except (OSError, ValueError):
        return
    if other:
        raise _no_answer(
            f"{directory}: another request has taken the place of this one",
            "one is carried out at a time; ask again when the other is done",
        )


def _everybody(directory: Path, request: Request, deadline: float) -> list[Answer]:
    while True:
        answers = read_answers(directory, request)
        size = max((answer.world_size for answer in answers.values()), default=0)
        if answers and len(answers) >= size:
            return list(answers.values())
        if time.monotonic() >= deadline:
            break
        _refuse_replaced(directory, request)
        time.sleep(0.1)
    if not answers:
        # Those of earlier listeners here, as if they still listened.
        unfinished = [replace(answer, state="here") for answer in all_answers(directory)]
        ended = [answer for answer in map(_if_alive, unfinished) if answer.state in FINAL]
        raise _no_answer(
            f"{directory}: no rank answered",
            f"the job that listened here, process {ended[0].pid}, has ended"
            if ended
            else "is this the directory that the job listens to, and has it taken its first steps?",
        )
    missing = [str(rank) for rank in range(size) if rank not in answers]
    raise _no_answer(
        f"{directory}: {len(missing)} of {size} ranks did not answer: {_some(missing)}",
        "all of them must see this directory; nothing was recorded",
    )


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:8]) + (", ..." if len(listed) > 8 else "")
