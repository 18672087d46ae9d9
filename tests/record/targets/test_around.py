"""What is put around a module's calls: no copy and no file of the module takes it along."""

import copy
import gc
import io
import pickle
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from tests.record.small_job import batches, make_model, train

from stepscope.record import inline
from stepscope.record.targets.around import Around, ModuleForward, is_compiled
from stepscope.record.targets.backward import ModuleBackward, NodeBackward
from stepscope.record.targets.operators import OperatorsInBackward, OperatorsInForward
from stepscope.record.targets.steps import zero_grad
from stepscope.record.traces.module_ranges import ModuleRanges
from stepscope.record.trouble import Guard

pytestmark = pytest.mark.torch


class Heard:
    """A watch that keeps what began."""

    resting = False

    def __init__(self) -> None:
        self.labels: list[str] = []

    def open(self, label: str) -> str:
        self.labels.append(label)
        return label

    def close(self, token: str) -> None: ...


TARGETS: dict[str, Callable[[Any], Any]] = {
    "forward": lambda model: ModuleForward(model[0], "f"),
    "backward": lambda model: ModuleBackward(model[0], "b"),
    "nodes": lambda model: NodeBackward(model[0], "b", None),
    "operators": lambda model: OperatorsInForward(model[0], "f", None),
    "operators backward": lambda model: OperatorsInBackward(model[0], "b", None),
    "zero_grad": lambda model: zero_grad([model]),
}


def _zeroed(model: Any) -> Any:
    import torch

    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    return model


def _clean(model: Any) -> bool:
    """Whether the model itself carries nothing of ours; others may be heard meanwhile."""
    ours = ("forward", "_compiled_call_impl", "zero_grad")
    return not any(
        module._forward_hooks or module._forward_pre_hooks or any(vars(module).get(name) is not None for name in ours)
        for module in model.modules()
    )


@pytest.mark.parametrize("copied", ["deepcopy", "pickle", "torch.save"])
@pytest.mark.parametrize("what", TARGETS)
def test_a_copy_made_while_a_module_is_heard_is_its_own(what: str, copied: str) -> None:
    """A job that saves the model, or keeps an average of it, does so in the middle of its loop."""
    import torch

    model, heard = make_model(), Heard()
    expected = train(make_model(), batches(2))
    target = TARGETS[what](model)
    target.install(heard, Guard("test"))
    if copied == "deepcopy":
        other = copy.deepcopy(model)
    elif copied == "pickle":
        other = pickle.loads(pickle.dumps(model))  # noqa: S301 - what was just made
    else:
        file = io.BytesIO()
        torch.save(model, file)
        assert b"stepscope" not in file.getvalue()
        file.seek(0)
        other = torch.load(file, weights_only=False)
    target.remove()
    heard.labels.clear()
    assert _clean(other)
    other[0].weight.grad = torch.ones_like(other[0].weight)
    other.zero_grad()
    assert other[0].weight.grad is None
    assert model[0].weight.grad is None
    assert train(other, batches(2)) == expected
    assert heard.labels == []
    target.close()
    assert not hasattr(torch.nn.Module.zero_grad, "__wrapped__")
    # It computes with its own weights, and the original with its own.
    assert float(_zeroed(other)(batches(1)[0]).abs().sum().detach()) == 0.0
    assert float(model(batches(1)[0]).abs().sum().detach()) > 0.0
    assert _clean(model)


def test_a_model_is_saved_while_phases_are_recorded(tmp_path: Any) -> None:
    import torch

    model = make_model()
    inline.start(model=model, out=tmp_path)

    def inside(_: int) -> None:
        torch.save(model, io.BytesIO())
        assert _clean(copy.deepcopy(model))

    train(model, inline.iterate(batches(4)), inside=inside)
    inline.stop()
    assert _clean(model)


def test_a_model_is_saved_in_the_recorded_steps_of_a_trace() -> None:
    model, guard = make_model(), Guard("test")
    ranges = ModuleRanges(model)
    ranges.install(guard)
    assert _clean(pickle.loads(pickle.dumps(model)))  # noqa: S301 - what was just made
    ranges.remove()
    assert _clean(model)


