"""Traces on demand: the same step on every rank, and a job that does not notice."""

import errno
import gzip
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.record.small_job import batches, make_model, train, untouched

from stepscope.base.errors import StepScopeError
from stepscope.cli.main import main
from stepscope.record import output
from stepscope.record.on_demand.listener import OnDemand, on_demand
from stepscope.record.on_demand.request import (
    REQUEST,
    Answer,
    Request,
    new_request,
    read_answers,
    read_request,
    write_answer,
    write_request,
)
from stepscope.record.on_demand.trigger import agree, wait_until_done
from stepscope.record.trouble import RecordingWarning


def _answer(request: Request, rank: int, step: int, of: int = 2, **other: Any) -> Answer:
    return Answer(request.id, rank, of, "host", 1, step, other.pop("seconds", 0.5), "here", **other)


def _stand_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """No time passes, and nothing may wait: everybody has answered."""
    fake = SimpleNamespace(monotonic=lambda: 50.0)
    monkeypatch.setattr("stepscope.record.on_demand.trigger.time", fake)


def test_the_ordered_step_is_ahead_of_the_rank_that_is_furthest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _stand_still(monkeypatch)
    request = new_request(steps=2)
    write_answer(tmp_path, _answer(request, 0, step=100))
    write_answer(tmp_path, _answer(request, 1, step=103))
    order = agree(tmp_path, request, lead_seconds=3)
    # 3 s are 6 steps of 0.5 s after 103; then one of warm-up, and one for the boundary.
    assert order.at_step == 111
    assert read_request(tmp_path) == order


def test_a_step_that_is_too_near_is_refused_and_never_ordered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _stand_still(monkeypatch)
    request = new_request(at_step=105)
    write_answer(tmp_path, _answer(request, 0, step=100, of=1))
    with pytest.raises(StepScopeError, match="step 105 is too near"):
        agree(tmp_path, request, lead_seconds=3)
    assert read_request(tmp_path).at_step is None


def test_nothing_is_ordered_unless_all_ranks_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = new_request()
    write_answer(tmp_path, _answer(request, 1, step=100, of=3))
    clock = itertools.count(0.0)
    fake = SimpleNamespace(sleep=lambda _: None, monotonic=lambda: next(clock))
    monkeypatch.setattr("stepscope.record.on_demand.trigger.time", fake)
    with pytest.raises(StepScopeError, match="2 of 3 ranks did not answer: 0, 2"):
        agree(tmp_path, request, timeout_seconds=5)
    assert read_request(tmp_path).at_step is None


def test_answers_to_other_requests_and_damaged_ones_do_not_count(tmp_path: Path) -> None:
    request = new_request()
    write_answer(tmp_path, _answer(new_request(), 0, step=5))
    write_answer(tmp_path, _answer(request, 1, step=5))
    (tmp_path / "rank=00002.json").write_text('{"id": "')
    (tmp_path / "rank=00003.json").write_text("[]")
    assert list(read_answers(tmp_path, request)) == [1]


@pytest.mark.parametrize(
    "text",
    [
        *("", "steps please", "[]", "{}", '{"id": ""}', "[" * 60_000, '{"id": "' + "a" * 70_000 + '"}'),
        *('{"id": "a", "steps": 0}', '{"id": "a", "steps": true}', '{"id": "a", "steps": 1e9}'),
        *('{"id": "a", "at_step": "soon"}', '{"id": "a", "run": "rm"}'),
    ],
)
def test_what_is_no_request_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / REQUEST).write_text(text)
    with pytest.raises(ValueError, match=r".+"):
        read_request(tmp_path)


def test_a_pipe_in_the_place_of_the_request_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / REQUEST)
    with pytest.raises(ValueError, match="no regular file"):
        read_request(tmp_path)


# In a job. Its thread is not started: tests look for it, at the moment they choose.


def _quiet(listener: OnDemand) -> OnDemand:
    listener._ending.wait = lambda _seconds: True  # type: ignore[method-assign]
    listener.start()
    assert listener._thread is not None
    listener._thread.join()
    return listener


