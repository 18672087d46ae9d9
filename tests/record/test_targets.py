"""What can be heard in a model, and that hearing it changes nothing."""

from types import FunctionType
from typing import Any

import pytest

from stepscope.record.annotate import listen, region, stop_listening
from stepscope.record.job.trained_model import Discovery
from stepscope.record.labels import parse_label
from stepscope.record.plan import plan_from
from stepscope.record.targets import Target
from stepscope.record.targets.around import ModuleForward
from stepscope.record.targets.backward import ModuleBackward, NodeBackward
from stepscope.record.targets.copies import Copied, Copies, HostToDevice
from stepscope.record.targets.find import Finder, module_paths, why_not_seen
from stepscope.record.targets.operators import OperatorsInBackward, OperatorsInForward
from stepscope.record.targets.patches import Patch
from stepscope.record.targets.steps import OptimizerStep, collective, full_backward, zero_grad
from stepscope.record.traces.module_ranges import ModuleRanges
from stepscope.record.trouble import Guard, RecordingWarning

from .small_job import batches, make_model, train, untouched

pytestmark = pytest.mark.torch


class Diary:
    """A watch that writes down what it hears; an end that moves is written once, where it ends up."""

    resting = False

    def __init__(self) -> None:
        self.lines: list[str] = []

    def open(self, label: str) -> str:
        self.lines.append(f"<{label}")
        return label

    def close(self, token: str) -> None:
        if f"{token}>" in self.lines:
            self.lines.remove(f"{token}>")
        self.lines.append(f"{token}>")


def _hear(model: Any, *targets: Target, steps: int = 1) -> list[str]:
    diary, guard = Diary(), Guard("test")
    for target in targets:
        target.install(diary, guard)
    train(model, batches(steps))
    for target in targets:
        target.remove()
    assert not guard.tripped
    assert untouched(model)
    return diary.lines


def test_a_forward_and_a_backward_of_one_module() -> None:
    model = make_model()
    lines = _hear(model, ModuleForward(model[2], "2.forward"), ModuleBackward(model[2], "2.backward"))
    assert lines == ["<2.forward", "2.forward>", "<2.backward", "2.backward>"]


def test_a_backward_spans_all_its_nodes_and_lies_inside_the_whole() -> None:
    model = make_model()
    lines = _hear(
        model, full_backward(), ModuleBackward(model, "model.backward"), NodeBackward(model[0], "0.backward", None)
    )
    assert lines[:2] == ["<backward", "<model.backward"]
    assert lines[-1] == "backward>"
    assert [line for line in lines if "0.backward" in line] == [
        "<0.backward.AddmmBackward0",
        "0.backward.AddmmBackward0>",
        "<0.backward.TBackward0",
        "0.backward.TBackward0>",
    ]


def test_operators_are_heard_in_their_module_only() -> None:
    model = make_model()
    forward = _hear(model, OperatorsInForward(model[2], "2.forward", "aten::addmm"))
    assert forward == ["<2.forward.aten::addmm", "2.forward.aten::addmm>"]
    backward = _hear(model, OperatorsInBackward(model[2], "2.backward", "aten::mm"))
    assert backward.count("<2.backward.aten::mm") == 2  # gradients of the input and of the weight


def test_the_steps_own_calls_are_heard_in_order() -> None:
    import torch

    model = make_model()
    optimizer = torch.optim.Adam(model.parameters())
    diary, guard = Diary(), Guard("test")
    targets = [zero_grad([optimizer]), full_backward(), OptimizerStep()]
    for target in targets:
        target.install(diary, guard)
    train(model, batches(1), optimizer)
    for target in targets:
        target.close()
    assert [line for line in diary.lines if line.startswith("<")] == ["<zero_grad", "<backward", "<optimizer.step"]
    assert optimizer.zero_grad.__func__ is torch.optim.Optimizer.zero_grad
    assert torch.optim.Optimizer.zero_grad.__module__ == "torch.optim.optimizer"


def test_a_forward_that_raises_leaves_no_dispatch_mode_behind() -> None:
    from torch.utils._python_dispatch import _get_current_dispatch_mode

    model = make_model()
    diary, guard = Diary(), Guard("test")
    target = OperatorsInForward(model[2], "2.forward", None)
    target.install(diary, guard)
    with pytest.raises(RuntimeError):
        model[2](batches(1)[0])  # 8 columns where 16 are wanted
    assert _get_current_dispatch_mode() is None
    target.remove()
    assert untouched(model)


