"""Jobs that are not like others: recorded or not, they compute the same, and what ran is measured."""

import copy
import dataclasses
import json
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stepscope.record import inline

pytestmark = pytest.mark.torch

STEPS = 250
EVERYTHING = {
    "warmup": 2,
    "repetitions": 1,
    "unarmed_every": 3,
    "stop_when_done": True,
    "events": [
        "input_wait",
        "zero_grad",
        "forward",
        "backward",
        "optimizer.step",
        "**.forward",
        "**.backward",
        "*.forward.*",
        "*.backward.*",
    ],
}
ONE_SHOT = EVERYTHING | {"mode": "one_shot", "repetitions": 8}

Job = Callable[[Callable[[list[Any]], Any]], Iterator[Any]]
"""Goes over the batches through what it is given, and yields what it computed in each step."""

JOBS: dict[str, tuple[Job, tuple[str, ...]]] = {}


def job(*measured: str) -> Callable[[Job], Job]:
    """A job of the table above, by its name, with some of what it runs."""

    def enter(function: Job) -> Job:
        JOBS[function.__name__] = (function, measured)
        return function

    return enter


def _batches() -> list[Any]:
    import torch

    random = torch.Generator().manual_seed(1)
    return [torch.randn(4, 8, generator=random) for _ in range(STEPS)]


def _mlp() -> Any:
    from torch import nn

    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(inplace=True), nn.Linear(8, 8))


def _steps(model: Any, iterate: Any, loss_of: Callable[[Any], Any], **options: Any) -> Iterator[Any]:
    import torch

    make = options.pop("optimizer", lambda parameters: torch.optim.SGD(parameters, lr=0.01))
    optimizer = make(model.parameters())
    for batch in iterate(_batches()):
        optimizer.zero_grad(**options)
        loss = loss_of(batch)
        loss.backward()
        optimizer.step()
        yield loss.detach()


@job("a.forward#1", "a.backward#1", "b.backward#0")
def shared_modules_in_changing_order(iterate: Any) -> Iterator[Any]:
    import torch
    from torch import nn

    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = _mlp(), _mlp()
            self.same = self.a
            self.calls = 0

        def forward(self, x: Any) -> Any:
            self.calls += 1
            for module in [self.a, self.same, self.b][:: 1 if self.calls % 2 else -1]:
                x = torch.tanh(module(x))
            return x

    model = Shared()
    yield from _steps(model, iterate, lambda batch: model(batch).square().mean())


@job("0.forward#3", "0.backward#2", "0.fc.forward#2")
def recursion(iterate: Any) -> Iterator[Any]:
    from torch import nn

    class Tree(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(8, 8)

        def forward(self, x: Any, depth: int = 3) -> Any:
            return x if depth == 0 else self.fc(self(x, depth - 1)).relu()

    model = nn.Sequential(Tree())
    yield from _steps(model, iterate, lambda batch: model(batch).square().mean())


def _checkpointed(iterate: Any, *, reentrant: bool) -> Iterator[Any]:
    from torch import nn
    from torch.utils.checkpoint import checkpoint

    class Blocks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = _mlp(), _mlp()
            self.dropout = nn.Dropout(0.1)

        def forward(self, x: Any) -> Any:
            x = checkpoint(self.first, x, use_reentrant=reentrant)
            return checkpoint(self.second, self.dropout(x), use_reentrant=reentrant)

    model = Blocks()
    yield from _steps(model, iterate, lambda batch: model(batch.requires_grad_()).square().mean())


@job("first.forward#1", "first.backward#0", "second.0.forward#1")
def checkpointing(iterate: Any) -> Iterator[Any]:
    return _checkpointed(iterate, reentrant=False)


@job("first.forward#1", "first.backward#0", "second.0.forward#1", "backward#1")
def reentrant_checkpointing(iterate: Any) -> Iterator[Any]:
    return _checkpointed(iterate, reentrant=True)


@dataclasses.dataclass
class Output:
    hidden: dict[str, tuple[Any, ...]]
    note: str = ""


class Bag:
    """An object of the job's own, with tensors in it."""

    def __init__(self, x: Any) -> None:
        self.x = x


@job("inner.forward#0", "inner.backward#0", "front.forward.aten::addmm#0", "nothing.forward#0")
def outputs_of_every_shape(iterate: Any) -> Iterator[Any]:
    from torch import nn

    class Inner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(8, 8)

        def forward(self, bag: Bag, *, scale: float) -> Output:
            x = self.fc(bag.x) * scale
            return Output({"both": (x, None, x.mean())}, note="none")

    class Nothing(nn.Module):
        def forward(self) -> None:
            return None

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.front, self.inner, self.nothing = nn.Linear(8, 8), Inner(), Nothing()

        def forward(self, x: Any) -> Any:
            self.nothing()
            return self.inner(Bag(self.front(x)), scale=2.0)

    model = Outer()
    yield from _steps(model, iterate, lambda batch: sum(x.mean() for x in model(batch).hidden["both"][::2]))


@job("optimizer.step#1", "zero_grad#1", "backward#1")
def adversaries_with_two_optimizers(iterate: Any) -> Iterator[Any]:
    import torch
    from torch import nn

    generator, discriminator = _mlp(), nn.Sequential(nn.Linear(8, 4), nn.Linear(4, 1))
    both = [torch.optim.Adam(model.parameters()) for model in (generator, discriminator)]
    for real in iterate(_batches()):
        fake = generator(real.flip(0))
        both[1].zero_grad()
        seen = discriminator(fake.detach()).mean() - discriminator(real).mean()
        seen.backward()
        both[1].step()
        both[0].zero_grad()
        loss = -discriminator(fake).mean()
        loss.backward()
        both[0].step()
        yield loss.detach()


@job("forward#0", "0.backward#0", "backward#0")
def accumulation_with_a_scaler(iterate: Any) -> Iterator[Any]:
    import torch

    model = _mlp()
    optimizer = torch.optim.AdamW(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=STEPS)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**125)  # the first steps overflow
    for number, batch in enumerate(iterate(_batches())):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(batch).square().mean()
        scaler.scale(loss).backward()
        if number % 2:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            schedule.step()
            optimizer.zero_grad(set_to_none=False)
        yield loss.detach()