def _file_steps(path: Path) -> list[str]:
    with gzip.open(path, "rt") as file:
        events = json.load(file)["traceEvents"]
    return [
        event["name"]
        for event in events
        if event.get("cat") == "user_annotation" and event["name"].startswith("ProfilerStep#")
    ]


def _states(directory: Path, request: Request) -> list[str]:
    return [answer.state for answer in read_answers(directory, request).values()]


@pytest.mark.torch
def test_the_ordered_steps_are_recorded_and_the_losses_are_the_same(tmp_path: Path) -> None:
    expected = train(make_model(), batches(30))
    model = make_model()
    listener = _quiet(on_demand(tmp_path, name="job", model=model, start_step=1000))
    request = new_request(steps=2)

    def inside(number: int) -> None:
        if number == 5:
            write_request(tmp_path, request)
        if number == 10:
            write_request(tmp_path, replace(request, at_step=1015))
        listener._look()

    losses = train(model, listener.iterate(batches(30)), inside=inside)
    assert _states(tmp_path, request) == ["written"]
    (path,) = listener.stop()
    assert losses == expected
    assert path.name == "job.step1015-0-of-1.json.gz"
    assert _file_steps(path) == ["ProfilerStep#1015", "ProfilerStep#1016"]
    assert untouched(model)


@pytest.mark.torch
def test_a_second_request_is_another_file(tmp_path: Path) -> None:
    model = make_model()
    listener = _quiet(on_demand(tmp_path, name="job", model=model))

    def inside(number: int) -> None:
        if number in (3, 12):
            write_request(tmp_path, new_request(steps=1, at_step=number + 3))
        listener._look()

    train(model, listener.iterate(batches(20)), inside=inside)
    assert [path.name for path in listener.stop()] == ["job.step6-0-of-1.json.gz", "job.step15-0-of-1.json.gz"]


def _run_with(
    tmp_path: Path, inside: Callable[[OnDemand, int], None], steps: int = 20, **options: Any
) -> tuple[OnDemand, list[str]]:
    """Trains while it listens, checks the losses, and says what was warned of."""
    expected = train(make_model(), batches(steps))
    model = make_model()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        listener = _quiet(on_demand(tmp_path / "job", name="job", model=model, **options))
        loader = listener.iterate(batches(steps))
        assert train(model, loader, inside=lambda number: inside(listener, number)) == expected
        listener.stop()
    assert untouched(model)
    return listener, [str(one.message) for one in caught if one.category is RecordingWarning]


def _asks(at: int, request: Request) -> Callable[[OnDemand, int], None]:
    """What runs in each step: in one of them the request comes."""

    def inside(listener: OnDemand, number: int) -> None:
        if number == at:
            write_request(listener.directory, request)
        listener._look()

    return inside


@pytest.mark.torch
def test_a_step_that_the_job_never_reaches_is_one_warning(tmp_path: Path) -> None:
    listener, said = _run_with(tmp_path, _asks(8, new_request(at_step=500)))
    assert listener.written == []
    assert said == ["no trace on demand was recorded: it was to start at step 500, and rank 0 ended in step 20"]


@pytest.mark.torch
def test_a_rank_that_is_past_the_step_skips_it_and_says_so(tmp_path: Path) -> None:
    request = new_request(at_step=5)

    def inside(listener: OnDemand, number: int) -> None:
        if number == 8:
            write_request(listener.directory, request)
            listener._look()
        if number == 10:
            listener._look()

    listener, said = _run_with(tmp_path, inside)
    assert listener.written == []
    (answer,) = read_answers(listener.directory, request).values()
    assert (answer.state, answer.why) == ("skipped", "it was in step 9 already when step 5 was asked for")
    assert len(said) == 1