def test_replicas_that_copy_attributes_call_themselves() -> None:
    """As nn.DataParallel makes them: everything the module has, with other parameters."""
    model = make_model()
    target = ModuleForward(model[0], "f")
    target.install(Heard(), Guard("test"))
    replica = _zeroed(copy.deepcopy(model[0]))
    vars(replica).update({name: vars(model[0])[name] for name in ("_compiled_call_impl",)})
    assert float(replica(batches(1)[0]).abs().sum().detach()) == 0.0
    assert float(model[0](batches(1)[0]).abs().sum().detach()) > 0.0
    target.remove()
    assert float(replica(batches(1)[0]).abs().sum().detach()) == 0.0


def test_several_wrappers_leave_in_any_order() -> None:
    module = make_model()[0]
    order: list[str] = []

    def wrapper(name: str) -> Any:
        def wrapped(call: Any, *args: Any, **kwargs: Any) -> Any:
            order.append(name)
            return call(*args, **kwargs)

        return wrapped

    first, second = Around(module, wrapper("first")), Around(module, wrapper("second"))
    first.install()
    second.install()
    module(batches(1)[0])
    assert order == ["second", "first"]
    first.remove()
    module(batches(1)[0])
    assert order == ["second", "first", "second"]
    second.remove()
    second.remove()
    module(batches(1)[0])
    assert len(order) == 3
    assert "_compiled_call_impl" not in vars(module)


def test_a_module_that_is_compiled_while_it_is_heard_stays_compiled() -> None:
    model = make_model()
    heard = Heard()
    target = ModuleForward(model, "f")
    target.install(heard, Guard("test"))
    assert not is_compiled(model)
    model.compile(backend="eager")
    theirs = vars(model)["_compiled_call_impl"]
    model(batches(1)[0])
    target.remove()
    assert vars(model)["_compiled_call_impl"] is theirs
    again = ModuleForward(model, "f")
    again.install(heard, Guard("test"))
    assert is_compiled(model)
    model(batches(1)[0])
    again.remove()
    assert vars(model)["_compiled_call_impl"] is theirs
    assert heard.labels == ["f"]


def test_a_module_called_by_several_threads_at_once_is_told_apart() -> None:
    """Each call's end belongs to its own beginning, whichever thread is through first."""
    import torch

    inside, leave = threading.Barrier(2), [threading.Event(), threading.Event()]

    class Waits(torch.nn.Module):
        def forward(self, number: int) -> int:
            inside.wait()
            leave[number].wait(10)
            return number

    class Ends:
        resting = False

        def __init__(self) -> None:
            self.began: dict[int, int] = {}
            self.ended: list[tuple[int, int]] = []

        def open(self, _label: str) -> int:
            self.began[threading.get_ident()] = len(self.began)
            return self.began[threading.get_ident()]

        def close(self, token: int) -> None:
            self.ended.append((self.began[threading.get_ident()], token))

    module, watch = Waits(), Ends()
    target = ModuleForward(module, "f")
    target.install(watch, Guard("test"))
    threads = [threading.Thread(target=module, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for number in (0, 1):  # one that came first leaves first, or last
        leave[number].set()
        threads[number].join()
    target.remove()
    assert len(watch.ended) == 2
    assert all(own == token for own, token in watch.ended)


def test_a_module_that_is_heard_is_freed_as_soon_as_nobody_has_it() -> None:
    model = make_model()
    target = ModuleForward(model, "f")
    target.install(Heard(), Guard("test"))
    gone = weakref.ref(model)
    gc.disable()
    try:
        del model
        assert gone() is None
    finally:
        gc.enable()
    target.remove()


@pytest.mark.parametrize("plan", [None, {"warmup": 2, "repetitions": 1, "events": ["0.forward"]}])
def test_nothing_of_the_model_is_alive_after_stop(tmp_path: Any, plan: Any) -> None:
    model = make_model()
    inline.start(plan, model=model, out=tmp_path)
    train(model, inline.iterate(batches(4)))  # before the plan is done
    inline.stop()
    gone = weakref.ref(model)
    gc.disable()
    try:
        del model
        assert gone() is None
    finally:
        gc.enable()
