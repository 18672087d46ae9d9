"""Where steps spend their time, by samples of the training thread's stack."""

import json
import random
import threading
import time
from pathlib import Path

import pytest

from stepscope.api.trace import open_trace
from stepscope.base.step_phases import RECORDED_PHASES
from stepscope.record.budget import next_timed
from stepscope.record.inline.session import Session
from stepscope.record.phases import stacks
from stepscope.record.phases.phases import Phases
from stepscope.record.phases.stacks import StackSampler


def _makes_a_batch(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        sum(range(100))


def test_samples_say_which_phase_was_open_and_which_function_ran() -> None:
    phases = Phases()
    phases.installed.update(RECORDED_PHASES)
    sampler = StackSampler(phases)
    sampler.start()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and len(sampler._counts) < 3:
        phases.start_step(time.perf_counter_ns())
        _makes_a_batch(0.1)
        token = phases.open("forward")
        _makes_a_batch(0.1)
        phases.close(token)
        phases.end_step(time.perf_counter_ns())
    sampler.stop()
    document = sampler.document()
    assert document is not None
    assert document["interval_ns"] > 20e6
    functions = [name.rpartition(".")[2] for name, _, _ in document["functions"]]
    innermost = {phase for phase, _, stack in document["stacks"] if functions[stack[0]] == "_makes_a_batch"}
    assert innermost == {"residual", "forward"}


def test_between_steps_nothing_is_sampled_and_in_steps_that_are_not_timed_no_phase() -> None:
    phases = Phases()
    assert phases.where() == (False, None)
    phases.budget.interval = 4
    timed = next_timed(4, 4)
    phases.start_step(0, number=timed + 1 if next_timed(timed + 1, 4) > timed + 1 else timed - 1)
    assert phases.where() == (True, None)
    phases.end_step(1)
    phases.start_step(0, number=timed)
    assert phases.where() == (True, "residual")
    phases.end_step(1)
    assert phases.where() == (False, None)


def test_the_jobs_random_numbers_are_left_alone() -> None:
    before = random.getstate()
    sampler = StackSampler(Phases())
    sampler.start()
    time.sleep(0.2)
    sampler.stop()
    assert random.getstate() == before
    sampler._thread.join(60)
    assert not sampler._thread.is_alive()
    sampler.stop()  # once more, which does nothing


def test_where_a_sample_takes_long_samples_are_further_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = StackSampler(Phases())
    waits: list[float] = []

    class Running:
        def acquire(self, timeout: float) -> bool:
            waits.append(timeout)
            return len(waits) == 13

    monkeypatch.setattr(sampler, "_running", Running())
    monkeypatch.setattr("stepscope.record.phases.stacks.time.thread_time", lambda: 8 * 0.0002)
    sampler._run()
    assert max(waits[:8]) < 0.075
    assert min(waits[8:]) >= 0.1  # 0.2 ms are a thousandth of 0.2 s
    assert max(waits[8:]) < 0.3


@pytest.mark.torch
def test_a_job_whose_directory_has_gone_is_named_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.syspath_prepend("/somewhere")
    assert stacks._short("/somewhere/train.py") == "train.py"


def test_a_recording_names_what_the_loop_does_beside_its_phases(tmp_path: Path) -> None:
    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    session = Session(None, model=model, optimizer=optimizer, out=tmp_path)
    session.start(lead_in=True)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        session.start_iteration()
        _makes_a_batch(0.05)
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        session.end_iteration()
        if session._stacks is not None and session._stacks._counts.total() > 40:
            break
    session.stop()
    assert "stepscope-stacks" not in {thread.name for thread in threading.enumerate() if thread is session._stacks}
    (file,) = tmp_path.glob("*.phases.json")
    assert json.loads(file.read_text())["stacks"]["lost"] == 0
    with open_trace(file, cache=False) as trace:
        (verdict,) = trace.phases(by="verdict").rows()[:1]
        top = trace.hotspots().rows()[0]
    assert verdict["kind"] == "residual"
    assert "of its" in verdict["evidence"]
    assert "_makes_a_batch" in verdict["evidence"]
    assert "logging" not in verdict["evidence"]
    assert top["function"] == "_makes_a_batch"