def test_a_modules_backward_does_not_reach_into_what_it_uses_beside_its_inputs() -> None:
    """A recurrent state, or a tensor in an object of the job's own, has a history that is not its."""
    import torch
    from torch import nn

    class Uses(nn.Module):
        def __init__(self, state: list[Any]) -> None:
            super().__init__()
            self.fc, self.state = nn.Linear(8, 8), state

        def forward(self) -> Any:
            return self.fc(self.state.pop())

    state: list[Any] = []
    before, model = nn.Linear(8, 8), Uses(state)
    diary = Diary()
    target = NodeBackward(model, "b", None)
    target.install(diary, Guard("test"))
    state.append(before(torch.ones(1, 8)))
    model().sum().backward()
    target.remove()
    assert diary.lines.count("<b.AddmmBackward0") == 1


class Backend:
    """Compiles nothing, and counts how often it was asked to."""

    compiled = 0

    def __call__(self, graph: Any, _inputs: Any) -> Any:
        self.compiled += 1
        return graph.forward


@pytest.mark.parametrize("in_place", [False, True])
def test_a_compiled_module_is_heard_at_its_boundary_without_compiling_again(in_place: bool) -> None:
    import torch

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = torch.nn.Linear(8, 8)

        def forward(self, x: Any) -> Any:
            return torch.relu(self.fc(x))

    backend, block = Backend(), Block()
    if in_place:
        block.compile(backend=backend)
    else:
        block = torch.compile(block, backend=backend)
    block(batches(1)[0])
    before = backend.compiled
    assert before > 0
    diary = Diary()
    target = ModuleForward(block, "forward")
    target.install(diary, Guard("test"))
    block(batches(1)[0])
    target.remove()
    block(batches(1)[0])
    assert diary.lines == ["<forward", "forward>"]
    assert backend.compiled == before


@pytest.mark.parametrize("how", ["hooks", "region", "discovery", "module ranges"])
def test_compiled_code_takes_nothing_of_ours_in_and_is_not_compiled_again(how: str) -> None:
    """With fullgraph=True anything that the compiler cannot follow raises, in the user's job."""
    import torch

    backend, model, guard, diary = Backend(), make_model(), Guard("test"), Diary()

    def opener(name: str) -> None:
        diary.open(name)

    class OfRegions:
        def install(self, _: Guard) -> None:
            listen(opener)

        def remove(self) -> None:
            stop_listening(opener)

    def plain(x: Any) -> Any:
        with region("inside"):
            return model(x).sum()

    def compile_anew() -> Any:
        # Code of its own each time: torch 2.8 crashes in code that is compiled after a reset.
        code = plain.__code__.replace()
        recreated = FunctionType(code, plain.__globals__, "step", None, plain.__closure__)
        return torch.compile(recreated, backend=backend, fullgraph=True)

    step = compile_anew()
    target: Any = {
        "hooks": ModuleForward(model, "forward"),
        "region": OfRegions(),
        "discovery": Discovery(),
        "module ranges": ModuleRanges(model),
    }[how]
    given = (diary, guard) if how == "hooks" else (guard,)
    step(batches(1)[0])
    for _ in range(3):
        target.install(*given)
        step(batches(1)[0])
        target.remove()
        step(batches(1)[0])
    assert backend.compiled == 1
    assert diary.lines == []
    assert not guard.tripped
    # Also where it is compiled while ours is installed, it is compiled, and works.
    step = compile_anew()
    target.install(*given)
    step(batches(1)[0])
    target.remove()
    assert backend.compiled == 2


def test_what_a_compiler_merged_is_told_where_to_measure_instead() -> None:
    import torch

    model = torch.compile(make_model(), backend="eager")
    finder = Finder(model, (), None)
    (entry,) = plan_from({"events": ["2.forward"]}).entries
    assert 'measured at its boundary: "forward"' in (finder.not_measurable(entry) or "")
    assert finder.armed(parse_label("2.forward")) is None
    assert isinstance(finder.armed(parse_label("forward")), ModuleForward)


def test_copies_to_a_device_are_heard_and_others_are_not() -> None:
    import torch

    copies, diary, guard = Copies(), Diary(), Guard("test")
    copies.attach()
    target = HostToDevice(copies)
    target.install(diary, guard)
    tensor = torch.ones(2)
    tensor.to("meta")
    tensor.to(device=torch.device("meta"), non_blocking=True)
    tensor.to(device=None, dtype=torch.float64)
    tensor.to(torch.float64)
    tensor.to("cpu")
    tensor.to(tensor)
    target.remove()
    tensor.to("meta")
    copies.detach()
    assert diary.lines.count("<host_to_device") == 2
    assert "to" not in vars(torch.Tensor)


