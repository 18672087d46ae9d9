"""Observes the steps of every optimizer, even in versions of torch that remove their own hooks from them.

torch calls its global hooks from a wrapper around each optimizer class's `step`. Torch 2.1 removes that wrapper from
its own classes when something is compiled, and no hook is called any more. Such a class is "deaf", and gets a wrapper
of ours while anything observes.

A compiled step contains the installed hooks, and is recompiled when these change. So torch has one pair of our hooks
for all observers; compiled, it does nothing, and it stays where steps seem to be compiled.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stepscope.record.after_import import AfterImport
from stepscope.record.compiling import apart, compiling_check, has_compiled, run_as_it_is
from stepscope.record.targets.patches import Patch

StepHook = Callable[[Any, Any, Any], None]

_COMPILER = "torch._dynamo.eval_frame"

_listening: list[OptimizerSteps] = []
_hooks: dict[str, Any] = {}  # the handles of our hooks in torch, `before` and `after`, while they are installed
_has_heard = False  # whether a step was observed since the last query
_layers: dict[type, tuple[Any, Any]] = {}  # for each deaf class its original `step` and ours


class OptimizerSteps:
    """Calls back before and after every optimizer's step, from `install` until `remove`.

    Both get the optimizer, its arguments and its keyword arguments, and must not raise.
    """

    def __init__(self, before: StepHook, after: StepHook | None = None) -> None:
        self._before = before
        self._after = after
        self._compiler: AfterImport | None = None
        self._patcher: Patch | None = None

    def install(self) -> None:
        _listening.append(self)
        put_hooks_in()
        if _may_go_deaf():
            self._compiler = AfterImport(_COMPILER, self._know_compiler)
            self._compiler.install()

    def remove(self) -> None:
        if self._compiler is not None:
            self._compiler.remove()
        if self._patcher is not None:
            self._patcher.remove()
        self._compiler = self._patcher = None
        if self in _listening:
            _listening.remove(self)
        take_hooks_out()
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


def put_hooks_in() -> None:
    """Installs missing hooks in torch; both before a first step, because it may be compiled."""
    from torch.optim import optimizer

    if "before" not in _hooks:
        _hooks["before"] = optimizer.register_optimizer_step_pre_hook(_hook(_call_before))
    if "after" not in _hooks and (not _has_heard or any(steps._after for steps in _listening)):
        _hooks["after"] = optimizer.register_optimizer_step_post_hook(_hook(_call_after))


def take_hooks_out() -> None:
    """Removes hooks without observers, unless a step would then be recompiled."""
    global _has_heard
    heard, _has_heard = _has_heard, False
    if not heard and _is_compiled():
        return
    if not any(steps._after for steps in _listening):
        _take_hook_out("after")
    if not _listening:
        _take_hook_out("before")


def _take_hook_out(when: str) -> None:
    handle = _hooks.pop(when, None)
    if handle is not None:
        handle.remove()


def _hook(call: StepHook) -> StepHook:
    is_compiling, call = compiling_check(), apart(call)

    def hook(optimizer: Any, args: Any, kwargs: Any) -> None:
        if not is_compiling():
            call(optimizer, args, kwargs)

    run_as_it_is(hook)
    return hook


def _call_before(optimizer: Any, args: Any, kwargs: Any) -> None:
    global _has_heard
    _has_heard = True
    for steps in tuple(_listening):
        steps._before(optimizer, args, kwargs)


def _call_after(optimizer: Any, args: Any, kwargs: Any) -> None:
    for steps in tuple(_listening):
        if steps._after is not None:
            steps._after(optimizer, args, kwargs)


def why_unheard() -> str:
    """Why no step can be observed, in words; empty if one may be, or if nothing is known."""
    if not _was_made():
        return "there is no optimizer of torch's"
    return "the optimizer steps in compiled code, where nothing is observed" if _is_compiled() else ""


def _was_made() -> bool:
    """Whether there was any optimizer: torch marks their classes."""
    from torch.optim import Optimizer

    return any(getattr(optimizer.step, "hooked", False) for optimizer in _below(Optimizer))


def _below(base: Any) -> list[Any]:
    classes: list[Any] = base.__subclasses__()
    return [*classes, *(deeper for below in classes for deeper in _below(below))]


def _is_compiled() -> bool:
    """Whether an optimizer's step is known to have been compiled; asked if no step was observed."""
    return has_compiled() and _was_made() and any(map(_knows_an_optimizer, list(sys.modules.values())))


def _knows_an_optimizer(module: Any) -> bool:
    """Whether torch's compiler has put an optimizer into a module, for compiled code of it."""
    names = getattr(module, "__dict__", {})
    return any(isinstance(name, str) and name.startswith("__optimizer_") for name in list(names))


@functools.cache
def _may_go_deaf() -> bool:
    """Whether this torch's compiler could remove hooks from optimizers, by its source: importing it takes seconds."""
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

    for optimizer in vars(torch.optim).values():
        if isinstance(optimizer, type) and issubclass(optimizer, torch.optim.Optimizer):
            if optimizer not in _layers and _is_deaf(optimizer):
                before = vars(optimizer)["step"]
                _layers[optimizer] = before, _listening_step(before)
            before, ours = _layers.get(optimizer, (None, None))
            if ours is not None and vars(optimizer).get("step") is before:
                setattr(optimizer, "step", ours)  # noqa: B010 - mypy: a method


def _take_out() -> None:
    # The layers stay: a scheduler may hold one, and must find the same one again.
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
        _call_before(self, args, kwargs)
        result = original(self, *args, **kwargs)
        _call_after(self, args, kwargs)
        return result

    return step
