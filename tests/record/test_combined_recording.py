"""A trace of a few steps beside what every step is measured for: neither spoils the other."""

import json
from pathlib import Path

import pytest

from stepscope.record import inline
from stepscope.record.combined_recording import CombinedRecording
from stepscope.record.inline.session import Session
from stepscope.record.job.loop import LoopFinder
from stepscope.record.plan import plan_from
from stepscope.record.recording import EveryStep
from stepscope.record.traces.tracing import Tracer
from stepscope.record.trouble import Guard

from .small_job import batches, make_model, train

pytestmark = pytest.mark.torch


class _Disturbing(EveryStep):
    """Stands for a tracer whose profiler runs in some steps."""

    def __init__(self, steps: set[int]) -> None:
        self.guard = Guard("the test")
        self.steps = steps
        self.began = 0
        self.ended = False

    @property
    def disturbs(self) -> bool:
        return self.began in self.steps

    @property
    def over(self) -> bool:
        return self.ended

    def start(self, *, lead_in: bool = False) -> None:
        self._index = 0

    def step(self, number: int | None = None) -> None:
        self.began += 1

    def stop(self) -> list[Path]:
        self.ended = True
        return []


def _document(out: Path, kind: str) -> dict:
    (file,) = out.glob(f"*.{kind}.json")
    return json.loads(file.read_text())


def _recorded(out: Path, tracer: EveryStep, steps: int, *, plan: dict | None = None) -> CombinedRecording:
    model = make_model()
    session = Session(None if plan is None else plan_from(plan), model=model, out=out)
    both = CombinedRecording(session, tracer)
    both.start(lead_in=True)
    for batch in batches(steps):
        both.start_iteration()
        train(model, [batch])
        both.end_iteration()
    return both


def test_steps_in_which_a_profiler_runs_are_in_no_mean(tmp_path: Path) -> None:
    both = _recorded(tmp_path, _Disturbing({7, 8, 11}), 20)
    both.stop()
    document = _document(tmp_path, "phases")
    # Five warm up, three are disturbed.
    assert (document["steps"], document["counted_steps"], document["disturbed_steps"]) == (20, 12, 3)
    assert {7, 8, 11}.isdisjoint(row[0] for row in document["step_samples"])
    assert document["first_batch_ns"] == []


def test_steps_of_phases_have_the_numbers_that_they_have_in_a_trace(tmp_path: Path) -> None:
    """The first of a script's goes by unobserved, and what another optimizer stepped before it took over."""
    model = make_model()
    for missed, first in ((1, 7), (17, 23)):
        session = Session(None, model=model, out=tmp_path / str(missed))
        session.start(lead_in=True)
        session.add_missed(missed)
        for batch in batches(9):
            session.start_iteration()
            train(model, [batch])
        session.stop()
        assert _document(tmp_path / str(missed), "phases")["step_samples"][0][0] == first


def test_steps_of_phases_have_the_numbers_that_a_framework_gives(tmp_path: Path) -> None:
    model = make_model()
    session = Session(None, model=model, out=tmp_path)
    for place, batch in enumerate(batches(9)):
        session.start_iteration(number=1000 + place)
        train(model, [batch])
    session.stop()
    assert _document(tmp_path, "phases")["step_samples"][0][0] == 1005


def test_events_of_a_plan_are_measured_in_the_other_steps(tmp_path: Path) -> None:
    plan = {"warmup": 1, "repetitions": 3, "unarmed_every": 0, "events": ["forward", "backward"]}
    both = _recorded(tmp_path, _Disturbing({4, 5}), 14, plan=plan)
    both.stop()
    document = _document(tmp_path, "prof")
    assert document["complete"]
    events = [event for streams in document["timeline"].values() for own in streams.values() for event in own]
    for event in events:
        assert len(event["samples"]) == 3
        assert {3, 4}.isdisjoint(sample[0] for sample in event["samples"])  # counted from 0


def test_one_that_stops_leaves_the_other_running(tmp_path: Path) -> None:
    tracer = _Disturbing(set())
    both = _recorded(tmp_path, tracer, 3)
    assert not both.over
    tracer.ended = True
    assert not both.over
    both.stop()
    assert both.stopped
    assert tracer.ended


def test_a_real_trace_and_phases_of_one_run(tmp_path: Path) -> None:
    tracer = Tracer(tmp_path, name="job", active=2)
    both = _recorded(tmp_path, tracer, 12)
    written = both.stop()
    assert sorted(path.name.split(".", 1)[1] for path in written) == ["0.phases.json", "json.gz"]
    document = _document(tmp_path, "phases")
    assert document["disturbed_steps"] >= 3  # its warm-up and two steps
    assert not tracer.guard.tripped


def test_a_script_with_a_loop_of_ours_drives_both_and_each_step_once(tmp_path: Path) -> None:
    """As under `stepscope record`, which also listens to the optimizer's steps."""
    model = make_model()
    tracer = _Disturbing({4, 5})
    both = inline.offer(CombinedRecording(inline.new_session(None, model=model, out=tmp_path), tracer))
    both.start(lead_in=True)
    finder = LoopFinder(both)
    finder.install()
    for _ in range(2):
        train(model, inline.iterate(batches(20)))
    finder.remove()
    both.stop()
    phases = _document(tmp_path, "phases")
    assert (phases["steps"], phases["disturbed_steps"], phases["optimizer_steps"]) == (40, 2, 39)
    # The end of the first loop is part of a step that goes on in the second.
    assert tracer.began == 41
