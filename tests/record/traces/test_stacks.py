"""A trace with stacks, recorded here and read again."""

from pathlib import Path

import pytest
from tests.record.small_job import batches, make_model, train

import stepscope
from stepscope.record.traces.tracing import trace

pytestmark = pytest.mark.torch


def test_operators_have_the_jobs_frames_and_modules_keep_their_paths(tmp_path: Path) -> None:
    model = make_model()
    with trace(tmp_path, name="job", model=model, active=1, stack=True) as tracer:
        train(model, tracer.iterate(batches(8)))
    (path,) = tracer.written
    with stepscope.open(path, cache=False) as opened:
        modules = opened.modules().rows()
        operators = opened.operators(by="stack").rows()
    assert [row["path"] for row in modules] == ["Sequential", "0", "1", "2"]
    assert [row["class"] for row in modules] == ["Sequential", "Linear", "ReLU", "Linear"]
    frames = {row["frame"] for row in operators if row["name"] in ("aten::addmm", "AddmmBackward0")}
    (frame,) = frames
    assert "small_job.py(" in frame
    assert frame.endswith("): train")
