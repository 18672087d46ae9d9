"""Captures of CUDA graphs in a job, with a stand-in for the graph: what is recorded of them, and when."""

import gzip
import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from tests.record.small_job import batches, make_model, train

import stepscope
from stepscope.record.traces import graph_captures
from stepscope.record.traces.tracing import trace
from stepscope.record.trouble import RecordingWarning

pytestmark = pytest.mark.torch


class Graph:
    """A graph that is captured by running."""

    broken = False

    def capture_begin(self, pool: Any = None) -> str:
        if self.broken:
            raise RuntimeError("out of memory")
        return f"begun {pool}"

    def capture_end(self) -> str:
        return "ended"


@pytest.fixture(autouse=True)
def stand_in(monkeypatch):
    import torch

    own = type("CUDAGraph", (Graph,), dict(vars(Graph)))
    monkeypatch.setattr(torch.cuda, "CUDAGraph", own)
    return own


def _captured(graph: Any, model: Any) -> None:
    import torch

    assert graph.capture_begin("pool") == "begun pool"
    with torch.no_grad():
        model(next(iter(batches(1)))[0])
    assert graph.capture_end() == "ended"


def _job(out: Path, captures: dict[int, int], **options: Any) -> list[Path]:
    """A job that captures so many graphs before these steps."""
    import torch

    model = make_model()
    with trace(out, name="job", model=model, **options) as tracer:
        for step, batch in enumerate(tracer.iterate(batches(6))):
            for _ in range(captures.get(step, 0)):
                _captured(torch.cuda.CUDAGraph(), model)
            train(model, [batch])
    return tracer.written


def _read(path: Path) -> dict[str, Any]:
    with gzip.open(path, "rt") as file:
        content: dict[str, Any] = json.load(file)
    return content


def _names(out: Path) -> list[str]:
    return sorted(path.name for path in out.iterdir())


def test_each_capture_before_the_trace_has_a_file_with_operators_shapes_and_modules(tmp_path):
    _job(tmp_path, {0: 2}, wait=2, warmup=1, active=1)
    assert _names(tmp_path) == [
        "job-0-of-1.json.gz", "job.capture0-0-of-1.json.gz", "job.capture1-0-of-1.json.gz",
    ]  # fmt: skip
    content = _read(tmp_path / "job.capture1-0-of-1.json.gz")
    assert content["stepscope"]["graph_capture"] == 1
    rows = content["traceEvents"]
    assert any(row.get("args", {}).get("Input Dims") for row in rows)
    names = {row.get("name", "") for row in rows}
    assert "aten::addmm" in names or "aten::linear" in names
    assert any(name.startswith("nn.Module: ") for name in names)
    assert "ProfilerStep#0" not in names


def test_a_capture_is_read_with_the_trace_and_is_no_recording_of_its_own(tmp_path):
    _job(tmp_path, {0: 1}, wait=2, warmup=1, active=1)
    with stepscope.open(tmp_path, cache=False) as together:
        assert [Path(row["path"]).name for row in together.ask("sources").rows()] == ["job-0-of-1.json.gz"]


def test_a_capture_within_the_trace_is_in_the_trace(tmp_path):
    _job(tmp_path, {3: 1}, wait=2, warmup=1, active=2)
    assert _names(tmp_path) == ["job-0-of-1.json.gz"]


def test_a_capture_that_fails_raises_as_it_would_and_leaves_the_profiler_to_the_trace(tmp_path, stand_in):
    model = make_model()
    stand_in.broken = True
    with trace(tmp_path, name="job", model=model, wait=2, warmup=1, active=1) as tracer:
        for step, batch in enumerate(tracer.iterate(batches(6))):
            if step == 0:
                with pytest.raises(RuntimeError, match="out of memory"):
                    stand_in().capture_begin()
            train(model, [batch])
    assert _names(tmp_path) == ["job-0-of-1.json.gz"]


def test_the_jobs_own_profiler_is_left_alone(tmp_path, stand_in):
    import torch

    model = make_model()
    with trace(tmp_path, name="job", model=model, wait=3, warmup=1, active=1) as tracer:
        for step, batch in enumerate(tracer.iterate(batches(6))):
            if step == 0:
                with torch.profiler.profile() as own:
                    _captured(stand_in(), model)
                assert any(event.key == "aten::addmm" for event in own.key_averages())
            train(model, [batch])
    assert _names(tmp_path) == ["job-0-of-1.json.gz"]


def test_what_goes_wrong_is_one_warning_and_the_job_captures(tmp_path, monkeypatch):
    def refuse(*_: Any) -> None:
        raise ValueError("no room")

    monkeypatch.setattr(graph_captures.Profiling, "start", refuse)
    with pytest.warns(RecordingWarning, match="captures of CUDA graphs stopped") as told:
        _job(tmp_path, {0: 2}, wait=9)
    assert sum("CUDA graphs" in str(one.message) for one in told) == 1


def test_many_captures_do_not_hold_the_job_up(tmp_path, monkeypatch):
    monkeypatch.setattr(graph_captures, "MAX_CAPTURES", 1)
    with pytest.warns(RecordingWarning, match="1 captures of CUDA graphs are recorded, and no more"):
        _job(tmp_path, {0: 3}, wait=2, warmup=1, active=1)
    assert _names(tmp_path) == ["job-0-of-1.json.gz", "job.capture0-0-of-1.json.gz"]


def test_nothing_of_ours_stays_in_the_graph(tmp_path, stand_in):
    before = dict(vars(stand_in))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _job(tmp_path, {0: 1}, wait=2, warmup=1, active=1)
    assert dict(vars(stand_in)) == before
