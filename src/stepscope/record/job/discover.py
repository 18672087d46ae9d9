"""Finds the model and optimizers of a job that did not name them, by watching one iteration.

The outermost called modules are the model and its losses. Hooks on all modules slow a model down, so they stay for a
single iteration of the warm-up.
"""

from __future__ import annotations

import gc
import threading
import warnings
from collections.abc import Callable
from typing import Any

from stepscope.record.compiling import has_compiled
from stepscope.record.targets.backward import backward_number
from stepscope.record.targets.optimizers import OptimizerSteps
from stepscope.record.trouble import Guard

_NO_BACKWARD = -1
_COMPILE_WARNING = "Using `torch.compile"


class Discovery:
    """Observes all modules, unless `modules` is False, and optimizers of the process until `remove`.

    Afterwards `roots` are the outermost modules in the order of their first call, and `optimizers` those that stepped.
    """

    def __init__(self, *, modules: bool = True) -> None:
        self.modules = modules
        self.roots: list[Any] = []
        self.optimizers: list[Any] = []
        self._handles: list[Any] = []
        self._depth = 0
        self._thread = threading.get_ident()
        self._filter: Any = None
        self._without_hooks = False
        self._backward_number: Callable[[], int] = lambda: _NO_BACKWARD

    @property
    def model(self) -> Any:
        """The root with the most parameters; None when no module was called."""
        if not self.roots:
            return None
        return max(self.roots, key=lambda root: sum(parameter.numel() for parameter in root.parameters()))

    def install(self, guard: Guard) -> None:
        from torch.nn.modules import module

        self._depth = 0
        steps = OptimizerSteps(guard.wrap(self._steps))
        steps.install()
        self._handles = [steps]
        self._backward_number = backward_number()
        self._without_hooks = self.modules and _compiles_anew_for_hooks()
        if not self.modules or self._without_hooks:
            return
        # torch warns of global hooks on compiled modules; ours are removed after one iteration.
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=_COMPILE_WARNING)
            self._filter = warnings.filters[0]
        warnings.filters.insert(0, self._filter)  # type: ignore[attr-defined] # a list at run time
        self._handles += [
            module.register_module_forward_pre_hook(guard.wrap(self._enter)),
            module.register_module_forward_hook(guard.wrap(self._leave), always_call=True),
        ]

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []
        if self._filter in warnings.filters:
            warnings.filters.remove(self._filter)  # type: ignore[attr-defined]
        if self.modules and not any(_has_parameters(root) for root in self.roots):
            compiled_only = not self._without_hooks
            self.roots = [*_trained(self.optimizers, compiled_only=compiled_only), *self.roots]

    def _enter(self, module: Any, _args: Any) -> None:
        if threading.get_ident() != self._thread:
            return
        self._depth += 1
        # Modules that checkpointing recomputes within backward have no enclosing module.
        is_root = self._depth > 1 or any(module is root for root in self.roots)
        if not is_root and self._backward_number() == _NO_BACKWARD:
            self.roots.append(module)

    def _leave(self, _module: Any, _args: Any, _output: Any) -> None:
        if threading.get_ident() == self._thread and self._depth:
            self._depth -= 1

    def _steps(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if not any(optimizer is other for other in self.optimizers):
            self.optimizers.append(optimizer)


def _has_parameters(root: Any) -> bool:
    return next(root.parameters(), None) is not None


def _compiles_anew_for_hooks() -> bool:
    """Whether hooks on all modules would make torch compile again.

    torch before 2.8 treats them as a change of the model. In 2.1 code compiled with fullgraph=True then fails.
    """
    import torch

    if not has_compiled():
        return False
    return tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 8)


def _is_graph(module: Any) -> bool:
    """Whether a module is the compiler's graph of another module, with the same parameters."""
    from torch.fx import GraphModule

    return isinstance(getattr(module, "_orig_mod", module), GraphModule)


def _trained(optimizers: list[Any], *, compiled_only: bool) -> list[Any]:
    """Finds the outermost modules that these optimizers train, without observing calls.

    Args:
        compiled_only: only modules that `module.compile()` compiled completely: their calls run no hooks of ours.
    """
    from torch.nn import Module

    trained = {
        id(parameter) for optimizer in optimizers for group in optimizer.param_groups for parameter in group["params"]
    }
    if not trained:
        return []
    modules = [
        module
        for module in gc.get_objects()
        if issubclass(type(module), Module)
        and "_parameters" in vars(module)  # a module under construction has none yet
        and not _is_graph(module)
        and (not compiled_only or getattr(module, "_compiled_call_impl", None) is not None)
        and any(id(parameter) in trained for parameter in module.parameters())
    ]
    inner = {id(below) for module in modules for below in module.modules() if below is not module}
    return [module for module in modules if id(module) not in inner]
