"""What only a real device can confirm: event times, graphs, waits, memory.

make test TEST_FLAGS='--gpu -m gpu'
"""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import stepscope
from stepscope.api.inline_profiles import parse_result
from stepscope.record import inline
from stepscope.record.annotate import region
from stepscope.record.traces.tracing import trace

pytestmark = [pytest.mark.gpu, pytest.mark.torch]

WIDTH = 4096


def _job(width: int = WIDTH, layers: int = 4) -> tuple[Any, Any, Any]:
    import torch
    from torch import nn

    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(width, width) for _ in range(layers))).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    return model, optimizer, torch.randn(width, width, device="cuda")


def _train(model: Any, optimizer: Any, batches: Iterable[Any]) -> list[float]:
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [loss.item() for loss in losses]


def _profiled(steps: Any) -> list[Any]:
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        steps()
        torch.cuda.synchronize()
    return list(profiler.events())


def _events(out: Path) -> dict[str, dict[str, Any]]:
    (profile,) = parse_result(out)
    return {
        event["label"]: {**event, "place": (device, stream)}
        for device, streams in profile["timeline"].items()
        for stream, events in streams.items()
        for event in events
    }


def test_a_layer_takes_as_long_as_its_kernels_do(tmp_path: Path) -> None:
    model, optimizer, data = _job()
    plan = {"warmup": 5, "repetitions": 20, "events": ["1.forward", "1.backward", "optimizer.step"]}
    inline.start(plan, model=model, optimizer=optimizer, out=tmp_path)
    _train(model, optimizer, inline.iterate(data for _ in range(120)))
    inline.stop()
    measured = _events(tmp_path)
    assert measured["1.forward"]["clock"] == "cuda"

    kernels = _profiled(lambda: model[1](data))
    took_us = sum(event.device_time_total for event in kernels if event.device_type.name == "CUDA")
    assert measured["1.forward"]["statistics"]["median_ns"] == pytest.approx(took_us * 1e3, rel=0.05)
    assert measured["1.backward"]["statistics"]["median_ns"] > 1.5 * measured["1.forward"]["statistics"]["median_ns"]


def test_recording_adds_no_wait_for_the_device(tmp_path: Path) -> None:
    model, optimizer, data = _job(256)

    def waits() -> Counter[str]:
        names = (event.name for event in _profiled(steps))
        return Counter(name for name in names if "Synchronize" in name)

    def steps() -> None:
        _train(model, optimizer, inline.iterate(data for _ in range(40)))

    steps()
    without = waits()
    plan = {"warmup": 2, "repetitions": 5, "events": ["forward", "1.forward", "2.backward"]}
    inline.start(plan, model=model, optimizer=optimizer, out=tmp_path)
    recorded = waits()
    inline.stop()
    assert recorded == without


def test_the_losses_are_the_same_bit_for_bit(tmp_path: Path) -> None:
    expected = _train(*_job(256)[:2], [_job(256)[2]] * 60)
    model, optimizer, data = _job(256)
    plan = {"warmup": 2, "repetitions": 3, "events": ["**.forward", "**.backward"]}
    inline.start(plan, model=model, optimizer=optimizer, out=tmp_path)
    losses = _train(model, optimizer, inline.iterate([data] * 60))
    inline.stop()
    assert losses == expected


def test_regions_inside_a_captured_graph_are_measured_at_its_replays(tmp_path: Path) -> None:
    import torch

    model, _, data = _job(2048)

    def forward() -> Any:
        with region("front"):
            front = model[:2](data)
        with region("back"):
            return model[2:](front)

    with torch.no_grad():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                forward()
        torch.cuda.current_stream().wait_stream(side)

        def capture() -> Any:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                forward()
            return graph

        graph = capture()
        plan = {"warmup": 2, "repetitions": 10, "events": ["front", "back"]}
        inline.start(plan, model=model, out=tmp_path, phases=False)
        for _ in range(80):
            with inline.iteration():
                if inline.recapture():
                    graph = capture()
                graph.replay()
        torch.cuda.synchronize()
        inline.stop()
    measured = _events(tmp_path)
    front, back = (measured[name]["statistics"] for name in ("front", "back"))
    assert front["n"] == back["n"] == 10
    assert front["median_ns"] == pytest.approx(back["median_ns"], rel=0.2)


@pytest.mark.parametrize(("width", "layers", "verdict"), [(8, 40, "host-bound"), (8192, 4, "compute-bound")])
def test_the_verdict_tells_a_busy_device_from_one_that_waits(
    width: int, layers: int, verdict: str, tmp_path: Path
) -> None:
    model, optimizer, data = _job(width, layers)
    inline.start(model=model, optimizer=optimizer, out=tmp_path)
    _train(model, optimizer, inline.iterate(data for _ in range(40)))
    inline.stop()
    (file,) = tmp_path.glob("*.phases.json")
    summary = json.loads(file.read_text())
    assert summary["device"]["kind"] == "cuda"
    assert summary["memory"]["peak_bytes"] > 0
    with stepscope.open(tmp_path, cache=False) as recorded:
        assert recorded.ask("findings").rows()[0]["id"] == verdict


def test_a_trace_has_kernels_below_the_modules_and_a_memory_snapshot(tmp_path: Path) -> None:
    model, optimizer, data = _job(512)
    with trace(tmp_path, model=model, active=2, memory_snapshot=True) as tracer:
        _train(model, optimizer, tracer.iterate(data for _ in range(6)))
    assert any("snapshot" in path.name for path in tracer.written)
    with stepscope.open(next(path for path in tracer.written if ".json" in path.name)) as recorded:
        modules = {row["path"]: row for row in recorded.modules().rows()}
    assert modules["1"]["device_self_ns"] > 0
