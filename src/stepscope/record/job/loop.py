"""Finds the iterations of a loop without our calls, from its optimizer and DataLoader.

An iteration ends where `optimizer.step()` returns, with gradient accumulation after several batches. If a DataLoader
starts over, an epoch or a validation started, so that iteration does not count, unless one starts over in every
iteration (`next(iter(loader))`).

Of several optimizers, the first that steps counts. If it stops while another continues, as after a warm-up with its
own optimizer, the other one takes its place.

A step inside compiled code, or of an optimizer that is not torch's, cannot be observed. If it is certain that none can
be, iterations end where a backward returns, until a step is observed.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from typing import Any

from stepscope.record.compiling import apart, capturing_check, compiling_check, run_as_it_is
from stepscope.record.recording import Recording, count_samples
from stepscope.record.settings import note_loader
from stepscope.record.targets.optimizers import OptimizerSteps, why_unheard
from stepscope.record.targets.patches import Patch
from stepscope.record.trouble import warn_once

QUIET = 16
"""Steps of another optimizer after which one that has not stepped counts as finished.

A generator may wait for a few steps of its critic."""
UNHEARD = 16
"""Backwards without a step before it is checked why none is observed, and again after twice as many."""


class _Step:
    """A function as a method of an optimizer, without keeping the optimizer and its state alive."""

    def __init__(self, function: Any, original: Any) -> None:
        functools.update_wrapper(self, function)
        # Schedulers and scalers look at the method's object and its parameters.
        self.__func__ = function
        self.__signature__ = inspect.signature(original)
        self._owner = weakref.ref(original.__self__)

    @property
    def __self__(self) -> Any:
        return self._owner()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__func__(self._owner(), *args, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        # In a copy of the optimizer it must be the copy's own method.
        owner = self._owner()
        return getattr(memo.get(id(owner), owner), self.__func__.__name__)

    def __reduce__(self) -> tuple[Any, tuple[Any, str]]:
        return getattr, (self._owner(), self.__func__.__name__)


class LoopFinder:
    """Drives a recording, while that has no `driver`, by optimizers' steps, or only by batches."""

    def __init__(self, recording: Recording, *, steps: bool = True) -> None:
        self._steps = steps
        self._missed = 0
        self._others: dict[int, int] = {}
        self._recording = recording
        self._guard = recording.guard
        self._capturing = capturing_check()
        self._starts_over = self._started_over_before = False
        self._optimizer: Any = lambda: None
        self._step: Patch | None = None
        self._backward: Patch | None = None
        self._backwards = self._inside = 0
        self._looks_at = UNHEARD
        self._by_backwards = False
        self._heard: OptimizerSteps | None = None
        self._batches: Patch | None = None

    def install(self) -> None:
        if self._steps:
            self._heard = OptimizerSteps(self._guard.wrap(self._adopt))
            self._heard.install()
            import torch

            self._backward = Patch(torch.Tensor, "backward", self._returning)
            self._backward.install()
        if not self._recording.uses_batches:
            return
        from torch.utils.data import dataloader

        self._batches = Patch(dataloader._BaseDataLoaderIter, "__next__", self._next)
        self._batches.install()

    def remove(self) -> None:
        if self._heard is not None:
            self._heard.remove()
        if self._batches is not None:
            self._batches.remove()
        for patch in (self._step, self._backward):
            if patch is not None:
                patch.remove()
        self._heard = self._batches = self._step = self._backward = None

    def _followed(self) -> Recording:
        """The recording to drive: the script may have started its own session without a loop that drives it."""
        if self._recording.successor is not None:
            self._recording = self._recording.successor
        return self._recording

    def _adopt(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        # The boundary cannot be torch's own hook: hooks are installed and removed at boundaries, while torch would be
        # iterating over them. So the first optimizer's `step` is replaced; only its call that is running now goes
        # unnoticed.
        adopted = self._optimizer()
        if optimizer is adopted:
            self._others.clear()
            return
        steps = 1
        if self._backward is not None:
            self._backward.remove()
            self._backward = None
        if adopted is not None:
            steps = self._others[id(optimizer)] = self._others.get(id(optimizer), 0) + 1
            if steps <= QUIET:
                return
        if self._step is not None:
            self._step.remove()
        self._others.clear()
        self._optimizer = weakref.ref(optimizer)
        self._step = Patch(optimizer, "step", self._stepping)
        self._step.install()
        self._missed = steps

    def _stepping(self, original: Any) -> Any:
        function = getattr(original, "__func__", original)

        owner = getattr(original, "__self__", None)
        of_adopted = None if owner is None else weakref.ref(owner)
        is_compiling = compiling_check()

        # Schedulers and scalers look at the method's signature and attributes; wraps keeps both.
        @functools.wraps(function)
        def step(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            # A step inside compiled or captured code is code under construction, not an iteration.
            # And another optimizer may have taken its place.
            if not is_compiling() and (of_adopted is None or of_adopted() is self._optimizer()):
                self._ended()
            return result

        return step if owner is None else _Step(step, original)

    def _ended(self) -> None:
        recording = self._followed()
        if recording.to_skip and recording.driver is None and not self._missed:
            self._started_over_before, self._starts_over = self._starts_over, False
            recording.skip()
        elif not self._guard.tripped and recording.driver is None and not self._capturing():
            missed, self._missed = self._missed, 0
            if missed:
                recording.add_missed(missed)
            self._started_over_before, self._starts_over = self._starts_over, False
            recording.start_iteration()

    def _returning(self, original: Any) -> Any:
        is_compiling = compiling_check()
        returned = apart(lambda: self._guard.ask(self._returned))

        @functools.wraps(original)
        def backward(*args: Any, **kwargs: Any) -> Any:
            if is_compiling():
                return original(*args, **kwargs)
            self._inside += 1
            try:
                result = original(*args, **kwargs)
            finally:
                self._inside -= 1
            # Not a backward inside another one, as in checkpointing.
            if not self._inside:
                returned()
            return result

        run_as_it_is(backward)
        return backward

    def _returned(self) -> None:
        if self._by_backwards:
            self._ended()
            return
        self._backwards += 1
        if self._backwards < self._looks_at or self._followed().driver is not None:
            return
        self._looks_at *= 2
        why = why_unheard()
        if why:
            self._by_backwards = True
            self._missed = self._backwards
            warn_once(
                f"{why}: an iteration is taken to end where a backward returns, which is too often where several make a "
                "step; `with stepscope.inline.iteration():` around each says where it is"
            )
            self._ended()

    def _next(self, original: Any) -> Any:
        @functools.wraps(original)
        def following(batches: Any) -> Any:
            recording = self._followed()
            first = getattr(batches, "_num_yielded", None) == 0
            if recording.to_skip and not first:
                return original(batches)
            if first:
                self._guard.ask(note_loader, batches)
            if self._guard.tripped or recording.driver is not None or recording.over:
                return original(batches)
            tokens = recording.data_wait_start()
            try:
                batch = original(batches)
            finally:
                recording.data_wait_end(tokens)
                if first:
                    self._starts_over = True
                    if not self._started_over_before:
                        recording.exclude_current()
            count_samples(recording, batch, getattr(batches, "_index_sampler", None))
            return batch

        return following
