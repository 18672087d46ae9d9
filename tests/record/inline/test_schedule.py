"""What each iteration is for: warm-up, observing, one event at a time, and some without any."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from stepscope.record.inline.schedule import Schedule, Turn


def _run(schedule: Schedule, events: int, miss: set[int] | None = None) -> list[Turn]:
    """Every turn until the schedule is done; `miss` are armed turns that did not run their event."""
    turns: list[Turn] = []
    armed = 0
    while schedule.turn.role != "done" and len(turns) < 100_000:
        turn = schedule.turn
        turns.append(turn)
        if turn.role == "observe":
            schedule.observed(events)
        measured = True
        if turn.role == "armed":
            measured = armed not in (miss or set())
            armed += 1
        schedule.advance(measured=measured)
    return turns


def test_each_event_is_alone_for_r_plus_1_iterations_and_the_first_does_not_count() -> None:
    schedule = Schedule(warmup=2, repetitions=2, unarmed_every=0)
    assert [(turn.role, turn.event, turn.counted) for turn in _run(schedule, events=2)] == [
        ("warmup", None, False),
        ("warmup", None, False),
        ("observe", None, False),
        ("armed", 0, False),
        ("armed", 0, True),
        ("armed", 0, True),
        ("armed", 1, False),
        ("armed", 1, True),
        ("armed", 1, True),
    ]


def test_unarmed_iterations_come_between_armed_ones() -> None:
    schedule = Schedule(warmup=0, repetitions=3, unarmed_every=2)
    roles = [turn.role for turn in _run(schedule, events=1)]
    assert roles == ["observe", "armed", "armed", "unarmed", "armed", "armed"]


def test_one_shot_arms_everything_every_time() -> None:
    schedule = Schedule(warmup=1, repetitions=2, unarmed_every=0, one_shot=True)
    turns = _run(schedule, events=7)
    assert [(turn.event, turn.counted) for turn in turns if turn.role == "armed"] == [
        (None, False),
        (None, True),
        (None, True),
    ]


def test_an_event_that_did_not_run_is_tried_again() -> None:
    schedule = Schedule(warmup=0, repetitions=2, unarmed_every=0)
    turns = _run(schedule, events=1, miss={1})
    assert [turn.counted for turn in turns if turn.role == "armed"] == [False, True, True, True]


def test_an_event_that_never_runs_does_not_hold_the_others_up() -> None:
    schedule = Schedule(warmup=0, repetitions=2, unarmed_every=0)
    turns = _run(schedule, events=2, miss={0, 1, 2})
    assert [turn.event for turn in turns if turn.role == "armed"] == [0, 0, 0, 1, 1, 1]


def test_nothing_observed_is_done_at_once() -> None:
    assert [turn.role for turn in _run(Schedule(warmup=0, repetitions=2, unarmed_every=1), 0)] == ["observe"]


def _turns_of(turns: list[Turn]) -> list[tuple[int | None, int]]:
    """(event, kept measurements) of each of its turns."""
    found: list[tuple[int | None, int]] = []
    for turn in turns:
        if turn.role == "armed":
            if not turn.counted:
                found.append((turn.event, 0))
            else:
                found[-1] = (turn.event, found[-1][1] + 1)
    return found


def _in_rounds(events: int, iterations: int, *, known: bool, order: list[int] | None = None) -> list[Turn]:
    ran = 0
    schedule = Schedule(
        warmup=0, repetitions=50, unarmed_every=4, in_rounds=True, left=lambda: iterations - ran if known else None
    )
    turns = []
    while ran < iterations and schedule.turn.role != "done":
        ran += 1
        turns.append(schedule.turn)
        if schedule.turn.role == "observe":
            schedule.observed(events, order)
        schedule.advance(measured=True)
    return turns


def test_in_rounds_the_heaviest_comes_first_and_turns_become_longer() -> None:
    turns = _turns_of(_in_rounds(3, 400, known=False, order=[2, 0, 1]))
    assert turns[:6] == [(event, kept) for kept in (2, 4) for event in (2, 0, 1)]
    assert all(kept == 4 for _, kept in turns[6:-1])


def test_in_rounds_a_known_number_of_iterations_is_shared_out_evenly() -> None:
    for iterations in (60, 100, 200, 500):
        turns = _in_rounds(4, iterations, known=True)
        kept = dict.fromkeys(range(4), 0)
        for event, count in _turns_of(turns):
            kept[event or 0] += count
        assert max(kept.values()) - min(kept.values()) <= 2
        assert iterations - len(turns) <= 10


def test_in_rounds_a_job_too_short_for_all_measures_the_heaviest_twice() -> None:
    turns = _turns_of(_in_rounds(40, 20, known=True, order=list(range(39, -1, -1))))
    assert turns[:4] == [(39, 2), (38, 2), (37, 2), (36, 2)]


def test_a_survey_lasts_until_it_has_found_enough() -> None:
    schedule = Schedule(warmup=1, repetitions=1, unarmed_every=0, survey=True)
    roles = []
    for number in range(4):
        roles.append(schedule.turn.role)
        if number == 2:
            schedule.surveyed()
        schedule.advance(measured=False)
    assert [*roles, schedule.turn.role] == ["warmup", "survey", "survey", "observe", "observe"]
    schedule.finish()
    assert schedule.advance(measured=False).role == "done"


@examples(40)
@given(
    warmup=st.integers(0, 4),
    repetitions=st.integers(1, 6),
    unarmed_every=st.integers(0, 4),
    events=st.integers(0, 5),
    miss=st.sets(st.integers(0, 40), max_size=10),
)
def test_any_schedule_ends_and_measures_each_event_often_enough(
    warmup: int, repetitions: int, unarmed_every: int, events: int, miss: set[int]
) -> None:
    schedule = Schedule(warmup=warmup, repetitions=repetitions, unarmed_every=unarmed_every)
    turns = _run(schedule, events, miss)
    armed = [turn for turn in turns if turn.role == "armed"]
    kept = dict.fromkeys(range(events), 0)
    misses = dict.fromkeys(range(events), 0)
    for number, turn in enumerate(armed):
        assert turn.event is not None
        if number in miss:
            misses[turn.event] += 1
        elif turn.counted:
            kept[turn.event] += 1
    for event in range(events):
        assert kept[event] == repetitions or misses[event] == repetitions + 1
    order = [turn.event for turn in armed]
    assert order == sorted(order)
    assert sum(turn.role == "warmup" for turn in turns) == warmup


@examples(30)
@given(repetitions=st.integers(1, 5), unarmed_every=st.integers(0, 4), events=st.integers(1, 4))
def test_the_planned_number_of_iterations_is_the_real_one(repetitions: int, unarmed_every: int, events: int) -> None:
    schedule = Schedule(warmup=0, repetitions=repetitions, unarmed_every=unarmed_every)
    schedule.observed(events)
    turns = _run(schedule, events)
    armed = events * (repetitions + 1)
    planned = armed + (armed // unarmed_every if unarmed_every else 0)
    # The last unarmed turn falls away when nothing is left to arm after it.
    assert planned - 1 <= len(turns) - 1 <= planned


def _seldom(ks: list[int], iterations: int, **options: Any) -> list[int]:
    """The events of the armed iterations whose measurements count, where one in k measures an event."""
    schedule = Schedule(warmup=0, repetitions=20, unarmed_every=4, interval_of=lambda event: ks[event or 0], **options)
    counted = []
    for number in range(iterations):
        turn = schedule.turn
        if turn.role == "observe":
            schedule.observed(len(ks))
        if turn.counted and turn.event is not None:
            counted.append(turn.event)
        schedule.advance(measured=True, following=number + 1)
    return counted


@pytest.mark.parametrize("in_rounds", [True, False])
def test_where_few_iterations_are_armed_each_is_another_events(in_rounds: bool) -> None:
    """In a row they would be of one part of the run; and as hooks are out in between, none is thrown away."""
    counted = _seldom([16] * 3, 16 * 12, in_rounds=in_rounds)
    assert len(counted) == 12
    assert counted == [0, 1, 2] * 4


def test_an_event_that_costs_little_waits_for_the_others_where_each_is_measured_seldom() -> None:
    """Each takes one of a block of its own k: hardly more than that is armed, however they are mixed."""
    counted = _seldom([4, 64], 68 * 20, in_rounds=True)
    assert counted[:8] == [0, 1] * 4
    assert 36 <= len(counted) <= 42


def test_a_graph_that_is_captured_for_each_event_is_not_captured_for_each_iteration() -> None:
    counted = _seldom([16] * 2, 16 * 30, stays=lambda: True, in_rounds=False)
    assert counted[:9] == [0] * 9
