"""Observes the steps of every optimizer, even in versions of torch that remove their own hooks from them.

torch calls its global hooks from a wrapper around each optimizer class's `step`. The first versions with torch.compile
remove that wrapper from their own classes, once per process, when something is compiled, and no hook is called any
more. Such a class is "deaf", and gets a wrapper of ours while anything observes.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stepscope.record.after_import import AfterImport
from stepscope.record.compiling import compiling_check
from stepscope.record.targets.patches import Patch

StepHook = Callable[[Any, Any, Any], None]

_COMPILER = "torch._dynamo.eval_frame"

_listening: list[OptimizerSteps] = []
_layers: dict[type, tuple[Any, Any]] = {}
"""For each deaf class its original `step` and ours."""


class OptimizerSteps:
    """Calls back before and after every optimizer's step, from `install` until `remove`.

    Args:
        before: called with the optimizer, its arguments and its keyword arguments; must not raise.
        after: the same, after the step.
    """

    def __init__(self, before: StepHook, after: StepHook | None = None) -> None:
        self._before = before
        self._after = after
        self._handles: list[Any] = []
        self._compiler: AfterImport | None = None
        self._patcher: Patch | None = None

    def install(self) -> None:
        """Starts observing."""
        from torch.optim import optimizer

        self._handles = [optimizer.register_optimizer_step_pre_hook(self._before)]
        if self._after is not None:
            self._handles.append(optimizer.register_optimizer_step_post_hook(self._after))
        _listening.append(self)
        if _may_go_deaf():
            self._compiler = AfterImport(_COMPILER, self._know_compiler)
            self._compiler.install()

    def remove(self) -> None:
        """Stops observing."""
        if self._compiler is not None:
            self._compiler.remove()
        if self._patcher is not None:
            self._patcher.remove()
        self._compiler = self._patcher = None
        for handle in self._handles:
            handle.remove()
        self._handles = []
        if self in _listening:
            _listening.remove(self)
        if not _listening:
            _take_out()

    def _know_compiler(self) -> None:
        # torch's compiler is imported: checks whether it makes optimizers deaf, and has done so.
        with contextlib.suppress(Exception):
            patcher = getattr(sys.modules.get(_COMPILER), "TorchPatcher", None)
            function = getattr(patcher, "patch", None)
            code = getattr(getattr(function, "__wrapped__", function), "__code__", None)
            if code is not None and "hooked" in code.co_consts:
                _put_in()
                self._patcher = Patch(patcher, "patch", _then_put_in)
                self._patcher.install()


@functools.cache
def _may_go_deaf() -> bool:
    """Whether this torch's compiler could remove hooks from optimizers.

    Determined from its source, because importing the compiler would take seconds, and waiting for the job's import
    would cost every armed iteration.
    """
    import torch

    source = Path(torch.__file__).parent.joinpath(*_COMPILER.split(".")[1:]).with_suffix(".py")
    try:
        return "hooked" in source.read_text(encoding="utf-8")
    except OSError:
        return True


def _then_put_in(original: Callable[[], None]) -> Callable[[], None]:
    @functools.wraps(original)
    def patch() -> None:
        original()
        with contextlib.suppress(Exception):
            _put_in()

    return patch


def _put_in() -> None:
    import torch

    for one in vars(torch.optim).values():
        if isinstance(one, type) and issubclass(one, torch.optim.Optimizer):
            if one not in _layers and _is_deaf(one):
                before = vars(one)["step"]
                _layers[one] = before, _listening_step(before)
            before, ours = _layers.get(one, (None, None))
            if ours is not None and vars(one).get("step") is before:
                setattr(one, "step", ours)  # noqa: B010 - mypy: a method


def _take_out() -> None:
    # The layers are kept: a scheduler may hold one, and must find the same one again.
    for owner, (before, ours) in _layers.items():
        if vars(owner).get("step") is ours:
            setattr(owner, "step", before)  # noqa: B010


def _is_deaf(owner: type) -> bool:
    """Whether torch calls no hooks for a class, and never will: it marks those that it has wrapped."""
    step = vars(owner).get("step")
    asks = getattr(getattr(step, "__code__", None), "co_names", ())
    marked = bool(getattr(step, "hooked", False))
    return marked and "_global_optimizer_pre_hooks" not in asks


def _listening_step(original: Callable[..., Any]) -> Callable[..., Any]:
    is_compiling = compiling_check()

    @functools.wraps(original)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        # A subclass with its own step that calls this one is not deaf.
        if is_compiling() or not _listening or getattr(type(self), "step", None) is not step:
            return original(self, *args, **kwargs)
        listening = list(_listening)
        for one in listening:
            one._before(self, args, kwargs)
        result = original(self, *args, **kwargs)
        for one in listening:
            if one._after is not None:
                one._after(self, args, kwargs)
        return result

    return step