def test_copies_are_counted_and_those_from_pageable_memory_apart() -> None:
    import torch

    class Pinned(torch.Tensor):
        def is_pinned(self) -> bool:
            return True

    copies = Copies()
    copies.attach()
    torch.ones(2).to("meta")
    target = HostToDevice(copies)
    target.install(Diary(), Guard("test"))
    torch.ones(2).to("meta")
    torch.ones(3).as_subclass(Pinned).to("meta")
    copies.detach()
    assert copies.copied == Copied(2, 20, 1, 8)


def test_a_copy_to_the_usual_device_is_one_also_when_none_is_named() -> None:
    import torch

    copies, tensor = Copies(), torch.ones(1)
    for args in ((), (None,), (0,)):
        assert copies._leaves_host(tensor, args, {}, "cuda")
    assert copies._leaves_host(tensor, (), {"device": None}, "cuda")
    assert not copies._leaves_host(tensor, (), {"dtype": torch.int8}, None)


def test_a_module_without_tensors_works_where_those_around_it_do() -> None:
    """Else an activation on a GPU would be timed by the host's clock."""
    import torch
    from torch import nn

    model = nn.Sequential(nn.Sequential(nn.ReLU()), nn.Linear(2, 2, device="meta"))
    finder = Finder(model, (), None)
    for label in ("0.0.forward", "forward", "backward", "optimizer.step", "a region"):
        assert finder.device_of(parse_label(label)) == torch.device("meta")


def test_a_collective_is_heard_when_it_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch.distributed as dist

    class Handle:
        def wait(self) -> None: ...

    def all_reduce(tensor: Any, async_op: bool = False) -> Any:
        return Handle() if async_op else None

    monkeypatch.setattr(dist, "all_reduce", all_reduce)
    diary = Diary()
    target = collective("all_reduce")
    target.install(diary, Guard("test"))
    dist.all_reduce(None)  # type: ignore[arg-type]
    dist.all_reduce(None, async_op=True)  # type: ignore[arg-type]
    target.remove()
    assert diary.lines == ["<collective.all_reduce", "collective.all_reduce>", "<collective.all_reduce"]
    assert dist.all_reduce is all_reduce


def test_paths_are_the_authors_without_wrappers() -> None:
    import torch

    model = make_model()
    assert set(module_paths(model)) == {"", "0", "1", "2"}
    assert set(module_paths(torch.compile(model, backend="eager"))) == {"", "0", "1", "2"}
    parallel = torch.nn.DataParallel(model)
    assert set(module_paths(parallel)) == {"", "0", "1", "2"}
    assert set(module_paths(torch.compile(parallel, backend="eager"))) == {"", "0", "1", "2"}
    engine = type("DeepSpeedEngine", (torch.nn.Module,), {})()
    engine.module = model
    assert set(module_paths(engine)) == {"", "0", "1", "2"}
    assert set(module_paths(torch.nn.ModuleDict({"module": model[0]}))) == {"", "module"}


def test_a_patch_that_somebody_patched_over_is_left_to_them() -> None:
    class Owner:
        def call(self) -> str:
            return "original"

    owner = Owner()
    patch = Patch(owner, "call", lambda original: lambda: "ours " + original())
    patch.install()
    ours = owner.call
    owner.call = lambda: "theirs " + ours()  # type: ignore[method-assign]
    patch.remove()
    assert owner.call() == "theirs ours original"


def test_a_failing_watch_trips_the_guard_and_the_job_goes_on() -> None:
    class Failing(Diary):
        def open(self, label: str) -> str:
            raise RuntimeError("broken")

    expected = train(make_model(), batches(2))
    for make in (
        lambda model: ModuleForward(model[0], "a"),
        lambda model: ModuleBackward(model[0], "a"),
        lambda model: NodeBackward(model[0], "a", None),
        lambda model: OperatorsInForward(model[0], "a", None),
        lambda model: OperatorsInBackward(model[0], "a", None),
        lambda _: full_backward(),
        lambda _: OptimizerStep(),
    ):
        model, guard = make_model(), Guard("test")
        target = make(model)
        target.install(Failing(), guard)
        with pytest.warns(RecordingWarning, match="broken") as caught:
            assert train(model, batches(2)) == expected
        assert len(caught) == 1
        target.remove()
        assert untouched(model)


def test_a_name_near_one_that_every_plan_has_is_told_it() -> None:
    (entry,) = plan_from({"events": ["optimizer"]}).entries
    why = why_not_seen(entry, Finder(make_model(), (), None), ["forward"])
    assert why == ("nothing of this name ran in the observed iteration (did you mean optimizer.step?)")
