"""Observes a module's forward: the calls of that module, from outside.

A module inside a compiled one is no longer called; the compiled module is measured at its boundary, outside the
compiled code, so that nothing is recompiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepscope.record.targets.around import AroundCalls


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
