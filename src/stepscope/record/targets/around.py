"""What happens around the calls of one module, in a place that no copy of the module takes along.

A hook in `module._forward_hooks`, or a `forward` put into the module, is copied and pickled with it:
`torch.save(model)` would raise, and the copy that a job keeps as its average would go on calling us,
or even the original's `forward`. torch has a place for what replaces a module's call
(`_compiled_call_impl`, which `module.compile()` fills) and leaves it out of copies and files.
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
"""Gets the call itself and the module's arguments, and returns what the call returns."""


class _Call:
    """A module's call and what is around it; copied and pickled it is None: an empty place."""

    def __init__(self, module: Any, before: Callable[..., Any] | None) -> None:
        # Not the module itself: it would hold on to itself, and be freed late.
        self.module = weakref.ref(module)
        self.before = before
        self.wrappers: tuple[Wrapper, ...] = ()
        self.is_compiling = compiling_check()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        module: Any = self.module()
        call = self.before
        if self.is_compiling():
            return (module._call_impl if call is None else call)(*args, **kwargs)
        # Copies that are made attribute by attribute, as DataParallel's replicas, have this place
        # too, and must be called themselves.
        called: Any = sys._getframe(1).f_locals.get("self")
        if called is not module and getattr(called, _PLACE, None) is self:
            call = called._call_impl
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

    Args:
        module: the module; it is not kept alive.
        wrapper: has to call `call(*args, **kwargs)` once, and to return or raise what that does.
    """

    def __init__(self, module: Any, wrapper: Wrapper) -> None:
        self._module = weakref.ref(module)
        self._wrapper = wrapper
        self._call: _Call | None = None

    def install(self) -> None:
        """Puts the wrapper around the module's calls, outside those that are there."""
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
        """Takes it out; the place is as it was before when no other is left."""
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
    """Listens around the calls of one module.

    Args:
        module: the module; it is not kept alive.
    """

    def __init__(self, module: Any) -> None:
        self._watch: Watch | None = None
        self._guard: Guard | None = None
        self._around = Around(module, self._call)

    def install(self, watch: Watch, guard: Guard) -> None:
        """Listens around the module's calls."""
        self._watch, self._guard = watch, guard
        self._around.install()

    def remove(self) -> None:
        """Listens no more; a call that is still running ends unobserved."""
        self._watch = self._guard = None
        self._around.remove()

    @abstractmethod
    def _call(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Calls `call` and returns or raises what it does."""


def is_compiled(module: Any) -> bool:
    """Whether torch.compile has made the module, or its call, one piece of code."""
    call = getattr(module, _PLACE, None)
    if isinstance(call, _Call):
        call = call.before
    return type(module).__name__ == "OptimizedModule" or call is not None
