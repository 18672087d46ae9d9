"""Observes operators inside one module with a dispatch mode that is active while the module runs.

The mode sees operators below autograd (`aten::addmm` instead of `aten::linear`, which is composed of others). It costs
some microseconds of host time per operator of the module, in the armed iteration only.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from stepscope.record.targets.around import AroundCalls
from stepscope.record.targets.backward import NodeHooks
from stepscope.record.targets.graph import Nodes
from stepscope.record.targets.watch import Watch
from stepscope.record.trouble import Guard


@functools.cache
def _mode_class() -> Any:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Operators(TorchDispatchMode):  # type: ignore[misc] # torch's types are not checked here
        """Reports operators to the watch, and runs them unchanged."""

        def __init__(self, watch: Watch, guard: Guard, prefix: str, only: str | None) -> None:
            super().__init__()
            self.watch, self.guard = watch, guard
            self.prefix, self.only = prefix, only

        @classmethod
        def ignore_compile_internals(cls) -> bool:
            """Without this, torch compiles nothing while the mode is on, and raises with fullgraph=True."""
            return True

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name = func._schema.name
            token = None
            if self.only is None or name == self.only:
                token = self.guard.ask(self.watch.open, f"{self.prefix}.{name}")
            result = func(*args, **(kwargs or {}))
            if token is not None:
                self.guard.ask(self.watch.close, token)
            return result

    return Operators


def compiles_under_modes() -> bool:
    """Whether this torch runs compiled code unchanged while a mode is on; older versions do not."""
    from torch.utils._python_dispatch import TorchDispatchMode

    return hasattr(TorchDispatchMode, "ignore_compile_internals")


def _mode(watch: Watch, guard: Guard, prefix: str, only: str | None) -> Any:
    return _mode_class()(watch, guard, prefix, only)


def _innermost(mode: Any) -> Any:
    """The mode that was entered last.

    A node's hooks run in the same order before and after it, and a mode that is left out of order makes torch believe
    that it is still on: torch 2.6 then compiles nothing any more.
    """
    from torch.utils._python_dispatch import _get_current_dispatch_mode

    innermost = _get_current_dispatch_mode()
    return innermost if isinstance(innermost, _mode_class()) else mode


class OperatorsInForward(AroundCalls):
    """The operators of one module's forward called `wanted` (`aten::addmm`), or all, as `<prefix>.<operator>`."""

    def __init__(self, module: Any, prefix: str, only: str | None) -> None:
        super().__init__(module)
        self._prefix = prefix
        self._only = only

    def _call(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        watch, guard = self._watch, self._guard
        if watch is None or guard is None or watch.resting:
            return call(*args, **kwargs)
        mode = guard.ask(_mode, watch, guard, self._prefix, self._only)
        if mode is None:
            return call(*args, **kwargs)
        # A statement instead of two hooks, so that the mode is left whatever happens inside.
        with mode:
            return call(*args, **kwargs)


class OperatorsInBackward(NodeHooks):
    """The operators in the backward of one module called `wanted`, or all, as `<prefix>.<operator>`."""

    def __init__(self, module: Any, prefix: str, only: str | None) -> None:
        super().__init__(module)
        self._prefix = prefix
        self._only = only
        self._active = 0

    def reset(self) -> None:
        if not self._active:
            super().reset()

    def _hook(self, nodes: Nodes) -> None:
        watch, guard = self._watch, self._guard
        if watch is None or guard is None:
            return
        mode = _mode(watch, guard, self._prefix, self._only)
        for node in nodes.all:
            self._hook_one(node, mode)

    def _hook_one(self, node: Any, mode: Any) -> None:
        # The engine gives every node the forward's stack of modes and removes it afterwards, so the mode must be
        # entered and left around each node.
        entered: list[bool] = []

        def enters(_gradients: Any) -> None:
            guard = self._guard
            if self._watch is None or guard is None or guard.tripped:
                return
            try:
                mode.__enter__()
            except Exception as error:
                guard.trip(error)
                return
            entered.append(True)
            self._active += 1

        def leaves(_inputs: Any, _outputs: Any) -> None:
            if entered:
                entered.pop()
                self._active -= 1
                _innermost(mode).__exit__(None, None, None)
                if self._watch is None:
                    self.remove()

        self._handles.append(node.register_prehook(enters))
        self._handles.append(node.register_hook(leaves))
