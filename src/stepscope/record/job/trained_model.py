"""The model that a job trains: given, or found in an iteration, and again when another model takes over."""

from __future__ import annotations

import gc
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from stepscope.record.compiling import has_compiled
from stepscope.record.targets.backward import backward_number
from stepscope.record.targets.optimizers import OptimizerSteps, put_hooks_in, take_hooks_out
from stepscope.record.trouble import Guard

_NO_BACKWARD = -1
_COMPILE_WARNING = "Using `torch.compile"


class Discovery:
    """Observes all modules, unless `modules` is False, and optimizers of the process until `remove`.

    Hooks on all modules slow a model down, so this is for a single iteration.
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
        if self.modules and not any(next(root.parameters(), None) is not None for root in self.roots):
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


def _compiles_anew_for_hooks() -> bool:
    """Whether hooks on all modules would make torch compile again, as before 2.8; in 2.1 fullgraph=True then fails."""
    import torch

    if not has_compiled():
        return False
    return tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 8)


def _is_graph(module: Any) -> bool:
    """Whether a module is the compiler's graph of another module, with the same parameters."""
    from torch.fx import GraphModule

    return isinstance(getattr(module, "_orig_mod", module), GraphModule)


def _trained(optimizers: list[Any], *, compiled_only: bool) -> list[Any]:
    """Finds the outermost modules that these optimizers train, or only compiled ones, whose calls run no hooks."""
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


_LOOK_EVERY = 4
_PATIENCE_LOOKS = 2
_LESS_OFTEN = 4


@dataclass(frozen=True, slots=True)
class FoundModel:
    """What is known when an iteration starts; `roots` are the modules whose calls are the forward. Do not store it."""

    model: Any
    roots: list[Any] | None
    optimizers: list[Any] = field(default_factory=list)
    takes_over: bool = False


class TrainedModel:
    """Knows the model without keeping it alive.

    The first iteration runs undisturbed, because code compiled in it must not see our hooks. What was not given is
    found in the second.
    """

    def __init__(self, guard: Guard, model: Any, roots: Sequence[Any] | None, *, optimizers: bool) -> None:
        self._guard = guard
        self._model: Callable[[], Any] = (lambda: None) if model is None else weakref.ref(model)
        self._given: FoundModel | None = None
        if model is not None:
            self._given = FoundModel(model, list(roots or _callable_parts(model)))
        self._discovery: Discovery | None = None
        if model is None or optimizers:
            self._discovery = Discovery(modules=model is None)
        self._missing = MissingForward() if model is None else None
        self._looks_again = False
        self._knew_one = False
        self._last_found: Callable[[], Any] | None = None

    @property
    def model(self) -> Any:
        """The model; None while it is unknown, or after the job has freed it."""
        return self._model()

    @property
    def looks(self) -> bool:
        return self._looks_again or self._discovery is not None

    def start_iteration(self, iterations: int) -> FoundModel | None:
        """Starts an iteration after so many; returns what has become known, or None."""
        if iterations == 1:
            if self._discovery is not None:
                self._discovery.install(self._guard)
            given, self._given = self._given, None
            return given
        if iterations and self._discovery is not None:
            return self._discovered()
        if self._looks_again:
            self._looks_again = False
            self._discovery = Discovery()
            self._discovery.install(self._guard)
        return None

    def end_iteration(self, iterations: int, occurrences: Callable[[str], int]) -> None:
        """Ends an iteration; looks for the model in the next one if its forward does not run."""
        if self._missing is None:
            return
        if self._knew_one and self._model() is None:
            self._knew_one = False
            self.look_again()  # the job has freed it, and trains another or none
        elif iterations % _LOOK_EVERY == 0:
            self._looks_again |= self._missing.look_again(occurrences("forward"), occurrences("backward"))

    def look_again(self) -> None:
        self._looks_again = self._missing is not None

    def close(self) -> None:
        self._given = None
        if self._discovery is not None:
            self._discovery.remove()

    def _discovered(self) -> FoundModel | None:
        discovery, self._discovery = self._discovery, None
        if discovery is None:
            return None
        discovery.remove()
        if not discovery.modules:
            return FoundModel(self._model(), None, discovery.optimizers)
        model, before = discovery.model, self._last_found
        takes_over = before is not None and model is not None and before() is not model
        if model is not None:
            self._model = self._last_found = weakref.ref(model)
            self._knew_one = True
        return FoundModel(model, discovery.roots, discovery.optimizers, takes_over)


class MissingForward:
    """Decides every few steps whether to look for the model again.

    A step misses its forward if it runs a backward but no forward of the model. Many of those in a row belong to
    another model, such as the next fold's, or one tuned after training. A search needs hooks on all modules for one
    step, so each failed search delays the next.
    """

    def __init__(self) -> None:
        self._patience = _PATIENCE_LOOKS
        self._missed = 0
        self._forwards = 0
        self._backwards = 0

    def look_again(self, forwards: int, backwards: int) -> bool:
        if forwards != self._forwards or not forwards:
            self._missed = 0
            self._patience = _PATIENCE_LOOKS
        elif backwards != self._backwards:
            self._missed += 1
        self._forwards, self._backwards = forwards, backwards
        if self._missed < self._patience:
            return False
        self._missed = 0
        self._patience *= _LESS_OFTEN
        return True


class ModelSearch:
    """The model whose modules a trace names, given or found in one step, and the `roots` that the job itself calls."""

    def __init__(self, model: Any, guard: Guard) -> None:
        self.model = model
        self.roots: list[Any] = [] if model is None else _callable_parts(model)
        self._guard = guard
        self._has_searched = False
        self._discovery: Discovery | None = None

    def start(self) -> None:
        if self.model is None:
            put_hooks_in()

    def start_step(self, index: int, *, first_recorded: int) -> None:
        """Starts a step: searches in the second, after compilation, unless that is recorded, or takes the result."""
        if self.model is None and not self._has_searched and index >= min(1, first_recorded - 1):
            self._has_searched = True
            self._discovery = Discovery()
            self._discovery.install(self._guard)
        elif self._discovery is not None:
            self._discovery.remove()
            self.model, self.roots = self._discovery.model, self._discovery.roots
            self._discovery = None

    def close(self) -> None:
        self.model = None
        self.roots = []
        if self._discovery is not None:
            self._discovery.remove()
            self._discovery = None
        take_hooks_out()


def _callable_parts(model: Any) -> list[Any]:
    """The called parts of a given model: its children if it is only a container."""
    import torch

    holds_only = getattr(type(model), "forward", None) is torch.nn.Module.forward
    return list(model.children()) if holds_only else [model]
