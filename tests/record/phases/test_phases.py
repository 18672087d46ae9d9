"""The phases of every step: each moment belongs to one, and they add up exactly."""

import json
import tracemalloc
from collections.abc import Callable, Iterable
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.record.fake_device import FakeDeviceClock
from tests.record.small_job import batches, make_model, train, untouched

from stepscope.base.ranks import Process
from stepscope.base.step_phases import RECORDED_PHASES
from stepscope.record import inline
from stepscope.record.budget import next_timed
from stepscope.record.inline.documents import phases_document
from stepscope.record.inline.session import Session
from stepscope.record.memory import MemoryReader
from stepscope.record.phases.phases import Phases

PROCESS = Process(rank=3, local_rank=None, world_size=4, host="node1", pid=1, rule="Slurm")


class Hours:
    """A clock that a test turns on."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now

    def pass_ns(self, time_ns: int) -> None:
        self.now += time_ns


def _phases(**options: Any) -> tuple[Hours, Phases]:
    hours = Hours()
    phases = Phases(hours)
    for name, value in {"warmup": 0, **options}.items():
        setattr(phases, name, value)
    phases.installed.update(RECORDED_PHASES)
    return hours, phases


def _spend(hours: Hours, phases: Phases, name: str, time_ns: int) -> None:
    """A phase that lasts so long."""
    token = phases.open(name)
    hours.pass_ns(time_ns)
    phases.close(token)


def _times(phases: Phases) -> list[int]:
    """What the phases of the one step took, in the order they run, and the rest."""
    (row,) = phases.history.rows
    return row[2:8]


class _Reads(MemoryReader):
    """Gives these readings one after the other, and fails when there are no more."""

    def __init__(self, readings: Iterable[tuple[int | None, int | None, int | None]]) -> None:
        super().__init__()
        self.readings = iter(readings)

    def read(self) -> tuple[int | None, int | None, int | None]:
        return next(self.readings)


def test_a_step_is_its_phases_and_the_rest() -> None:
    hours, phases = _phases()
    phases.start_step(0)
    for name, time_ns in zip(RECORDED_PHASES, (5, 7, 20, 40, 10), strict=True):
        _spend(hours, phases, name, time_ns)
        hours.pass_ns(1)
    phases.end_step(hours.now)
    assert [*_times(phases)] == [5, 7, 20, 40, 10, 5]


def test_a_phase_inside_another_has_its_time_alone() -> None:
    """An optimizer that runs forward and backward in a closure, as LBFGS does."""
    hours, phases = _phases()
    phases.start_step(0)
    step = phases.open("optimizer.step")
    hours.pass_ns(3)
    for name in ("forward", "backward"):
        _spend(hours, phases, name, 10)
    hours.pass_ns(4)
    phases.close(step)
    phases.end_step(hours.now)
    assert [*_times(phases)] == [0, 0, 10, 10, 7, 0]


def test_a_phase_left_open_by_an_exception_ends_with_the_one_around_it() -> None:
    hours, phases = _phases()
    phases.start_step(0)
    outer = phases.open("backward")
    phases.open("forward")
    hours.pass_ns(5)
    phases.close(outer)
    hours.pass_ns(6)
    phases.end_step(hours.now)
    assert [*_times(phases)] == [0, 0, 5, 0, 0, 6]


def test_warmup_steps_and_an_epochs_first_do_not_count() -> None:
    hours, phases = _phases(warmup=2)
    for number in range(6):
        phases.start_step(hours.now, first_of_epoch=number == 4)
        _spend(hours, phases, "input_wait", 100 + number)
        phases.end_step(hours.now)
    assert [row[1] for row in phases.history.rows] == [102, 103, 105]
    assert phases.first_batch_ns == [104]
    assert phases.steps == 6


def test_the_first_batch_of_an_epoch_is_not_that_of_the_validation_before_it() -> None:
    hours, phases = _phases()
    phases.start_step(0)
    # Each wait, and whether a loader starts over with it: three of a validation, then the epoch's.
    for time_ns, starts_over in ((70, True), (50, False), (60, False), (9, True), (4, False)):
        _spend(hours, phases, "input_wait", time_ns)
        if starts_over:
            phases.exclude_current()
    phases.end_step(hours.now)
    assert phases.first_batch_ns == [9]


@examples(50)
@given(
    st.lists(st.tuples(st.sampled_from(["open", "close", "pass"]), st.integers(0, 4), st.integers(0, 9)), max_size=60)
)
def test_phases_and_residual_add_up_whatever_is_opened_and_closed(actions: list[tuple[str, int, int]]) -> None:
    hours, phases = _phases()
    phases.start_step(0)
    tokens: list[Any] = []
    for action, which, time_ns in actions:
        if action == "open":
            tokens.append(phases.open(RECORDED_PHASES[which]))
        elif action == "close" and tokens:
            phases.close(tokens.pop(which % len(tokens)))
        else:
            hours.pass_ns(time_ns)
    phases.end_step(hours.now)
    row = phases.history.rows[0]
    assert sum(row[2:8]) == row[1] == hours.now
    assert min(row[2:8]) >= 0


def test_a_device_is_marked_around_each_phase_and_read_later() -> None:
    hours, phases = _phases()
    phases.clock = clock = FakeDeviceClock(hours)
    for _ in range(3):
        phases.start_step(hours.now)
        for name, time_ns in (("input_wait", 50), ("forward", 20), ("backward", 40)):
            _spend(hours, phases, name, time_ns)
        phases.end_step(hours.now)
    assert phases.device_steps == 0
    clock.finish()
    phases.drain()
    assert phases.device_steps == 3
    assert [phases.device_ns[RECORDED_PHASES.index(name)] for name in RECORDED_PHASES] == [0, 0, 60, 120, 0]


def test_a_step_that_was_timed_in_place_of_many_counts_as_many_on_the_device_too() -> None:
    """Two long steps, each timed for itself, and one that stands for 256 short ones; read when all three are over."""
    hours, phases = _phases()
    phases.clock = clock = FakeDeviceClock(hours)
    took = [(1, 30_000), (1, 30_000), (256, 2_000)]
    for every, time_ns in took:
        phases.budget.interval = every
        if every > 1:
            phases.untimed.pause(hours.now)
            hours.pass_ns((every - 1) * time_ns)
            phases.passed(every - 1, runs=False)
            phases.untimed.resume(hours.now)
        phases.start_step(hours.now, number=next_timed(phases.steps + 1, every))
        for name in ("forward", "backward", "optimizer"):
            _spend(hours, phases, name, time_ns)
            if every > 1 and name == "backward":
                clock.finish()
        phases.end_step(hours.now)
    clock.finish()
    phases.drain()
    device = phases_document(phases, PROCESS, 0)["device"]
    assert device is not None
    each = [time_ns for every, time_ns in took for _ in range(every)]
    assert device["steps"] == len(each) == 258
    assert device["mean_ns"]["forward"] == sum(each) / len(each)
    assert (device["checked_steps"], device["idle_steps"]) == (258, 256)


def test_a_device_that_finished_before_the_optimizer_waits_for_the_host() -> None:
    for done_at_once, idle in ((True, 4), (False, 0)):
        hours, phases = _phases()
        phases.clock = FakeDeviceClock(hours, done_at_once=done_at_once)
        for _ in range(4):
            phases.start_step(hours.now)
            for name in ("forward", "backward", "optimizer"):
                phases.close(phases.open(name))
            phases.end_step(hours.now)
        assert (phases.device_checked, phases.device_idle) == (4, idle)


def test_no_mark_gets_into_a_graph_that_the_job_captures() -> None:
    hours, phases = _phases()
    phases.clock = clock = FakeDeviceClock(hours, done_at_once=True)
    phases.start_step(0)
    clock.is_capturing = True
    before = (clock.made, clock.asked)
    for name in ("forward", "backward", "optimizer"):
        phases.close(phases.open(name))
    assert (clock.made, clock.asked) == before
    clock.is_capturing = False
    phases.close(phases.open("forward"))
    phases.end_step(hours.now)
    phases.drain()
    assert phases.device_steps == 1


def test_memory_is_read_now_and_then_and_its_peak_kept() -> None:
    hours, phases = _phases(memory=_Reads([(5, 9, 20), (6, 9, 24), (4, 12, 22)]), memory_every=2)
    for _ in range(6):
        phases.start_step(hours.now)
        phases.end_step(hours.now)
    assert (phases.peak_bytes, phases.reserved_bytes) == (12, 24)
    nothing = (0, 0, 0)
    rows = [row[-3:] for row in phases.history.rows[:4]]
    assert rows == [nothing, (5, 9, 20), nothing, (6, 9, 24)]
    phases.drain()  # a reader that fails at the end costs nothing


def test_a_peak_that_the_system_counts_late_is_no_less_than_what_is_in_use() -> None:
    hours, phases = _phases(memory=_Reads(repeat((5, 3, None))), memory_every=1)
    phases.start_step(hours.now)
    phases.end_step(hours.now)
    assert (phases.history.rows[0][-3:], phases.peak_bytes) == ((5, 5, 0), 5)


@pytest.mark.parametrize("fresh_first", [False, True])
def test_steps_that_are_kept_late_in_a_long_run_have_their_memory(fresh_first: bool) -> None:
    hours, phases = _phases(memory=_Reads(repeat((5, 9, None))))
    if fresh_first:  # counted steps then have other numbers
        phases.start_step(hours.now, first_of_epoch=True)
        phases.end_step(hours.now)
    phases.history.stride = 16
    for _ in range(16 * 20):
        phases.start_step(hours.now)
        phases.end_step(hours.now)
    assert [row[-2] for row in phases.history.rows] == [9] * 20


def test_a_file_of_a_running_job_has_some_of_its_steps() -> None:
    hours, phases = _phases()
    for _ in range(300):
        phases.start_step(hours.now)
        hours.pass_ns(10)
        phases.end_step(hours.now)
    whole, running = (phases_document(phases, PROCESS, 0, samples=all_) for all_ in (True, False))
    assert (len(whole["step_samples"]), whole["step_stride"]) == (300, 1)
    assert running["step_stride"] == 3
    kept, of_all = running["step_samples"], whole["step_samples"]
    assert [row[:8] for row in kept] == [row[:8] for row in of_all[::3]]
    assert [row[8:10] for row in kept] == [[3, 30]] * 100


def test_twenty_thousand_steps_take_no_more_memory_than_five_thousand() -> None:
    hours, phases = _phases(memory=MemoryReader(), memory_every=1000)
    phases.clock = FakeDeviceClock(hours, done_at_once=True)

    def run(steps: int) -> None:
        for _ in range(steps):
            phases.start_step(hours.now)
            phases.close(phases.open("forward"))
            hours.pass_ns(1000)
            phases.end_step(hours.now)

    run(5_000)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    run(15_000)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert len(phases.history.rows) <= 2048
    assert grown < 500_000  # 15 000 rows would take three megabytes


def test_a_summary_says_what_was_not_measured() -> None:
    hours = Hours()
    phases = Phases(hours)
    phases.warmup = 0
    phases.installed.update({"forward", "backward"})
    phases.start_step(0)
    _spend(hours, phases, "forward", 30)
    hours.pass_ns(70)
    phases.end_step(hours.now)
    summary = phases_document(phases, PROCESS, 0)
    assert summary["phases"]["input_wait"] is None  # nobody listened
    assert summary["phases"]["backward"] is None  # it ran where hooks do not, or not at all
    assert summary["phases"]["forward"]["share_ratio"] == 0.3
    assert summary["phases"]["residual"]["share_ratio"] == 0.7
    assert summary["device"] is None
    assert summary["rank"] == 3
    assert summary["step_samples"] == [[1, 100, 0, 0, 30, 0, 0, 70, 1, 100, None, None, None]]
    assert "verdict" not in summary  # the job measures, and judges nothing
    json.dumps(summary, allow_nan=False)


def test_a_summary_of_no_counted_step_is_still_a_summary() -> None:
    phases = Phases(Hours())
    summary = phases_document(phases, PROCESS, 0)
    assert (summary["step"], summary["counted_steps"]) == (None, 0)
    json.dumps(summary, allow_nan=False)


@pytest.mark.torch
def test_a_real_loop_without_a_plan_gives_its_phases(tmp_path: Path) -> None:
    expected = train(make_model(), batches(12))
    model = make_model()
    inline.start(out=tmp_path, model=model)
    assert train(model, inline.iterate(batches(12))) == expected
    (path,) = inline.stop()
    assert untouched(model)
    summary = json.loads(path.read_text())
    # The first step runs without our hooks.
    assert (summary["steps"], summary["backwards"], summary["optimizer_steps"]) == (12, 11, 11)
    for name in ("input_wait", "forward", "backward", "optimizer", "residual"):
        assert summary["phases"][name]["mean_ns"] > 0
    assert summary["phases"]["host_to_device"] is None
    for row in summary["step_samples"]:
        assert sum(row[2:8]) == row[1]


@pytest.mark.torch
def test_copies_to_a_device_are_a_phase(tmp_path: Path, on_device: Callable[[FakeDeviceClock], None]) -> None:
    import torch

    model = make_model()
    on_device(FakeDeviceClock(done_at_once=True))
    session = Session(None, model=model, out=tmp_path)
    for batch in batches(10):
        session.start_iteration()
        batch.to("meta")
        model(batch).sum().backward()
        session.end_iteration()
    (path,) = session.stop()
    summary = json.loads(path.read_text())
    assert summary["phases"]["host_to_device"]["mean_ns"] > 0
    assert summary["device"]["steps"] == 5
    assert "to" not in vars(torch.Tensor)


@pytest.mark.torch
def test_a_model_can_be_freed_while_its_phases_are_recorded(tmp_path: Path) -> None:
    import gc
    import weakref

    model: Any = make_model()
    freed = weakref.ref(model)
    inline.start(out=tmp_path, model=model)
    train(model, inline.iterate(batches(8)))
    del model
    gc.collect()
    assert freed() is None


@pytest.mark.torch
def test_work_of_other_threads_is_not_the_loops(tmp_path: Path) -> None:
    import threading

    model = make_model()
    session = Session(None, model=model, out=tmp_path)
    for batch in batches(8):
        session.start_iteration()
        other = threading.Thread(target=lambda: model(batches(1)[0]))
        other.start()
        other.join()
        assert batch is not None
        session.end_iteration()
    (path,) = session.stop()
    assert json.loads(path.read_text())["phases"]["forward"] is None


def test_the_first_batch_of_an_epoch_is_noted_in_a_step_that_is_not_timed() -> None:
    """The loop only knows that the loader starts over when it waits for the batch."""
    hours, phases = _phases()
    phases.budget.interval = 4
    phases.start_step(0, number=3)
    token = phases.open("input_wait")
    phases.exclude_current()
    hours.pass_ns(70)
    phases.close(token)
    phases.end_step(hours.now)
    assert (phases.first_batch_ns, phases.timed_steps) == ([70], 0)
