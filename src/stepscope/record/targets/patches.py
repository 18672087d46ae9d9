"""An attribute replaced for a while, and put back exactly as it was.

Only attributes of single objects and modules are replaced. A class such as `torch.Tensor` is changed
once per recording at most, never per iteration: CPython stops caching a type's attributes after it
has been changed a thousand times, which would slow the job.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

from stepscope.record.compiling import compiling_check
from stepscope.record.targets import Target
from stepscope.record.targets.watch import Watch
from stepscope.record.trouble import Guard

_ABSENT = object()


class Patch:
    """Replaces `owner.name` by `make(original)`.

    Args:
        owner: an object or module with a `__dict__`; it is not kept alive.
        name: the attribute.
        make: gives the replacement for the original.
    """

    def __init__(
        self, owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]
    ) -> None:
        self._owner = _held(owner)
        self._name = name
        self._make = make
        self._before: Any = _ABSENT
        self._replacement: Any = None

    def install(self) -> None:
        """Puts the replacement in."""
        owner = self._owner()
        if self._replacement is not None or owner is None:
            return
        self._before = vars(owner).get(self._name, _ABSENT)
        self._replacement = self._make(getattr(owner, self._name))
        _set(owner, self._name, self._replacement)

    def remove(self) -> None:
        """Puts the original back, unless somebody has replaced ours since: then it is theirs."""
        if self._replacement is None:
            return
        owner = self._owner()
        if owner is not None and vars(owner).get(self._name) is self._replacement:
            if self._before is _ABSENT:
                _unset(owner, self._name)
            else:
                _set(owner, self._name, self._before)
        self._replacement = None
        self._before = _ABSENT


def _held(owner: Any) -> Callable[[], Any]:
    """Gives an object that it does not keep alive, if the object's type allows for that."""
    try:
        return weakref.ref(owner)
    except TypeError:
        return lambda: owner


def _set(owner: Any, name: str, value: Any) -> None:
    # Past the object's own __setattr__: torch.nn.Module's would look for parameters.
    if isinstance(owner, type):
        setattr(owner, name, value)
    else:
        vars(owner)[name] = value


def _unset(owner: Any, name: str) -> None:
    if isinstance(owner, type):
        delattr(owner, name)
    else:
        del vars(owner)[name]


class _Method:
    """A replaced method of one object; in a copy of the object it is the copy's own method."""

    def __init__(self, call: Callable[..., Any], owner: Any, name: str) -> None:
        functools.update_wrapper(self, call)
        self._call = call
        self._owner = owner
        self._name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(*args, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return getattr(memo.get(id(self._owner), self._owner), self._name)

    def __reduce__(self) -> tuple[Any, tuple[Any, str]]:
        return getattr, (self._owner, self._name)


class Calls(Target):
    """The calls of functions that are attributes of something, all under one label.

    Args:
        label: what the watch gets.
        places: (owner, attribute) pairs; all of them count.
        finished: whether a call that returned this value is over (an asynchronous one is not).
    """

    def __init__(
        self,
        label: str,
        places: list[tuple[Any, str]],
        finished: Callable[[Any], bool] = lambda _: True,
    ) -> None:
        self._label = label
        self._finished = finished
        self._watch: Watch | None = None
        self._guard: Guard | None = None
        self._patches = [Patch(owner, name, self._maker(owner, name)) for owner, name in places]

    def install(self, watch: Watch, guard: Guard) -> None:
        """Replaces the functions."""
        self._watch, self._guard = watch, guard
        for patch in self._patches:
            patch.install()

    def remove(self) -> None:
        """Puts them back; a call that is still running ends unobserved."""
        self._watch = None
        for patch in self._patches:
            patch.remove()

    def _maker(self, owner: Any, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        if isinstance(owner, ModuleType):
            return self._listening
        held = _held(owner)
        return lambda original: _Method(self._listening(original), held(), name)

    def _listening(self, original: Callable[..., Any]) -> Callable[..., Any]:
        is_compiling = compiling_check()

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            # Asked first: compiled code that looked at ours would be compiled again for each change.
            if is_compiling():
                return original(*args, **kwargs)
            watch, guard = self._watch, self._guard
            if watch is None or guard is None or watch.resting:
                return original(*args, **kwargs)
            token = guard.ask(watch.open, self._label)
            result = None
            try:
                result = original(*args, **kwargs)
            finally:
                # Also when it raises and the job goes on: a phase must not stay open.
                if token is not None and self._watch is watch and self._finished(result):
                    guard.ask(watch.close, token)
            return result

        return call
