"""Module paths in a trace: a range `nn.Module: layers.0.attn` around every module's forward.

The profiler itself writes `nn.Module: Linear_3`, and only with stacks. Ranges cost some
microseconds per module, in the recorded steps only.
"""

from __future__ import annotations

from typing import Any

from stepscope.record.targets.find import module_paths
from stepscope.record.trouble import Guard


class ModuleRanges:
    """Ranges around the forwards of a model's modules.

    Args:
        model: the outermost module. What torch.compile has merged into one gets one range.
    """

    def __init__(self, model: Any) -> None:
        self._modules = {
            path: found.module
            for path, found in module_paths(model).items()
            if found.compiled_by is None
        }
        self._handles: list[Any] = []
        self._open: list[Any] = []

    def classes(self) -> dict[str, str]:
        """Path to class name."""
        return {path: type(module).__qualname__ for path, module in self._modules.items()}

    def install(self, guard: Guard) -> None:
        """Hooks every module."""
        from torch.profiler import record_function

        for path, module in self._modules.items():
            if getattr(module, "_compiled_call_impl", None) is not None:
                continue
            self._hook(
                module, f"nn.Module: {path or type(module).__name__}", record_function, guard
            )

    def _hook(self, module: Any, name: str, record_function: Any, guard: Guard) -> None:
        def begins(_module: Any, _args: Any) -> None:
            opened = record_function(name)
            opened.__enter__()
            self._open.append((module, opened))

        def ends(_module: Any, _args: Any, _output: Any) -> None:
            # A forward that raised left its inner ranges open; they end with the outer one.
            while self._open:
                owner, opened = self._open.pop()
                opened.__exit__(None, None, None)
                if owner is module:
                    return

        self._handles += [
            module.register_forward_pre_hook(guard.wrap(begins), prepend=True),
            module.register_forward_hook(guard.wrap(ends), always_call=True),
        ]

    def remove(self) -> None:
        """Takes the hooks out and ends ranges that an exception left open."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        while self._open:
            self._open.pop()[1].__exit__(None, None, None)
