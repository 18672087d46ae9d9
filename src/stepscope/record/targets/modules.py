"""A module's forward: the calls of that one module, from outside.

A module inside a compiled one has no call of its own any more; the compiled module is measured at
its boundary, from outside the compiled code, so that nothing is compiled again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from typing import Any

from stepscope.record.targets.around import AroundCalls


class ModuleForward(AroundCalls):
    """The calls of one module, its hooks among them: they are part of its forward.

    Args:
        module: the module; it is not kept alive.
        label: what the watch gets.
    """

    def __init__(self, module: Any, label: str) -> None:
        super().__init__(module)
        self._label = label

    def _call(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        watch, guard = self._watch, self._guard
        if watch is None or guard is None:
            return call(*args, **kwargs)
        token = guard.ask(watch.open, self._label)
        try:
            return call(*args, **kwargs)
        finally:
            # Also when it raises: checkpointing ends what it computes again by an exception.
            if token is not None and self._watch is watch:
                guard.ask(watch.close, token)


def tensors_in(value: Any, depth: int = 4) -> list[Any]:
    """The tensors in what modules take and return: nested tuples, lists, dicts and plain objects.

    >>> tensors_in({"a": [1, None]})
    []
    """
    if hasattr(value, "grad_fn"):
        return [value]
    if depth == 0:
        return []
    return [tensor for item in _inside(value) for tensor in tensors_in(item, depth - 1)]


def _inside(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, list | tuple | AbstractSet):
        yield from value
    elif is_dataclass(value) and not isinstance(value, type):
        yield from (getattr(value, field.name, None) for field in fields(value))
    elif not isinstance(value, type) and not hasattr(value, "named_parameters"):
        yield from getattr(value, "__dict__", {}).values()