@job("optimizer.step#0", "backward#1", "2.forward#1")
def closures(iterate: Any) -> Iterator[Any]:
    import torch

    model = _mlp()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)
    for batch in iterate(_batches()):

        def closure(batch: Any = batch) -> Any:
            optimizer.zero_grad()
            loss = model(batch).square().mean()
            loss.backward()
            return loss

        yield torch.as_tensor(optimizer.step(closure)).detach()


@job("2.backward#0", "forward#0")
def validation_and_averages_between_steps(iterate: Any) -> Iterator[Any]:
    import torch

    model = _mlp()
    average = torch.optim.swa_utils.AveragedModel(model)
    held = _batches()[0]
    for number, loss in enumerate(_steps(model, iterate, lambda x: model(x).square().mean())):
        average.update_parameters(model)
        if number % 3 == 0:
            model.eval()
            with torch.no_grad():
                loss = loss + model(held).sum() + copy.deepcopy(model)(held).sum()
            model.train()
        yield loss + average(held).sum().detach()


@job("fc.backward#1", "backward#0", "fc.backward.AddmmBackward0#0")
def functions_of_the_jobs_own_and_kept_graphs(iterate: Any) -> Iterator[Any]:
    import torch
    from torch import nn

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.name = "the job's own"
            return 2 * x

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            return 2 * gradients[0]

    class Doubled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(8, 8)

        def forward(self, x: Any) -> Any:
            return Double.apply(self.fc(x))

    model = Doubled()

    def loss_of(batch: Any) -> Any:
        loss = model(batch).square().mean()
        (slope,) = torch.autograd.grad(loss, model.fc.weight, create_graph=True)
        loss.backward(retain_graph=True)
        return loss + slope.square().sum()

    yield from _steps(model, iterate, loss_of)


@job("optimizer.step#0", "backward#0")
def sparse_gradients(iterate: Any) -> Iterator[Any]:
    import torch
    from torch import nn

    model = nn.EmbeddingBag(10, 4, mode="sum", sparse=True)
    yield from _steps(
        nn.Sequential(model),
        iterate,
        lambda batch: model(batch.abs().long().clamp(max=9)).square().mean(),
        optimizer=lambda parameters: torch.optim.SparseAdam(list(parameters)),
    )


@job("forward#0", "2.forward#0")
def functional_calls_and_vmap(iterate: Any) -> Iterator[Any]:
    import torch
    from torch.func import functional_call, grad, vmap

    model = _mlp()
    model[1] = torch.nn.Tanh()

    def loss_of(parameters: Any, x: Any) -> Any:
        return functional_call(model, parameters, (x,)).square().mean()

    for batch in iterate(_batches()):
        parameters = {name: one.detach() for name, one in model.named_parameters()}
        each = vmap(grad(loss_of), (None, 0))(parameters, batch)
        with torch.no_grad():
            for name, one in model.named_parameters():
                one -= 0.01 * each[name].mean(0)
        yield each["0.weight"].sum().detach()


@job("0.forward#1", "2.backward#1")
def attributes_that_the_job_replaces(iterate: Any) -> Iterator[Any]:
    model = _mlp()
    plain = model[0].forward
    handles: list[Any] = []

    def loss_of(batch: Any) -> Any:
        # As libraries do that put hooks of their own into a model.
        model[0].forward = lambda x: plain(x) + 1
        handles.append(model[2].register_forward_hook(lambda _module, _args, out: 2 * out))
        loss = model(batch).square().mean()
        handles.pop().remove()
        model[0].forward = plain
        return loss + model(batch).mean()

    yield from _steps(model, iterate, loss_of)


