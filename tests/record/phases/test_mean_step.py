"""The mean step is that of all steps, also where few of them are timed."""

import time
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.record.small_job import spin

from stepscope.api.trace import open_trace
from stepscope.base.step_phases import RECORDED_PHASES
from stepscope.record import inline, recording
from stepscope.record.annotate import region
from stepscope.record.budget import next_timed
from stepscope.record.inline import recorder, session
from stepscope.record.job.loop import LoopFinder
from stepscope.record.phases.history import History
from stepscope.record.phases.phases import COLUMNS, WEIGHT_NS, Phases

STANDS_FOR = COLUMNS.index("weight")


@examples(60)
@given(
    epochs=st.lists(st.lists(st.sampled_from([1_000, 1_010, 90_000]), min_size=1, max_size=80), max_size=8),
    every=st.lists(st.sampled_from([1, 2, 8, 32]), min_size=8, max_size=8),
    first_of_epoch=st.booleans(),
    breaks=st.booleans(),
)
def test_the_mean_is_that_of_every_step_that_ended(
    epochs: list[list[int]], every: list[int], first_of_epoch: bool, breaks: bool
) -> None:
    """As a session has it: between timed steps no call, and an epoch is seen to start in its first step, or before it."""
    now, number = 0, 0
    phases = Phases(lambda: now)
    phases.warmup = 0
    phases.installed.update(RECORDED_PHASES)
    phases.history = History(len(COLUMNS), capacity=4, adds_up=(STANDS_FOR, WEIGHT_NS))
    known: list[int] = []
    for steps, k in zip(epochs, every, strict=False):
        phases.budget.interval = k
        open_steps: list[int] = []
        ran = 0  # without a call, the one that began with one among them
        for place, length in enumerate(steps):
            number += 1
            first = place == 0
            if (first and first_of_epoch) or next_timed(number, k) == number:
                if ran:
                    phases.end_step(None)
                    phases.passed(ran - 1, runs=True)
                    phases.end_step(now) if ran > 1 else phases.untimed.resume(now)
                    ran = 0
                phases.start_step(now, first_of_epoch=first and first_of_epoch, number=number)
                if first:
                    phases.exclude_current()
                now += length
                phases.end_step(now)
                if not first:
                    known += [*open_steps, length]
                    open_steps = []
                continue
            if first:
                phases.start_step(now, number=number)
                phases.exclude_current()
                now += length
                phases.end_step(now)
                continue
            if not ran:
                phases.start_step(now, number=number)
            ran += 1
            now += length
            open_steps.append(length)
        if ran > breaks:
            # The last of them breaks off, or one more begins, for which the loader has no batch.
            phases.end_step(None)
            phases.passed(ran - breaks, runs=True)
            phases.untimed.resume(now - (open_steps.pop() if breaks else 0))
            known += open_steps
        phases.abandon()
        now += 5_000_000  # a validation
    phases.drain()
    rows = phases.history.rows
    known = known if rows else []  # where none is timed, nothing is shown
    assert phases.history.weight == sum(row[STANDS_FOR] for row in rows) == len(known)
    assert phases.history.totals[WEIGHT_NS] == sum(row[WEIGHT_NS] for row in rows)
    assert phases.history.totals[WEIGHT_NS] == sum(known)


@pytest.mark.sweep(2)
@pytest.mark.thins
@pytest.mark.torch
@pytest.mark.parametrize("own_loop", [True, False])
def test_the_last_steps_of_an_epoch_are_in_the_mean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_loop: bool
) -> None:
    """Against all steps by the clock: those behind an epoch's last timed one take ten times as long as the others."""
    import torch
    from torch.utils.data import DataLoader

    monkeypatch.setattr("stepscope.record.budget.MAX_SHARE", 1e-12)
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    session = inline.new_session(None, model=model, optimizer=optimizer, out=tmp_path)
    session.start(lead_in=True)
    finder = LoopFinder(session)
    finder.install()
    ends: list[list[float]] = []
    for _ in range(6):
        loader = DataLoader(range(200))  # type: ignore[arg-type]
        ends.append([])
        for place, _ in enumerate(inline.iterate(loader) if own_loop else loader):
            spin(0.0003 if place < 150 else 0.003)
            model(torch.ones(2)).sum().backward()
            optimizer.step()
            ends[-1].append(time.perf_counter())
        time.sleep(0.2)  # a validation
    finder.remove()
    inline.stop()
    spans = [after - before for own in ends for before, after in pairwise(own)]
    with open_trace(tmp_path) as trace:
        (found,) = [row for row in trace.phases().rows() if row["phase"] == "step"]
    # Each epoch's first is in no mean, nor are the first five.
    assert 6 * 199 - 6 <= found["steps"] <= 6 * 199
    assert found["mean_ns"] == pytest.approx(sum(spans[5:]) / len(spans[5:]) * 1e9, rel=0.03)


@pytest.mark.parametrize("own_loop", [True, False])
@pytest.mark.parametrize("every", [2, 16, 64])
def test_long_iterations_that_are_seldom_are_in_the_mean_without_phases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_loop: bool, every: int
) -> None:
    """To the nanosecond, by a clock that ticks where the loop says so."""
    now_ns = 0
    clock = SimpleNamespace(perf_counter_ns=lambda: now_ns, monotonic=lambda: now_ns / 1e9)
    for module in (recording, recorder, session):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(recorder.Recorder, "_interval", lambda *_: every)
    plan = {"warmup": 1, "repetitions": 30, "events": ["work"], "mode": "in_rounds"}
    inline.start(plan, out=tmp_path, phases=False)
    took = []
    for step in inline.iterate(range(1_500)) if own_loop else range(1_500):
        with nullcontext() if own_loop else inline.iteration():
            with region("work"):
                took.append(100_000 if step % 50 == 49 else 1_000 + step)
            now_ns += took[-1]
        if not own_loop:
            now_ns += 77  # in no iteration
    inline.stop()
    with open_trace(tmp_path) as trace:
        kept = trace.sql("SELECT * FROM inline_timing WHERE armed = false AND NOT averaged").rows()
        (found, *_) = trace.inline().rows()
    counted = sum(row["weight"] for row in kept)
    assert len(kept) < counted
    assert 1_500 - 10 < counted < 1_500
    total_ns = sum(row["weight_ns"] for row in kept)
    # Whether the last has ended is not known where it ran without a call, in a context.
    assert total_ns in (sum(took[-counted:]), 0 if own_loop else sum(took[-counted - 1 : -1]))
    assert found["mean_ns"] == pytest.approx(total_ns / counted, rel=1e-12)
