"""The model that a job trains: given, or found in an iteration, and again when another model takes over."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from stepscope.record.job.discover import Discovery
from stepscope.record.targets.optimizers import put_hooks_in, take_hooks_out
from stepscope.record.trouble import Guard

_LOOK_EVERY = 4
_PATIENCE_LOOKS = 2
_LESS_OFTEN = 4


@dataclass(frozen=True, slots=True)
class FoundModel:
    """What is known when an iteration starts. Do not store it, because the job may free the model.

    Args:
        model: the outermost module; None if no module was called.
        roots: the modules whose calls are the forward; None if only optimizers were searched.
        takes_over: whether it replaces another model.
    """

    model: Any
    roots: list[Any] | None
    optimizers: list[Any] = field(default_factory=list)
    takes_over: bool = False


class TrainedModel:
    """Knows the model without keeping it alive.

    The first iteration runs undisturbed, because code compiled in it must not see our hooks. What was not given is
    found in the second.

    Args:
        roots: the modules whose calls are the forward, if the model itself is not called.
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
        """Whether it looks for the model now or in the next iteration."""
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
        """Looks for the model in the next iteration, unless it was given."""
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
        """Whether to look for the model in the next step, after so many forwards and backwards."""
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
    """The model whose modules a trace names: given, or found in one step before recording.

    `roots` are the modules that the job itself calls, models and losses.
    """

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
        """Starts a step: searches in it if it is the second and not recorded yet, or takes the result.

        Code is compiled in the first step, and would be compiled again without our hooks.
        """
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