@pytest.mark.torch
def test_a_call_that_waits_for_the_job_to_start_is_answered(tmp_path: Path) -> None:
    request = new_request()
    (tmp_path / "job").mkdir()
    write_request(tmp_path / "job", request)
    listener, _ = _run_with(tmp_path, lambda listener, _: listener._look())
    assert _states(listener.directory, request) == ["ended"]


@pytest.mark.torch
def test_an_order_from_before_the_job_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    write_request(tmp_path / "job", new_request(at_step=10))
    listener, said = _run_with(tmp_path, lambda listener, _: listener._look())
    assert (listener.written, said) == ([], [])


@pytest.mark.torch
def test_a_rank_that_is_not_chosen_records_nothing(tmp_path: Path) -> None:
    request = new_request(at_step=10, ranks="3")

    listener, said = _run_with(tmp_path, _asks(3, request))
    assert (listener.written, said) == ([], [])
    assert _states(listener.directory, request) == ["not-chosen"]


@pytest.mark.torch
def test_garbage_is_said_once_and_the_next_request_is_taken(tmp_path: Path) -> None:
    def inside(listener: OnDemand, number: int) -> None:
        if number == 2:
            (listener.directory / REQUEST).write_text("please")
        if number == 8:
            write_request(listener.directory, new_request(steps=1, at_step=12))
        listener._look()

    listener, said = _run_with(tmp_path, inside)
    (message,) = said
    assert "is not answered" in message
    assert [path.name for path in listener.written] == ["job.step12-0-of-1.json.gz"]


@pytest.mark.torch
def test_a_directory_that_vanishes_is_not_made_again(tmp_path: Path) -> None:
    def inside(listener: OnDemand, number: int) -> None:
        if number == 3:
            write_request(listener.directory, new_request())
            listener._seen = None
            listener._look()
        if number == 5:
            for path in listener.directory.iterdir():
                path.unlink()
            listener.directory.rmdir()
        if number > 5:
            listener._look()

    listener, said = _run_with(tmp_path, inside)
    assert said == []
    assert not listener.directory.exists()


@pytest.mark.torch
def test_a_full_disk_costs_one_warning_and_the_trace_goes_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = output.write_complete
    full = False

    def write(path: Path, fill: Any) -> None:
        if full and path.is_relative_to(tmp_path):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        original(path, fill)

    monkeypatch.setattr(output, "write_complete", write)
    monkeypatch.setattr("stepscope.record.on_demand.request.write_complete", write)

    def inside(listener: OnDemand, number: int) -> None:
        nonlocal full
        if number == 3:
            write_request(listener.directory, new_request(steps=1, at_step=10))
        full = number > 3
        if number > 3:
            try:
                listener._look()
            except OSError as error:
                listener._complain(error)

    listener, said = _run_with(tmp_path, inside)
    assert sum("cannot be used for traces on demand" in message for message in said) == 1
    assert sum("the trace could not be written" in message for message in said) == 1
    assert len(said) == 2
    (path,) = listener.written
    assert _file_steps(path) == ["ProfilerStep#10"]


@pytest.mark.torch
def test_a_job_that_ends_while_it_records_writes_the_steps_it_had(tmp_path: Path) -> None:
    request = new_request(steps=50, at_step=10)

    listener, said = _run_with(tmp_path, _asks(3, request), steps=14)
    assert said == []
    assert _file_steps(listener.written[0])[:4] == [f"ProfilerStep#{n}" for n in (10, 11, 12, 13)]
    assert _states(listener.directory, request) == ["written"]


@pytest.mark.torch
def test_a_profiler_of_the_jobs_own_costs_one_warning(tmp_path: Path) -> None:
    from torch.profiler import ProfilerActivity, profile

    request = new_request(steps=2, at_step=10)

    with profile(activities=[ProfilerActivity.CPU]) as theirs:
        listener, said = _run_with(tmp_path, _asks(3, request))
    (message,) = said
    assert "already runs a profiler" in message
    assert any(event.key == "aten::addmm" for event in theirs.key_averages())
    (answer,) = read_answers(listener.directory, request).values()
    assert answer.state == "failed"
    assert "already runs a profiler" in answer.why


