"""A trace of steps that another thread than the main one runs."""

import gzip
import threading
from pathlib import Path

import pytest
from tests.record.small_job import batches, make_model

from stepscope.record.traces import tracing
from stepscope.record.traces.tracing import Tracer

pytestmark = pytest.mark.torch


def test_a_job_that_ends_waits_for_a_long_step_of_the_thread_that_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "_NEXT_STEP_SECONDS", 0.01)
    tracer = Tracer(tmp_path, name="job", wait=0, warmup=1, active=20)
    traced_one, over = threading.Event(), threading.Event()

    def run() -> None:
        model = make_model()
        tracer.start()
        for at, batch in enumerate(batches(20)):
            model(batch).sum().backward()
            over.wait(0.5)
            tracer.step()
            if at == 2:
                traced_one.set()
            if tracer.over:
                break

    thread = threading.Thread(target=run)
    thread.start()
    assert traced_one.wait(60)
    (path,) = tracer.stop()
    over.set()
    thread.join()
    with gzip.open(path, "rt") as file:
        assert file.read().count('"ProfilerStep#') >= 2
