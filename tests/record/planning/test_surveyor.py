"""Times of watched iterations on a device, which reaches its marks later."""

import sys
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from tests.record.fake_device import FakeDeviceClock
from tests.record.small_job import batches, make_model, train, untouched

from stepscope.record.plan import plan_from
from stepscope.record.planning.listing import listed
from stepscope.record.planning.surveyor import Round, Surveyor, TimedWatch
from stepscope.record.trouble import Guard


def _watch(clock: FakeDeviceClock) -> TimedWatch:
    return TimedWatch(plan_from({"events": ["**"]}), lambda _: clock)


def test_times_are_known_when_the_device_has_come_to_the_marks() -> None:
    clock = FakeDeviceClock(between_ns=10)
    watch = _watch(clock)
    event = watch.open("forward")
    assert event is not None
    watch.close(event)
    watch.close(event)  # it ended later than was said before
    assert (watch.reached(), watch.time_ns(event)) == (False, None)
    clock.finish()
    assert (watch.reached(), watch.time_ns(event)) == (True, 20)


def test_what_runs_in_a_captured_graph_is_listed_without_a_time() -> None:
    clock = FakeDeviceClock(done_at_once=True)
    watch = _watch(clock)
    watch.close(watch.open("rehearsal"))
    clock.is_capturing = True
    watch.close(watch.open("captured"))
    (one,) = listed([Round("all", watch, excluded=False)])
    assert (one.label, one.time_ns) == ("captured", None)


@pytest.mark.torch
def test_a_device_that_never_answers_leaves_times_out_and_holds_nothing_up(
    on_device: Callable[[FakeDeviceClock], None],
) -> None:
    on_device(FakeDeviceClock())
    model = make_model()
    surveyor = Surveyor(model, [], Guard("test"))
    surveyor.start_iteration("all")
    train(model, batches(1))
    surveyor.end_iteration()
    surveyor.wait(0)
    surveyor.remove()
    found = {one.label: one.time_ns for one in listed(surveyor.rounds)}
    assert found["0.forward"] is None
    assert untouched(model)


@pytest.mark.torch
def test_copies_are_listened_to_where_there_is_a_device_and_only_meanwhile(
    on_device: Callable[[FakeDeviceClock], None],
) -> None:
    import torch

    before = torch.Tensor.to
    on_device(FakeDeviceClock())
    surveyor = Surveyor(make_model(), [], Guard("test"))
    assert torch.Tensor.to is not before
    surveyor.remove()
    assert torch.Tensor.to is before


@pytest.mark.torch
def test_collectives_that_communicate_are_listed_and_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_reduce() -> None: ...
    def get_rank() -> None: ...

    fake = SimpleNamespace(all_reduce=all_reduce, get_rank=get_rank)
    monkeypatch.setitem(sys.modules, "torch.distributed", fake)  # type: ignore[arg-type]
    surveyor = Surveyor(None, [], Guard("test"))
    surveyor.start_iteration("all")
    fake.all_reduce()
    fake.get_rank()
    surveyor.end_iteration()
    surveyor.remove()
    assert [one.label for one in listed(surveyor.rounds)] == ["collective.all_reduce"]
