"""Wraps the calls of one module, in a place that copies of the module do not inherit.

A hook in `module._forward_hooks`, or a `forward` set on the module, is copied and pickled with it: `torch.save(model)`
would raise, and a copy would call us. torch leaves `_compiled_call_impl`, which replaces a module's call, out of copies
and files.
"""

from __future__ import annotations

import functools
import sys
import weakref
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from stepscope.record.compiling import compiling_check
from stepscope.record.targets import Target
from stepscope.record.targets.watch import Watch
from stepscope.record.trouble import Guard

_PLACE = "_compiled_call_impl"

Wrapper = Callable[..., Any]
"""Gets the original call and the module's arguments, and returns what the call returns."""


class _Call:
    """A module's call and its wrappers; when copied or pickled it becomes None."""

    def __init__(self, module: Any, before: Callable[..., Any] | None) -> None:
        # Not the module itself, which would then refer to itself, and be freed late.
        self.module = weakref.ref(module)
        self.before = before
        self.wrappers: tuple[Wrapper, ...] = ()
        self.is_compiling = compiling_check()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        module: Any = self.module()
        call = self.before
        if self.is_compiling():
            return (module._call_impl if call is None else call)(*args, **kwargs)
        # Copies made attribute by attribute, such as DataParallel's replicas, inherit this attribute, but must be
        # called themselves.
        caller: Any = sys._getframe(1).f_locals.get("self")
        if caller is not module and getattr(caller, _PLACE, None) is self:
            call = caller._call_impl
        elif call is None:
            call = module._call_impl
        for wrapper in self.wrappers:
            call = functools.partial(wrapper, call)
        return call(*args, **kwargs)

    def __deepcopy__(self, memo: Any) -> None:
        return None

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return type(None), ()


class Around:
    """Calls `wrapper(call, *args, **kwargs)` for every call of one module, outside its own hooks.

    The wrapper must call `call(*args, **kwargs)` once, and return or raise what that does.
    """

    def __init__(self, module: Any, wrapper: Wrapper) -> None:
        self._module = weakref.ref(module)
        self._wrapper = wrapper
        self._call: _Call | None = None

    def install(self) -> None:
        """Wraps the module's calls, outside of existing wrappers."""
        module = self._module()
        if module is None or self._call is not None:
            return
        call = vars(module).get(_PLACE)
        if not isinstance(call, _Call):
            call = _Call(module, call)
            vars(module)[_PLACE] = call
        call.wrappers = (*call.wrappers, self._wrapper)
        self._call = call

    def remove(self) -> None:
        """Removes the wrapper; after the last one, the attribute is as before."""
        call, self._call = self._call, None
        if call is None:
            return
        call.wrappers = tuple(other for other in call.wrappers if other is not self._wrapper)
        module = self._module()
        if call.wrappers or module is None or vars(module).get(_PLACE) is not call:
            return
        if call.before is None:
            del vars(module)[_PLACE]
        else:
            vars(module)[_PLACE] = call.before


class AroundCalls(Target):
    """Observes the calls of one module, without keeping it alive."""

    def __init__(self, module: Any) -> None:
        self._watch: Watch | None = None
        self._guard: Guard | None = None
        self._around = Around(module, self._call)

    def install(self, watch: Watch, guard: Guard) -> None:
        self._watch, self._guard = watch, guard
        self._around.install()

    def remove(self) -> None:
        self._watch = self._guard = None
        self._around.remove()

    @abstractmethod
    def _call(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Calls `call` and returns or raises what it does."""


def is_compiled(module: Any) -> bool:
    """Whether torch.compile has compiled the module, or its call, completely."""
    call = getattr(module, _PLACE, None)
    if isinstance(call, _Call):
        call = call.before
    return type(module).__name__ == "OptimizedModule" or call is not None


class ModuleForward(AroundCalls):
    """The calls of one module, including its hooks, which are part of its forward."""

    def __init__(self, module: Any, label: str) -> None:
        super().__init__(module)
        self._label = label

    def _call(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        watch, guard = self._watch, self._guard
        if watch is None or guard is None or watch.resting:
            return call(*args, **kwargs)
        token = guard.ask(watch.open, self._label)
        try:
            return call(*args, **kwargs)
        finally:
            # Even if it raises: checkpointing ends a recomputation by an exception.
            if token is not None and self._watch is watch:
                guard.ask(watch.close, token)
