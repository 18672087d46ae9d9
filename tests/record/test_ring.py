"""Measurements in flight: read when the clock has reached them, given up when there is no room."""

from stepscope.record.clock import HOST, DeviceClock
from stepscope.record.ring import Pending, Ring, Sample

from .fake_device import FakeDeviceClock
from .streams_device import Stream, StreamsDevice


def _pending(clock: FakeDeviceClock, iteration: int, key: int = 0) -> Pending:
    origin = clock.mark()
    start = clock.mark()
    return Pending(iteration, clock, origin, [(key, start, clock.mark())])


def test_nothing_is_read_before_the_device_is_there() -> None:
    clock = FakeDeviceClock(between_ns=10)
    ring = Ring()
    ring.push(_pending(clock, iteration=4))
    assert list(ring.read()) == []
    clock.finish()
    assert list(ring.read()) == [(0, Sample(iteration=4, duration_ns=10, offset_ns=10))]
    assert len(ring) == 0


def test_a_full_ring_gives_up_the_oldest_and_counts_it() -> None:
    clock = FakeDeviceClock()
    ring = Ring(capacity=2)
    for iteration in range(5):
        ring.push(_pending(clock, iteration, key=7))
    assert (len(ring), ring.lost) == (2, {7: 3})
    clock.finish()
    assert [sample.iteration for _, sample in ring.read()] == [3, 4]


def test_marks_are_used_again_so_that_a_long_run_makes_few() -> None:
    clock = FakeDeviceClock()
    ring = Ring()
    for iteration in range(1000):
        ring.push(_pending(clock, iteration))
        clock.finish()
        assert len(list(ring.read())) == 1
    assert clock.made <= 3


def test_marks_of_a_captured_graph_are_kept_for_its_next_replay() -> None:
    clock = FakeDeviceClock(between_ns=5)
    start, stop = clock.mark(in_graph=True), clock.mark(in_graph=True)
    ring = Ring()
    for iteration in range(3):
        ring.push(Pending(iteration, clock, clock.mark(), [], in_graph=[(0, start, stop)]))
        clock.finish()
        assert [sample.duration_ns for _, sample in ring.read()] == [5]
    assert clock.released.isdisjoint({id(start), id(stop)})


def test_a_host_clock_is_read_at_once() -> None:
    ring = Ring()
    ring.push(Pending(0, HOST, 90, [(1, 100, 130)]))
    assert list(ring.read()) == [(1, Sample(iteration=0, duration_ns=30, offset_ns=10))]


def test_work_on_a_side_stream_is_read_when_the_main_stream_is_there_too() -> None:
    """The iteration's start is marked on the main stream, which may be far behind the side stream."""
    device = StreamsDevice()
    clock = DeviceClock(device, "cuda")
    device.launch(1000)
    origin = clock.mark()
    with device.on(Stream(9)):
        start = clock.mark()
        device.launch(20)
        stop = clock.mark()
    ring = Ring()
    ring.push(Pending(0, clock, origin, [(3, start, stop)]))
    device.now_ns = 20
    assert clock.done(stop)
    assert list(ring.read()) == []
    device.now_ns = 1000
    assert list(ring.read()) == [(3, Sample(iteration=0, duration_ns=20, offset_ns=-1000))]


def test_what_started_on_one_stream_and_ended_on_another_is_read_when_both_are_there() -> None:
    device = StreamsDevice()
    clock = DeviceClock(device, "cuda")
    origin = clock.mark()
    device.launch(500)
    start = clock.mark()
    with device.on(Stream(9)):
        stop = clock.mark()
    ring = Ring()
    ring.push(Pending(0, clock, origin, [(3, start, stop)]))
    assert list(ring.read()) == []
    device.now_ns = 500
    assert (list(ring.read()), ring.lost) == ([], {3: 1})  # it has no duration


def test_a_ring_holds_so_many_measurements_however_few_the_iterations() -> None:
    clock = FakeDeviceClock()
    ring = Ring(max_measurements=4)
    for iteration in range(3):
        marked = [(key, clock.mark(), clock.mark()) for key in range(2)]
        ring.push(Pending(iteration, clock, clock.mark(), marked))
    assert (len(ring), ring.lost) == (2, {0: 1, 1: 1})
    too_many = [(key, clock.mark(), clock.mark()) for key in range(5)]
    ring.push(Pending(3, clock, clock.mark(), too_many))
    assert len(ring) == 0
