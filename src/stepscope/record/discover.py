"""Finding the model and the optimizers of a job that did not name them: one watched iteration.

The outermost modules called are the model and its losses. Hooks on all modules at once slow a model
down, so they stay for a single iteration of the warm-up.
"""

from __future__ import annotations

import threading
import warnings
from typing import Any

from stepscope.record.trouble import Guard

_COMPILE_WARNING = "Using `torch.compile"


class Discovery:
    """Listens to all modules and optimizers of the process until `remove`.

    After that `roots` are the outermost modules in the order of their first call, and `optimizers`
    those that stepped.

    Args:
        modules: whether modules are looked for; optimizers always are.
    """

    def __init__(self, *, modules: bool = True) -> None:
        self.modules = modules
        self.roots: list[Any] = []
        self.optimizers: list[Any] = []
        self._handles: list[Any] = []
        self._depth = 0
        self._thread = threading.get_ident()
        self._filter: Any = None

    @property
    def model(self) -> Any:
        """The root with the most parameters; None when no module was called."""
        if not self.roots:
            return None
        return max(self.roots, key=lambda root: sum(one.numel() for one in root.parameters()))

    def install(self, guard: Guard) -> None:
        """Begins to listen."""
        from torch.nn.modules import module
        from torch.optim import optimizer

        self._depth = 0
        self._handles = [
            optimizer.register_optimizer_step_pre_hook(guard.wrap(self._steps)),
        ]
        if not self.modules:
            return
        # torch warns of global hooks beside compiled modules; these are gone after an iteration.
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=_COMPILE_WARNING)
            self._filter = warnings.filters[0]
        warnings.filters.insert(0, self._filter)  # type: ignore[attr-defined] # a list at run time
        self._handles += [
            module.register_module_forward_pre_hook(guard.wrap(self._begins)),
            module.register_module_forward_hook(guard.wrap(self._ends), always_call=True),
        ]

    def remove(self) -> None:
        """Stops listening."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        if self._filter in warnings.filters:
            warnings.filters.remove(self._filter)  # type: ignore[attr-defined]

    def _begins(self, module: Any, _args: Any) -> None:
        if threading.get_ident() != self._thread:
            return
        self._depth += 1
        if self._depth == 1 and not any(module is root for root in self.roots):
            self.roots.append(module)

    def _ends(self, _module: Any, _args: Any, _output: Any) -> None:
        if threading.get_ident() == self._thread and self._depth:
            self._depth -= 1

    def _steps(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if not any(optimizer is known for known in self.optimizers):
            self.optimizers.append(optimizer)
