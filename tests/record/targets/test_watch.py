"""An armed watch: one event's marks in one iteration after the other, and nothing in between."""

import threading

import pytest
from tests.record.fake_device import FakeDeviceClock

from stepscope.record.clock import HOST
from stepscope.record.plan import plan_from
from stepscope.record.targets.watch import ArmedWatch, ObservingWatch


def _watch(clock: FakeDeviceClock) -> ArmedWatch:
    return ArmedWatch({("fc", 1): (5, clock)})


def test_the_armed_occurrence_is_marked_in_every_iteration_anew() -> None:
    clock = FakeDeviceClock(between_ns=10)
    watch = _watch(clock)
    for iteration in (3, 4):
        watch.start()
        for _ in range(3):
            watch.close(watch.open("fc"))
        assert watch.open("another") is None
        (pending,) = watch.end(iteration)
        ((key, start, stop),) = pending.measured
        assert (pending.iteration, key) == (iteration, 5)
        assert clock.between_ns(start, stop) == 10
        assert clock.between_ns(pending.origin, start) == 10
        pending.release()
    assert clock.made == 3


def test_between_iterations_nothing_is_heard() -> None:
    clock = FakeDeviceClock()
    watch = _watch(clock)
    assert not watch.listens_to("fc")
    watch.start()
    assert watch.listens_to("fc")
    (pending,) = watch.end(0)
    assert pending.measured == []
    assert not watch.listens_to("fc")
    assert [watch.open("fc") for _ in range(3)] == [None, None, None]
    assert clock.made == 1  # the iteration's begin


def test_an_end_that_comes_after_its_iteration_moves_no_mark() -> None:
    clock = FakeDeviceClock(between_ns=10)
    watch = _watch(clock)
    watch.start()
    watch.close(watch.open("fc"))
    token = watch.open("fc")
    watch.close(token)
    (pending,) = watch.end(0)
    ((_, start, stop),) = pending.measured
    measured_ns = clock.between_ns(start, stop)
    watch.close(token)
    watch.start()
    watch.close(token)
    assert clock.between_ns(start, stop) == measured_ns


def test_what_has_not_ended_gives_its_marks_back() -> None:
    clock = FakeDeviceClock()
    watch = ArmedWatch({("fc", 0): (0, clock)})
    watch.start()
    opened = watch.open("fc")
    assert opened is not None
    (pending,) = watch.end(0)
    assert pending.measured == []
    assert id(opened.start) in clock.released


def test_each_clock_has_an_origin_and_its_own_events() -> None:
    device, host = FakeDeviceClock(), HOST
    watch = ArmedWatch({("fc", 0): (0, device), ("input_wait", 0): (1, host)})
    watch.start()
    for label in ("input_wait", "fc"):
        watch.close(watch.open(label))
    found = {pending.clock: [key for key, _, _ in pending.measured] for pending in watch.end(0)}
    assert found == {device: [0], host: [1]}


def test_an_iteration_that_breaks_off_leaves_no_mark_behind() -> None:
    clock = FakeDeviceClock()
    watch = ArmedWatch({("fc", 0): (0, clock)})
    for _ in range(5):
        watch.start()
        watch.close(watch.open("fc"))
        watch.give_back()
    assert clock.made == 3


@pytest.mark.parametrize(
    ("label", "heard"),
    [
        ("fc.forward", False),
        ("fc.forward.aten::addmm", False),
        ("fc.backward", True),
        ("fc.backward.AddmmBackward0", True),
        ("prefetch", True),
    ],
)
def test_only_forwards_must_run_in_the_loops_own_thread(label: str, *, heard: bool) -> None:
    clock = HOST
    observing = ObservingWatch(plan_from({"events": [label]}), lambda _: clock)
    armed = ArmedWatch({(label, 0): (0, clock)})
    armed.start()

    def elsewhere() -> None:
        for watch in (observing, armed):
            watch.close(watch.open(label))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert [event.label for event in observing.events] == [label] * heard
    assert observing.elsewhere == (set() if heard else {label})
    (pending,) = armed.end(0)
    assert len(pending.measured) == heard
