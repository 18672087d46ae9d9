"""The history of the CUDA allocator: bounded, the job's own left alone, and kept when memory runs out."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepscope.record.traces import allocator_history
from stepscope.record.traces.allocator_history import MAX_EVENTS, AllocatorHistory
from stepscope.record.trouble import RecordingWarning

pytestmark = pytest.mark.torch


class Cuda:
    """Plays what of torch the history asks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, enabled: bool = False) -> None:
        import torch

        self.recorded: list[dict[str, Any]] = []
        self.observers: list[Callable[..., None]] = []
        self.dumped: list[str] = []
        monkeypatch.setattr("torch.cuda.is_available", lambda: True)
        monkeypatch.setattr("torch.cuda.memory._record_memory_history", self._record)
        monkeypatch.setattr("torch.cuda.memory._dump_snapshot", self._dump)
        monkeypatch.setattr(torch._C, "_cuda_isHistoryEnabled", lambda: enabled, raising=False)
        monkeypatch.setattr(torch._C, "_cuda_attach_out_of_memory_observer", self.observers.append, raising=False)
        monkeypatch.setattr(allocator_history, "_OUT_OF_MEMORY", allocator_history._OutOfMemory())

    def _record(self, enabled: Any = "all", **options: Any) -> None:
        self.recorded.append({"enabled": enabled, **options})

    def _dump(self, path: str) -> None:
        self.dumped.append(path)
        Path(path).write_bytes(b"snapshot")


def test_it_is_bounded_and_ends_with_the_recorded_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = Cuda(monkeypatch)
    history = AllocatorHistory()
    history.start(tmp_path, "job.oom-0-of-1")
    (path,) = history.keep(tmp_path, "job-0-of-1")
    assert path == tmp_path / "job-0-of-1.memory.pickle"
    assert path.read_bytes() == b"snapshot"
    first, last = cuda.recorded
    assert (first["enabled"], first["max_entries"]) == ("all", MAX_EVENTS)
    assert first["stacks"] == "python"
    assert last == {"enabled": None}


def test_a_history_that_the_job_records_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = Cuda(monkeypatch, enabled=True)
    history = AllocatorHistory()
    history.start(tmp_path, "oom")
    assert history.keep(tmp_path, "job") == [tmp_path / "job.memory.pickle"]
    assert cuda.recorded == []


def test_when_memory_runs_out_the_first_time_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = Cuda(monkeypatch)
    history = AllocatorHistory()
    history.start(tmp_path, "job.oom-0-of-1")
    (observer,) = cuda.observers
    for _ in range(3):
        observer(0, 1 << 30, 1 << 31, 7)
    assert [path.name for path in history.keep(tmp_path, "job-0-of-1")] == [
        "job.oom-0-of-1.memory.pickle", "job-0-of-1.memory.pickle",
    ]  # fmt: skip
    observer(0, 1 << 30, 1 << 31, 7)  # nobody watches any more
    assert len(cuda.dumped) == 2
    history.start(tmp_path, "job.oom-0-of-1")
    assert len(cuda.observers) == 1


def test_what_fails_when_memory_runs_out_never_reaches_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = Cuda(monkeypatch)

    def fails(_path: str) -> None:
        raise MemoryError("injected")

    monkeypatch.setattr("torch.cuda.memory._dump_snapshot", fails)
    AllocatorHistory().start(tmp_path, "oom")
    with pytest.warns(RecordingWarning, match="of the out-of-memory: MemoryError: injected"):
        cuda.observers[0](0, 1, 2, 3)


def test_a_training_on_the_host_recorded_with_memory_has_the_peak_of_its_events(tmp_path: Path) -> None:
    import gzip
    import json

    import torch

    import stepscope

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
    optimizer = torch.optim.Adam(model.parameters())
    with stepscope.trace(tmp_path, model=model, memory=True, wait=0, warmup=1, active=3) as tracer:
        for _ in range(5):
            model(torch.randn(32, 64)).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            tracer.step()
    (path,) = tracer.written
    events = [
        one["args"]
        for one in sorted(
            json.loads(gzip.decompress(path.read_bytes()))["traceEvents"], key=lambda one: float(one.get("ts", 0))
        )
        if one.get("name") == "[memory]"
    ]
    # A plain replay: what was there before, and what is alive after each event.
    held = peak = events[0]["Total Allocated"] - events[0]["Bytes"]
    for one in events:
        held += one["Bytes"]
        peak = max(peak, held)
    with stepscope.open(path) as trace:
        (row,) = trace.memory().rows()
        assert (row["kind"], row["peak_bytes"], row["end_bytes"]) == ("cpu", peak, held)
        for by in ("category", "operator", "module", "stack"):
            assert sum(one["bytes"] for one in trace.memory(by=by).rows()) == peak
        kinds = {one["category"] for one in trace.memory(by="category").rows() if one["allocs"]}
        assert {"activations", "gradients", "temporaries"} <= kinds
        modules = {one["module"] for one in trace.memory(by="module").rows()}
        assert any("0" in (module or "") for module in modules)
        assert len(trace.memory(by="step").rows()) == 3
