"""Observes the parts of a training step that are calls: backward, optimizer, zero_grad, collectives."""

from __future__ import annotations

import sys
from types import FunctionType
from typing import Any

from stepscope.record.targets import Target
from stepscope.record.targets.optimizers import OptimizerSteps
from stepscope.record.targets.patches import Calls
from stepscope.record.targets.watch import Watch
from stepscope.record.trouble import Guard


def full_backward() -> Calls:
    """`loss.backward()`, which calls `torch.autograd.backward` by that name."""
    import torch

    return Calls("backward", [(torch.autograd, "backward")])


def zero_grad(owners: list[Any]) -> Calls:
    """`zero_grad` of optimizers and models."""
    return Calls("zero_grad", [(owner, "zero_grad") for owner in owners])


def collectives() -> list[str]:
    """Names of the functions of torch.distributed that the job has loaded."""
    distributed: Any = sys.modules.get("torch.distributed")
    return [
        name
        for name, value in (vars(distributed) if distributed is not None else {}).items()
        # Not isinstance, because torch's deprecated names warn when they are examined.
        if type(value) is FunctionType and not name.startswith("_")
    ]


def collective(name: str) -> Calls:
    """A function of torch.distributed that the job itself calls; see `collectives`.

    DDP's own all-reduce is called in C++ and not observed. An asynchronous collective returns a handle before it ends,
    so it is not measured.
    """
    distributed: Any = sys.modules["torch.distributed"]
    places = [(distributed, name)]
    beneath: Any = sys.modules.get("torch.distributed.distributed_c10d")
    if beneath is not None and getattr(beneath, name, None) is getattr(distributed, name):
        places.append((beneath, name))
    return Calls(f"collective.{name}", places, finished=_has_ended)


def _has_ended(result: Any) -> bool:
    # A handle, or a list of handles; anything else is the result of a synchronous call.
    return not (isinstance(result, list) or hasattr(result, "wait"))


class OptimizerStep(Target):
    """The steps of every optimizer."""

    def __init__(self) -> None:
        self._steps: OptimizerSteps | None = None
        self._open: list[Any] = []

    def install(self, watch: Watch, guard: Guard) -> None:
        self._open.clear()

        def before(_optimizer: Any, _args: Any, _kwargs: Any) -> None:
            if not watch.resting:
                self._open.append(watch.open("optimizer.step"))

        def after(_optimizer: Any, _args: Any, _kwargs: Any) -> None:
            if self._open:
                watch.close(self._open.pop())

        self._steps = OptimizerSteps(guard.wrap(before), guard.wrap(after))
        self._steps.install()

    def remove(self) -> None:
        if self._steps is not None:
            self._steps.remove()
        self._steps = None
