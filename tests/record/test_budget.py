"""How often a step is measured, and that nothing of ours is in those between."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.record.small_job import batches, events_in, make_model, train, untouched

from stepscope.api.inline_profiles import parse_result
from stepscope.record import inline
from stepscope.record.budget import Budget, next_timed
from stepscope.record.inline.recorder import Recorder
from stepscope.record.inline.schedule import Schedule
from stepscope.record.job.loop import LoopFinder
from stepscope.record.plan import as_plan
from stepscope.record.trouble import Guard


@pytest.mark.thins
def test_after_32_measured_steps_k_follows_what_they_took() -> None:
    budget = Budget()
    measured = []
    for step in range(200):
        if budget.due(step):
            measured.append(step)
            budget.spent(12_000, 1_000_000)  # 1.2 %, and as much again that is not timed from inside
    assert measured[:32] == [*range(32)]
    assert [step // 8 for step in measured[32:]] == [*range(4, 25)]  # one of each block of eight
    assert (budget.interval, budget.cost_ns) == (8, 24_000)


@pytest.mark.thins
def test_what_is_certain_of_how_much_longer_measured_steps_take_is_their_cost() -> None:
    seen = {}
    for slowdown_ns in (-5_000, 5_000, 40_000, 120_000):
        budget = Budget()
        for _ in range(32):
            budget.spent(20_000, 1_000_000, slowdown_ns)
        seen[slowdown_ns] = budget.interval
    # What was timed as our own was taken, whatever else is known.
    assert seen == {-5_000: 16, 5_000: 16, 40_000: 32, 120_000: 128}


@pytest.mark.thins
def test_what_takes_longer_when_it_is_seldom_is_judged_again_soon() -> None:
    budget = Budget()
    for _ in range(32):
        budget.spent(12_000, 1_000_000)
    for _ in range(8):
        budget.spent(100_000, 1_000_000)
    assert budget.interval == 64


@pytest.mark.thins
def test_steps_that_have_become_long_are_measured_often_at_once() -> None:
    budget = Budget()
    for _ in range(32):
        budget.spent(1_000_000, 1_000_000)
    assert budget.interval == 256
    for step_ns in (30_000_000, 300_000, 30_000_000, 30_000_000):
        budget.spent(100_000, step_ns)
        assert budget.interval == 256  # a few are no reason
    budget.spent(100_000, 30_000_000)
    assert (budget.interval, budget.cost_ns) == (2, 200_000)
    for _ in range(40):
        budget.spent(100_000, 30_000_000)
    assert budget.interval == 2


@pytest.mark.thins
def test_the_cost_of_an_event_is_not_known_by_three_of_its_measurements() -> None:
    budget = Budget()
    for _ in range(32):
        budget.spent(10_000, 1_000_000, 100_000)
    for _ in range(5):
        budget.spent(10_000, 1_000_000, -100_000)
    assert (budget.interval, budget.cost_ns) == (64, 200_000)
    for _ in range(3):
        budget.spent(10_000, 30_000_000, -100_000)  # the steps are longer: that is certain
    assert (budget.interval, budget.cost_ns) == (2, 200_000)


def _timed(every: int, steps: int) -> list[int]:
    return [step for step in range(steps) if next_timed(step, every) == step]


def test_one_step_of_each_block_is_timed_and_what_is_timed_seldom_is_timed_often_too() -> None:
    often = _timed(1, 4096)
    for every in (2, 4, 8, 64, 256):
        timed = _timed(every, 4096)
        assert [step // every for step in timed] == [*range(4096 // every)]
        assert set(timed) <= set(often)
        often = timed


def test_no_part_of_a_job_that_recurs_is_timed_more_often_than_another() -> None:
    for every in (8, 64, 256):
        timed = _timed(every, every * 4096)
        for recurs in (2, 3, 8, 64):
            times = Counter(step % recurs for step in timed)
            expected = 4096 / recurs
            assert len(times) == recurs
            assert all(abs(n - expected) < 5 * expected**0.5 for n in times.values()), times


@pytest.mark.thins
def test_a_scatter_of_the_steps_is_no_cost_of_measuring() -> None:
    scattered, certain = Budget(), Budget()
    for step in range(320):
        slowdown_ns = (step % 11 - 5) * 20_000  # between -10 and 10 %
        scattered.spent(0, 1_000_000, slowdown_ns)
        certain.spent(0, 1_000_000, 100_000 + slowdown_ns)
    assert (scattered.interval, certain.interval) == (1, 64)


def test_an_event_that_costs_much_is_armed_in_every_kth_iteration_and_each_counts() -> None:
    every = {0: 1, 1: 8}
    schedule = Schedule(warmup=0, repetitions=2, unarmed_every=2, interval_of=lambda event: every[event or 0])
    schedule.observed(2)
    armed = []
    for number in range(40):
        turn = schedule.advance(measured=True, following=number)
        if turn.role == "armed":
            armed.append((turn.event, number))
    assert armed == [(0, 0), (0, 1), (0, 3), *((1, one) for one in _timed(8, 40)[1:3])]


@pytest.mark.thins
def test_in_rounds_an_event_of_which_little_is_known_is_armed_as_seldom_as_all_are() -> None:
    recorder = Recorder(as_plan("auto"), Guard("a test"))
    for event in range(12):
        for budget in recorder._budgets_of(event):
            for _ in range(3):
                budget.spent(100_000, 1_000_000)
    assert recorder._interval(0) == 1  # a short run has something of each
    recorder.schedule.first_round = False
    assert {recorder._interval(event) for event in range(13)} == {64}
    for _ in range(32):
        recorder._budgets[0].spent(5_000, 1_000_000)
    assert (recorder._interval(0), recorder._interval(1)) == (4, 64)


@pytest.fixture
def _measures_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepscope.record.budget.MAX_SHARE", 1e-12)
    monkeypatch.setattr("stepscope.record.budget._MAX_INTERVAL", 16)


def _phases(out: Path) -> Any:
    return json.loads(next(out.glob("*.phases.json")).read_text())


@pytest.mark.torch
@pytest.mark.thins
@pytest.mark.usefixtures("_measures_seldom")
def test_between_timed_steps_no_hook_is_left_in_the_job(tmp_path: Path) -> None:
    plain = train(make_model(), batches(150))
    model = make_model()
    untouched_in = []

    def inside(number: int) -> None:
        if untouched(model):
            untouched_in.append(number + 1)

    inline.start(None, model=model, out=tmp_path)
    losses = train(model, inline.iterate(batches(100)), inside=inside)
    losses += train(model, inline.iterate(batches(50)))  # an epoch that starts between two timed steps
    inline.stop()
    assert losses[:100] == plain[:100]
    assert untouched(model)
    seldom = [number for number in range(38, 101) if number not in untouched_in]
    assert seldom == [step for step in _timed(16, 101) if step > 37]
    found = _phases(tmp_path)
    assert (found["steps"], found["timed_every"]) == (150, 16)
    # The first step of an epoch is timed whenever it is, and counts for nothing.
    assert found["timed_steps"] == 37 + 4 + 4
    assert len(found["first_batch_ns"]) == 2


@pytest.mark.torch
@pytest.mark.thins
@pytest.mark.usefixtures("_measures_seldom")
def test_a_script_that_is_left_alone_between_timed_steps_loses_no_epoch(tmp_path: Path) -> None:
    from torch.utils.data import DataLoader

    model = make_model()
    session = inline.new_session(None, out=tmp_path)
    session.start(lead_in=True)
    finder = LoopFinder(session)
    finder.install()
    import torch

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    try:
        for _ in range(3):
            train(model, DataLoader(batches(90)), optimizer)  # type: ignore[arg-type]
    finally:
        finder.remove()
        session.stop()
    assert untouched(model)
    found = _phases(tmp_path)
    # The first call of the optimizer's step goes by, and after the last one nothing is known to end.
    assert (found["steps"], found["timed_every"]) == (268, 16)
    assert len(found["first_batch_ns"]) == 2  # of the epochs that started while it listened


@pytest.mark.torch
@pytest.mark.thins
@pytest.mark.usefixtures("_measures_seldom")
def test_seldom_armed_iterations_are_numbered_right_and_have_unarmed_neighbours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepscope.record.budget.median_interval", lambda costs: (1.0, 1.0))
    plain = train(make_model(), batches(300))
    model = make_model()
    plan = {"warmup": 1, "repetitions": 40, "events": ["2.backward.aten::mm#0"]}
    inline.start(plan, model=model, out=tmp_path, phases=False)
    assert train(model, inline.iterate(batches(300))) == plain
    inline.stop()
    (event,) = events_in(tmp_path)
    iterations = [row[0] for row in event["samples"]]
    late = [number for number in iterations if number > 60]
    # Four before those whose phases are timed, counting from 1.
    assert late
    assert set(late) <= {step - 5 for step in _timed(16, 400)}
    (profile,) = parse_result(tmp_path)
    unarmed = {number for number, armed, *_ in profile["iterations"] if not armed}
    assert {number - 1 for number in late} <= unarmed
    assert (profile["armed_every"], len(iterations)) == (16, 40)
    assert max(iterations) == profile["iterations_run"] - 1
