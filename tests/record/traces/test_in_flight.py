"""Collectives over gloo that still run when the profiler is to stop, in jobs of two processes."""

import gzip
import json
import textwrap
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.record.two_ranks import torchrun

from stepscope.record.traces import in_flight
from stepscope.record.traces.in_flight import InFlight
from stepscope.record.trouble import Guard

pytestmark = pytest.mark.torch

JOB = """
    import sys, time

    import torch
    import torch.distributed as dist

    import stepscope

    how, out = sys.argv[1:]
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    works = []
    before = dict(vars(dist.ProcessGroup))
    with stepscope.trace(out, name="job", wait=0, warmup=1, active=2) as tracer:
        for step in range(8):
            for work in works:
                work.wait()
            with stepscope.region(f"region {step}"):
                torch.ones(3).add(1)
            if how == "all_reduce":
                if rank == 1:
                    time.sleep(0.3)
                works = [dist.all_reduce(torch.ones(3), async_op=True)]
            elif rank == 0:
                works = [dist.isend(torch.ones(3), 1)]
            else:
                works = [dist.irecv(torch.ones(3), 0)]
            tracer.step()
        for work in works:
            work.wait()
    assert dict(vars(dist.ProcessGroup)) == before
    # This thread can be heard again.
    with torch.profiler.profile() as profiler:
        torch.ones(3).add(1)
    assert "aten::add" in {event.key for event in profiler.key_averages()}
    dist.destroy_process_group()
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "job.py"
    path.write_text(textwrap.dedent(JOB), encoding="utf-8")
    return path


def _events(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt") as file:
        events = [event for event in json.load(file)["traceEvents"] if "dur" in event]
    return sorted(events, key=lambda event: event["ts"])


@pytest.mark.sweep(2)
@pytest.mark.parametrize(
    ("how", "names"), [("all_reduce", ("gloo:all_reduce", "gloo:all_reduce")), ("message", ("gloo:send", "gloo:recv"))]
)
def test_what_ends_in_the_next_step_is_whole_and_nothing_else_of_it_is_recorded(
    how: str, names: tuple[str, str], job: Path, tmp_path: Path
) -> None:
    out = tmp_path / "traces"
    done = torchrun(job, how, str(out))
    assert done.returncode == 0, done.stderr
    assert "RecordingWarning" not in done.stderr
    for rank, name in enumerate(names):
        events = _events(out / f"job-{rank}-of-2.json.gz")
        ran = [event["dur"] for event in events if event["name"] == name]
        assert len(ran) == 2
        if how == "all_reduce" and rank == 0:
            assert ran[-1] > 50_000  # us: the other rank comes 300 ms later
        regions = {event["name"] for event in events if event["name"].startswith("region")}
        assert regions == {"region 1", "region 2"}


class _Work:
    """What a process group returns."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    def is_completed(self) -> bool:
        return self.ended.is_set()


class _Group:
    """A process group as torch's, whose collectives return what a test gives them."""

    work: Any = None

    def allreduce(self, _tensors: Any, _options: Any = None) -> Any:
        return self.work

    def send(self, _tensors: Any, _to: int, _tag: int) -> Any:
        return self.work


@pytest.fixture
def flight(monkeypatch: pytest.MonkeyPatch) -> InFlight:
    from torch import distributed

    monkeypatch.setattr(in_flight, "_uses_gloo", lambda: True)
    monkeypatch.setattr(distributed, "ProcessGroup", _Group)
    monkeypatch.setattr(in_flight, "gloo_threads", lambda: ["S"])
    flight = InFlight(Guard("the trace"))
    flight.listen()
    return flight


def _tensors(device: str) -> list[Any]:
    return [SimpleNamespace(device=SimpleNamespace(type=device))]


def test_a_collective_counts_until_it_has_ended(flight: InFlight) -> None:
    group = _Group()
    group.work = work = _Work()
    group.allreduce([_tensors("cpu")])
    flight.stop_listening()
    assert flight.any()
    work.ended.set()
    assert not flight.any()


def test_what_runs_on_a_gpu_is_not_held(flight: InFlight) -> None:
    group = _Group()
    group.work = _Work()
    group.allreduce(_tensors("cuda"))
    assert not flight.any()
    flight.forget()


def test_a_message_that_the_job_has_dropped_no_longer_counts(flight: InFlight) -> None:
    group = _Group()
    group.work = _Work()
    group.send(_tensors("cpu"), 1, 0)
    assert flight.any()
    group.work = None
    assert not flight.any()
    flight.forget()


def test_settling_waits_for_what_ends_by_itself(flight: InFlight) -> None:
    group = _Group()
    group.work = work = _Work()
    group.allreduce(_tensors("cpu"))
    threading.Timer(0.1, work.ended.set).start()
    began = time.monotonic()
    assert flight.settle()
    assert 0.1 <= time.monotonic() - began < in_flight._PATIENCE_SECONDS
    flight.forget()


def test_settling_waits_while_a_thread_of_gloo_runs(flight: InFlight, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([["R", "S"]] * 7)
    monkeypatch.setattr(in_flight, "gloo_threads", lambda: next(looks, ["S", "S"]))
    assert flight.settle()
    assert next(looks, None) is None
    flight.forget()


def test_settling_has_an_end(flight: InFlight, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_flight, "_PATIENCE_SECONDS", 0.05)
    group = _Group()
    group.work = _Work()
    group.allreduce(_tensors("cpu"))
    assert not flight.settle()
    flight.forget()


def test_the_states_of_gloos_threads_are_read_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, stat in enumerate(["1 (python3) R 1 1", "2 (pt_gloo_runloop) S 1 1", "3 (a) gloo (b)) R 1 1", "4"]):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "stat").write_text(stat, encoding="utf-8")
    (tmp_path / "ended").mkdir()
    monkeypatch.setattr(in_flight, "_TASKS", tmp_path)
    assert sorted(in_flight.gloo_threads()) == ["R", "S"]
    monkeypatch.setattr(in_flight, "_TASKS", tmp_path / "absent")
    assert in_flight.gloo_threads() == []


def test_without_gloo_nothing_is_replaced_and_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch import distributed

    def sleeps(_seconds: float) -> None:
        raise AssertionError("it waits")

    monkeypatch.setattr(in_flight.time, "sleep", sleeps)
    before = dict(vars(distributed.ProcessGroup))
    flight = InFlight(Guard("the trace"))
    flight.listen()
    assert dict(vars(distributed.ProcessGroup)) == before
    assert flight.settle()
