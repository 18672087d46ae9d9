"""Which process a recording is of, where launchers say different ranks."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from stepscope.base.ranks import host_name
from stepscope.record import inline
from stepscope.record.output import Who
from stepscope.record.traces.tracing import trace
from stepscope.record.trouble import RecordingWarning

from .small_job import batches, make_model, train, untouched


def _phases(out: Path, model: Any) -> list[Path]:
    inline.start(model=model, out=out)
    train(model, inline.iterate(batches(12)))
    return inline.stop()


def test_where_launchers_agree_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PMI_RANK", "1")
    monkeypatch.setenv("PMI_SIZE", "2")
    assert Who().named().rank == 1


@pytest.mark.torch
def test_phases_of_two_processes_with_the_same_rank_are_two_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"PMI_RANK": "0", "PMI_SIZE": "4", "JSM_NAMESPACE_RANK": "3"}.items():
        monkeypatch.setenv(name, value)
    model = make_model()
    with pytest.warns(RecordingWarning, match="rank 3 by jsrun, but rank 0 of 4 by PMI") as caught:
        (path,) = _phases(tmp_path, model)
    assert len(caught) == 1
    assert untouched(model)
    assert path.name == f"{host_name()}.pid{os.getpid()}.3.phases.json"
    assert json.loads(path.read_text())["rank_rule"] == "jsrun"


def _trace(out: Path, model: Any, **options: Any) -> tuple[list[Path], list[float]]:
    with trace(out, name="job", model=model, active=1, **options) as tracer:
        losses = train(model, tracer.iterate(batches(6)))
    assert untouched(model)
    return tracer.written, losses


@pytest.mark.torch
def test_a_local_rank_that_no_launcher_says_is_not_taken_to_be_the_rank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALPS_APP_PE", "0")
    with pytest.warns(RecordingWarning, match="its local rank is not known from ALPS") as caught:
        written, _ = _trace(tmp_path, make_model(), ranks="local:0")
    assert (len(caught), written) == (1, [])


@pytest.mark.torch
def test_launchers_that_disagree_cost_a_choice_of_ranks_and_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = train(make_model(), batches(6))
    for name, value in {"PMI_RANK": "0", "PMI_SIZE": "2", "FLUX_TASK_RANK": "3"}.items():
        monkeypatch.setenv(name, value)
    both = "it is rank 0 of 2 by PMI, but rank 3 by Flux"
    with pytest.warns(RecordingWarning, match=both) as caught:
        assert _trace(tmp_path / "0", make_model(), ranks="0") == ([], expected)
    assert len(caught) == 1
    with pytest.warns(RecordingWarning, match=both) as caught:
        (path,), losses = _trace(tmp_path / "all", make_model())
    assert (len(caught), path.name, losses) == (1, "job-0-of-2.json.gz", expected)
