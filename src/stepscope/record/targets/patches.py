"""Replaces an attribute temporarily, and restores it exactly.

Per iteration, only attributes of single objects and modules are replaced. A class such as `torch.Tensor` is changed
once per recording: CPython stops caching a type's attributes after a thousand changes, which would slow the job.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from stepscope.record.compiling import apart, compiling_check, run_as_it_is
from stepscope.record.targets import Target
from stepscope.record.targets.watch import Watch
from stepscope.record.trouble import Guard

_ABSENT = object()


Make = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Makes the replacement for an original."""


class Patch:
    """Replaces `owner.name` by `make(original)`; the owner has a `__dict__` and is not kept alive."""

    def __init__(self, owner: Any, name: str, make: Make) -> None:
        self._owner = _weak(owner)
        self._name = name
        self._make = make
        self._before: Any = _ABSENT
        self._replacement: Any = None

    def install(self) -> None:
        owner = self._owner()
        if self._replacement is not None or owner is None:
            return
        self._before = vars(owner).get(self._name, _ABSENT)
        self._replacement = self._make(getattr(owner, self._name))
        _set(owner, self._name, self._replacement)

    def remove(self) -> None:
        """Restores the original, unless somebody has replaced ours since; then it stays."""
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


class Patches:
    """Attributes that are replaced in order, and restored in reverse order."""

    def __init__(self) -> None:
        self._installed: list[Patch] = []

    def install(self, owner: Any, makes: Mapping[str, Make]) -> None:
        for name, make in makes.items():
            if hasattr(owner, name):
                patch = Patch(owner, name, make)
                patch.install()
                self._installed.append(patch)

    def remove(self) -> None:
        while self._installed:
            self._installed.pop().remove()


def _weak(owner: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(owner)
    except TypeError:
        return lambda: owner


def _set(owner: Any, name: str, value: Any) -> None:
    # Bypasses the object's own __setattr__, because torch.nn.Module's would look for parameters.
    if isinstance(owner, type):
        setattr(owner, name, value)
    else:
        vars(owner)[name] = value


def _unset(owner: Any, name: str) -> None:
    if isinstance(owner, type):
        delattr(owner, name)
    else:
        del vars(owner)[name]


class Calls(Target):
    """The calls of functions of modules, and of methods of objects, all under one label.

    A method is replaced in its class until `close`, because an attribute of the object would be copied and saved with
    it. `finished` decides whether a call that returned a value has ended; an asynchronous one has not.
    """

    def __init__(
        self, label: str, places: list[tuple[Any, str]], finished: Callable[[Any], bool] = lambda _: True
    ) -> None:
        self._label = label
        self._finished = finished
        self._watch: Watch | None = None
        self._guard: Guard | None = None
        classes = [_class_with(*place) for place in places]
        functions = [place for place, class_ in zip(places, classes, strict=True) if class_ is None]
        methods = {(class_, name) for (_, name), class_ in zip(places, classes, strict=True) if class_}
        self._owners = [_weak(owner) for (owner, _), class_ in zip(places, classes, strict=True) if class_]
        self._functions = [Patch(*place, self._listening) for place in functions]
        self._methods = [Patch(*place, self._listening) for place in methods]

    def install(self, watch: Watch, guard: Guard) -> None:
        self._watch, self._guard = watch, guard
        for patch in (*self._functions, *self._methods):
            patch.install()

    def remove(self) -> None:
        self._watch = None
        for patch in self._functions:
            patch.remove()

    def close(self) -> None:
        self.remove()
        for patch in self._methods:
            patch.remove()

    def _is_one(self, args: tuple[Any, ...]) -> bool:
        return not self._owners or any(args[0] is owner() for owner in self._owners)

    def _open(self, args: tuple[Any, ...]) -> Any:
        watch, guard = self._watch, self._guard
        if watch is None or guard is None or watch.resting or not self._is_one(args):
            return None
        token = guard.ask(watch.open, self._label)
        return None if token is None else (watch, guard, token)

    def _close(self, opened: tuple[Watch, Guard, Any], result: Any) -> None:
        watch, guard, token = opened
        if self._watch is watch and self._finished(result):
            guard.ask(watch.close, token)

    def _listening(self, original: Callable[..., Any]) -> Callable[..., Any]:
        is_compiling = compiling_check()
        open_, close = apart(self._open), apart(self._close)

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            # Asked first, because compiled code that looked at our state would be recompiled for each change.
            if is_compiling() or self._watch is None:
                return original(*args, **kwargs)
            opened = open_(args)
            result = None
            try:
                result = original(*args, **kwargs)
            finally:
                # Even if it raises and the job continues: a phase must not stay open.
                if opened is not None:
                    close(opened, result)
            return result

        run_as_it_is(call)
        return call


def _class_with(owner: Any, name: str) -> type | None:
    """The class that has the method; None for a function of the owner itself."""
    return next((class_ for class_ in type(owner).__mro__ if name in vars(class_)), None)