def test_a_directory_that_cannot_be_made_costs_one_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    listener = on_demand(tmp_path / "file" / "job")
    with pytest.warns(RecordingWarning, match="the trace on demand stopped") as caught:
        listener.start()
    assert list(listener.iterate([1, 2, 3])) == [1, 2, 3]
    assert listener.stop() == []
    assert len(caught) == 1


def test_a_signal_handler_of_the_jobs_own_is_left_alone(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    try:
        listener = on_demand(tmp_path, on_signal=True)
        with pytest.warns(RecordingWarning, match="SIGUSR2 does not start a trace"):
            listener.start()
        listener.stop()
        assert signal.getsignal(signal.SIGUSR2) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGUSR2, before)


def test_the_command_says_when_nobody_listens(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["trigger", str(tmp_path / "nowhere")]) == 1
    assert "there is no directory" in capfd.readouterr().err
    assert not (tmp_path / "nowhere").exists()
    assert main(["trigger", str(tmp_path), "--timeout", "0"]) == 1
    assert "no rank answered [no-answer]" in capfd.readouterr().err


# Two processes, with a thread of its own each, and the real command.

JOB = """
import os, signal, sys, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from stepscope.record.on_demand.listener import on_demand

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(8, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
stop = torch.zeros(1)
with on_demand(sys.argv[1], name="job", start_step=500, on_signal=True, poll_seconds=0.05) as listener:
    while not stop.item():
        optimizer.zero_grad()
        model(torch.ones(2, 8)).sum().backward()
        optimizer.step()
        time.sleep(0.005 * (1 + rank))
        stop.fill_(os.path.exists(sys.argv[2]))
        dist.all_reduce(stop)
        listener.step()
dist.destroy_process_group()
"""


@pytest.fixture
def job(tmp_path: Path) -> Any:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = str(found.getsockname()[1])
    end = tmp_path / "end"
    directory = tmp_path / "trigger"
    directory.mkdir()
    script = tmp_path / "job.py"
    script.write_text(textwrap.dedent(JOB))
    processes = [
        subprocess.Popen(
            [sys.executable, "-W", "error::RuntimeWarning", str(script), str(directory), str(end)],
            stderr=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "OMP_NUM_THREADS": "1",
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": "2",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": port,
                "KINETO_LOG_LEVEL": "6",
            },
        )
        for rank in range(2)
    ]
    try:
        yield directory, processes
        end.touch()
        for process in processes:
            _, said = process.communicate(timeout=60)
            assert process.returncode == 0, said
            assert "stepscope" not in said
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()


def _await(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it took too long"
        threading.Event().wait(0.05)


@pytest.mark.torch
def test_both_ranks_record_the_same_steps_and_a_signal_asks_too(job: Any, capfd: pytest.CaptureFixture[str]) -> None:
    directory, processes = job
    assert main(["trigger", str(directory), "--steps", "2", "--lead", "0.5"]) == 0
    files = [Path(line) for line in capfd.readouterr().out.splitlines()]
    assert len(files) == 2
    steps = [_file_steps(path) for path in files]
    assert steps[0] == steps[1]
    assert len(steps[0]) == 2
    first = int(steps[0][0].removeprefix("ProfilerStep#"))
    assert [path.name for path in files] == [f"job.step{first}-{rank}-of-2.json.gz" for rank in (0, 1)]
    assert first > 500

    processes[1].send_signal(signal.SIGUSR2)
    before = read_request(directory)
    _await(lambda: read_request(directory).id != before.id)
    _await(lambda: read_request(directory).at_step is not None)
    order = read_request(directory)
    answers = wait_until_done(directory, order, timeout_seconds=60)
    assert [answer.state for answer in answers] == ["written", "written"]
    assert [_file_steps(Path(answer.files[0]))[0] for answer in answers] == [f"ProfilerStep#{order.at_step}"] * 2