@job("0.forward#1", "backward#1", "2.backward#0")
def exceptions_that_the_job_handles(iterate: Any) -> Iterator[Any]:
    import torch

    model = _mlp()

    def loss_of(batch: Any) -> Any:
        with pytest.raises(RuntimeError):
            model(batch[:, :3])
        with pytest.raises(RuntimeError):
            torch.ones(2, requires_grad=True).backward()
        return model(batch).square().mean()

    yield from _steps(model, iterate, loss_of)


@job("backward#0", "optimizer.step#0")
def several_threads(iterate: Any) -> Iterator[Any]:
    """Two threads in the same module, one after the other, so that sums are the same."""
    model = _mlp()

    def loss_of(batch: Any) -> Any:
        out: list[Any] = []
        for half in batch.split(2):
            thread = threading.Thread(target=lambda half=half: out.append(model(half)))
            thread.start()
            thread.join()
        return sum(one.square().mean() for one in out)

    yield from _steps(model, iterate, loss_of)


@job("0.forward#0", "0.backward#0", "2.forward.aten::addmm#0")
def compiled_whole_and_in_part(iterate: Any) -> Iterator[Any]:
    import torch

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = torch.nn.Linear(8, 8)

        def forward(self, x: Any) -> Any:
            return torch.relu(self.fc(x))

    model = torch.nn.Sequential(Block(), Block(), torch.nn.Linear(8, 8))
    model[0].compile(backend="eager", fullgraph=True)

    @torch.compile(backend="eager", fullgraph=True)
    def loss_of(batch: Any) -> Any:
        return model[1](batch).square().mean()

    yield from _steps(model, iterate, lambda batch: model(batch).mean() + loss_of(batch))


def _run(name: str, iterate: Any) -> list[Any]:
    import torch

    torch.compiler.reset()
    torch.manual_seed(0)
    return [float(value) for value in JOBS[name][0](iterate)]


# Of each job's three cases the first, and of these every third.
@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(EVERYTHING, id="alone", marks=pytest.mark.sweep(9)),
        pytest.param(ONE_SHOT, id="one shot"),
        pytest.param(None, id="phases"),
    ],
)
@pytest.mark.parametrize("name", JOBS)
def test_a_job_computes_the_same_and_what_ran_is_measured(
    name: str, plan: dict[str, Any] | None, tmp_path: Path
) -> None:
    import torch

    if name == "accumulation_with_a_scaler" and not hasattr(torch.amp, "GradScaler"):
        pytest.skip("an older torch has no scaler for CPUs")
    version = tuple(map(int, torch.__version__.split(".")[:2]))
    if name == "checkpointing" and plan and version < (2, 6):
        pytest.skip("an older torch recomputes in more events than these steps suffice for")
    most = 12 if plan is None else STEPS
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=UserWarning)
        # torch's own of its checkpointing, and of Python 3.13.0.
        warnings.filterwarnings("ignore", message="`torch.cpu.amp.autocast|Guards may run slower")
        warnings.filterwarnings("ignore", message=".*is not measured")  # not all jobs have all
        inline.start(plan, out=tmp_path)
        session = inline._session
        assert session is not None
        computed = _run(name, lambda loader: inline.iterate(loader[:most]))
        assert session.guard.error is None
        written = inline.stop()
    assert computed == _run(name, lambda loader: loader[: len(computed)])
    assert len(written) == (1 if plan is None else 2)
    if plan is None:
        return
    profile = json.loads(next(path for path in written if "prof" in path.name).read_text())
    measured = {
        f"{event['label']}#{event['occurrence']}"
        for streams in profile["timeline"].values()
        for events in streams.values()
        for event in events
        if event["samples"]
    }
    assert profile["complete"]
    assert measured >= {"input_wait#0", *JOBS[name][1]}
    assert len(measured) < 90  # a module's own nodes and operators, not those of all before it


def test_several_models_are_given_by_name(tmp_path: Path) -> None:
    import torch

    models = torch.nn.ModuleDict({"generator": _mlp(), "critic": _mlp()})
    plan = {"warmup": 2, "repetitions": 2, "events": ["generator.0.forward", "critic.backward"]}
    inline.start(plan, model=models, out=tmp_path)
    optimizer = torch.optim.SGD(models.parameters(), lr=0.1)
    for batch in inline.iterate(_batches()[:20]):
        optimizer.zero_grad()
        models["critic"](models["generator"](batch)).mean().backward()
        optimizer.step()
    profile, phases = (json.loads(path.read_text()) for path in inline.stop())
    assert profile["complete"]
    assert profile["not_measured"] == []
    assert phases["phases"]["forward"]["mean_ns"] > 0
