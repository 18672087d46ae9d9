"""A module's forward, by hooks on that one module.

A module inside a compiled one has no call of its own any more; the compiled module is measured at
its boundary, from outside the compiled code, so that nothing is compiled anew.
"""

from __future__ import annotations

from typing import Any

from stepscope.record.targets.patches import Calls
from stepscope.record.trouble import Guard
from stepscope.record.watch import Watch


class ModuleForward:
    """The calls of one module.

    Args:
        module: the module.
        label: what the watch is told.
    """

    def __init__(self, module: Any, label: str) -> None:
        self._module = module
        self._label = label
        self._handles: list[Any] = []
        self._open: list[Any] = []
        self._compiled: Calls | None = None

    def install(self, watch: Watch, guard: Guard) -> None:
        """Hooks the module, outside the job's own hooks: they are part of its forward."""
        self._open.clear()
        if getattr(self._module, "_compiled_call_impl", None) is not None:
            # `module.compile()` has compiled hooks and all; listen around it.
            self._compiled = Calls(self._label, [(self._module, "_compiled_call_impl")])
            self._compiled.install(watch, guard)
            return

        def begins(_module: Any, _args: Any) -> None:
            self._open.append(watch.open(self._label))

        def ends(_module: Any, _args: Any, _output: Any) -> None:
            if self._open:
                watch.close(self._open.pop())

        register = self._module.register_forward_pre_hook
        self._handles = [
            register(guard.wrap(begins), prepend=True),
            self._module.register_forward_hook(guard.wrap(ends)),
        ]

    def forget_module(self) -> None:
        """Lets the job free the module while the hooks stay; it cannot be installed again."""
        if self._compiled is None:
            self._module = None

    def remove(self) -> None:
        """Takes the hooks out."""
        if self._compiled is not None:
            self._compiled.remove()
            self._compiled = None
        for handle in self._handles:
            handle.remove()
        self._handles = []


def tensors_in(value: Any, depth: int = 4) -> list[Any]:
    """The tensors in nested tuples, lists and dicts, as modules take and return them."""
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return [value] if hasattr(value, "grad_fn") else []
    if depth == 0:
        return []
    return [tensor for item in value for tensor in tensors_in(item, depth - 1)]


def is_compiled(module: Any) -> bool:
    """Whether torch.compile has made the module, or its call, one piece of code."""
    return (
        type(module).__name__ == "OptimizedModule"
        or getattr(module, "_compiled_call_impl", None) is not None
    )
