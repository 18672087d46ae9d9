"""Events of a device, and what a torch's events can do."""

from collections.abc import Callable
from typing import Any

import pytest

from stepscope.record.clock import HOST, DeviceClock
from stepscope.record.inline.recorder import Recorder
from stepscope.record.plan import plan_from
from stepscope.record.trouble import Guard

from .fake_device import FakeDeviceClock
from .small_job import make_model


class _Old:
    class Event:
        def __init__(self, enable_timing: bool = False) -> None:
            pass


class _New:
    class Event:
        def __init__(self, enable_timing: bool = False, external: bool = False) -> None:
            pass


@pytest.mark.parametrize(("backend", "can"), [(_Old, False), (_New, True)])
def test_marks_inside_graphs_need_external_events(backend: Any, can: bool) -> None:
    assert DeviceClock(backend, "cuda").marks_graphs() is can
    assert HOST.marks_graphs() is False


@pytest.mark.torch
def test_an_event_inside_a_graph_that_cannot_be_marked_is_said_and_the_rest_is_measured(
    on_device: Callable[[FakeDeviceClock], None],
) -> None:
    clock = FakeDeviceClock(done_at_once=True)
    clock.can_mark_graphs = False
    plan = plan_from({"warmup": 0, "repetitions": 1, "events": ["inside"]}, source="test")
    on_device(clock)
    recorder = Recorder(plan, Guard("the test"), model=make_model(), optimizers=[object()])
    recorder.start_iteration(0)  # untouched
    recorder.end_iteration(1)
    recorder.start_iteration(2)
    assert recorder.recapture()
    assert recorder.watch is not None
    clock.is_capturing = True
    assert recorder.watch.open("inside") is None
    clock.is_capturing = False
    with pytest.warns(RuntimeWarning, match="captured graph"):
        recorder.end_iteration(3)
    assert recorder.done
    assert clock.made == 0
