"""Recording on a device whose streams run behind the host, each at its own speed."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepscope.base.ranks import Process
from stepscope.base.step_phases import RECORDED_PHASES
from stepscope.record.annotate import region
from stepscope.record.clock import Clock, DeviceClock
from stepscope.record.inline import recorder as recording
from stepscope.record.inline.documents import phases_document
from stepscope.record.inline.session import Session
from stepscope.record.phases.phases import Phases
from stepscope.record.plan import plan_from

from .small_job import make_model
from .streams_device import Graph, Stream, StreamsDevice

PROCESS = Process(rank=0, local_rank=None, world_size=1, host="n", pid=1, rule="test")
OnDevice = Callable[[Clock], None]


def _document(phases: Phases) -> dict[str, Any]:
    return json.loads(json.dumps(phases_document(phases, PROCESS, 0)))


@pytest.mark.parametrize("micro_batches", [1, 40, 1000])
def test_the_device_is_timed_however_many_micro_batches_a_step_has(micro_batches: int) -> None:
    device = StreamsDevice()
    phases = Phases(lambda: device.now_ns)
    phases.warmup = 0
    phases.installed.update(RECORDED_PHASES)
    phases.clock = DeviceClock(device, "cuda")
    for _ in range(3):
        phases.start_step(device.now_ns)
        for name in ["forward", "backward"] * micro_batches + ["optimizer"]:
            token = phases.open(name)
            device.launch({"forward": 100, "backward": 200, "optimizer": 50}[name])
            device.now_ns += 1
            phases.close(token)
        phases.end_step(device.now_ns)
    device.now_ns = device.main.until_ns
    phases.drain()
    measured = _document(phases)["device"]
    assert measured["steps"] == 3
    assert measured["mean_ns"] == {
        "host_to_device": None,  # nothing was copied while anybody looked
        "forward": 100 * micro_batches,
        "backward": 200 * micro_batches,
        "optimizer": 50,
    }


def test_a_step_with_too_many_phases_has_no_device_times_rather_than_some() -> None:
    device = StreamsDevice()
    phases = Phases(lambda: device.now_ns)
    phases.warmup = 0
    phases.installed.update(RECORDED_PHASES)
    phases.clock = DeviceClock(device, "cuda")
    phases.start_step(0)
    for _ in range(20_000):
        phases.close(phases.open("forward"))
    phases.close(phases.open("optimizer"))
    phases.end_step(1)
    phases.drain()
    assert _document(phases)["device"] is None


@pytest.mark.torch
def test_a_module_on_a_side_stream_is_measured(tmp_path: Path, on_device: OnDevice) -> None:
    device = StreamsDevice()
    on_device(DeviceClock(device, "cuda"))
    model = make_model()
    side = Stream(9)
    plan = plan_from({"warmup": 1, "repetitions": 5, "unarmed_every": 0, "events": ["region"]})
    session = Session(plan, model=model, out=tmp_path, phases=False)
    for _ in range(20):
        session.start_iteration()
        device.launch(100_000)  # the main stream is far behind
        with device.on(side), region("region"):
            device.launch(20)
        device.now_ns += 30
        session.end_iteration()
    device.now_ns += 10_000_000
    session.stop()
    (file,) = tmp_path.glob("*.prof.json")
    document = json.loads(file.read_text())
    (event,) = document["timeline"]["device_0"]["stream_9"]
    assert [sample[1] for sample in event["samples"]] == [20] * 5


@pytest.mark.torch
def test_each_replay_of_a_graph_gives_its_own_times(
    tmp_path: Path, on_device: OnDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No measurement takes its start from one replay and its end from another."""
    device, measured = _replayed(tmp_path, on_device, monkeypatch, asks=True)
    assert device.events_in_graphs
    assert [event["label"] for event in measured["events"]] == ["a", "b"]
    for event, unit_ns in zip(measured["events"], (10, 30), strict=True):
        assert len(event["samples"]) == 4
        for iteration, duration_ns, *_ in event["samples"]:
            assert duration_ns == unit_ns * iteration
    assert measured["document"]["not_measured"] == []
    assert measured["document"]["overhead"] is None  # no iteration ran without marks


@pytest.mark.torch
def test_a_graph_that_the_job_captures_for_itself_has_no_marks_of_ours(
    tmp_path: Path, on_device: OnDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be replayed until the process ends."""
    with pytest.warns(RuntimeWarning, match="recapture"):
        device, measured = _replayed(tmp_path, on_device, monkeypatch, asks=False)
    assert device.events_in_graphs == 0
    assert measured["events"] == []
    assert ["recapture()" in one["reason"] for one in measured["document"]["not_measured"]] == [True, True]


class _Replaying(StreamsDevice):
    events_in_graphs = 0

    def captured(self, work: Callable[[], object]) -> Graph:
        graph = super().captured(work)
        self.events_in_graphs += len(graph.events)
        return graph


def _replayed(
    tmp_path: Path, on_device: OnDevice, monkeypatch: pytest.MonkeyPatch, *, asks: bool
) -> tuple[_Replaying, dict[str, Any]]:
    """A job that replays a graph, each time slower; it captures when asked, or by itself at once."""
    device = _Replaying()
    on_device(DeviceClock(device, "cuda"))

    def sleep(seconds: float) -> None:
        device.now_ns += round(seconds * 1e9)

    monkeypatch.setattr(recording.time, "sleep", sleep)
    # The session asks torch whether a stream is being captured, and torch has no device here.
    monkeypatch.setattr("stepscope.record.inline.session.capturing_check", lambda: device.is_current_stream_capturing)
    plan = plan_from({"warmup": 1, "repetitions": 4, "unarmed_every": 0, "events": ["a", "b"]})
    session = Session(plan, model=make_model(), out=tmp_path, phases=False)

    def work() -> None:
        for name, time_ns in (("a", 10), ("b", 30)):
            with region(name):
                device.launch(time_ns)

    graph = Graph()
    for iteration in range(20):
        session.start_iteration()
        if session.recapture() if asks else iteration in (2, 4):
            graph = device.captured(work)
        device.launch(1_000_000)
        device.replay(graph, times=iteration)
        device.now_ns += 100
        session.end_iteration()
    device.now_ns += 10**9
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session.stop()
    (file,) = tmp_path.glob("*.prof.json")
    document = json.loads(file.read_text())
    events = [event for streams in document["timeline"].values() for events in streams.values() for event in events]
    return device, {"document": document, "events": events}
