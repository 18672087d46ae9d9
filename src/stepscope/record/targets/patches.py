"""An attribute replaced for a while, and put back exactly as it was.

Only attributes of single objects and modules are replaced. A class such as `torch.Tensor` is changed
once per recording at most, never per iteration: CPython stops caching a type's attributes after it
has been changed a thousand times, which would slow the whole job.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from stepscope.record.compiling import compiling_check
from stepscope.record.trouble import Guard
from stepscope.record.watch import Watch

_ABSENT = object()


class Patch:
    """Replaces `owner.name` by `make(original)`.

    Args:
        owner: an object or module with a `__dict__`.
        name: the attribute.
        make: gives the replacement for the original.
    """

    def __init__(
        self, owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]
    ) -> None:
        self._owner = owner
        self._name = name
        self._make = make
        self._before: Any = _ABSENT
        self._replacement: Any = None

    def install(self) -> None:
        """Puts the replacement in."""
        if self._replacement is not None:
            return
        self._before = vars(self._owner).get(self._name, _ABSENT)
        self._replacement = self._make(getattr(self._owner, self._name))
        _set(self._owner, self._name, self._replacement)

    def remove(self) -> None:
        """Puts the original back, unless somebody has replaced ours since: then it is theirs."""
        if self._replacement is None:
            return
        if vars(self._owner).get(self._name) is self._replacement:
            if self._before is _ABSENT:
                _unset(self._owner, self._name)
            else:
                _set(self._owner, self._name, self._before)
        self._replacement = None
        self._before = _ABSENT


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


class Calls:
    """The calls of functions that are attributes of something, heard under one label.

    Args:
        label: what the watch is told.
        places: (owner, attribute) pairs; all of them are heard.
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
        self._patches = [Patch(owner, name, self._heard) for owner, name in places]

    def install(self, watch: Watch, guard: Guard) -> None:
        """Replaces the functions."""
        self._watch, self._guard = watch, guard
        for patch in self._patches:
            patch.install()

    def remove(self) -> None:
        """Puts them back; a call that is still running ends unheard."""
        self._watch = None
        for patch in self._patches:
            patch.remove()

    def _heard(self, original: Callable[..., Any]) -> Callable[..., Any]:
        is_compiling = compiling_check()

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            if is_compiling():
                return original(*args, **kwargs)
            token = self._open()
            result = original(*args, **kwargs)
            if token is not None:
                self._close(token, result)
            return result

        return call

    def _open(self) -> Any:
        watch, guard = self._watch, self._guard
        if watch is None or guard is None or guard.tripped:
            return None
        try:
            return watch.open(self._label)
        except Exception as error:
            guard.trip(error)
            return None

    def _close(self, token: Any, result: Any) -> None:
        watch, guard = self._watch, self._guard
        if watch is None or guard is None:
            return
        try:
            if self._finished(result):
                watch.close(token)
        except Exception as error:
            guard.trip(error)
