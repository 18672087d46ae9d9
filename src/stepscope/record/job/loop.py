"""Finds the iterations of a loop without our calls, from its optimizer and DataLoader.

An iteration ends where `optimizer.step()` returns. With gradient accumulation that is one iteration for several
batches, which the phases tell apart by counting backwards. If a DataLoader starts over, an epoch started or a
validation ran, so that iteration does not count, unless one starts over in every iteration (`next(iter(loader))`),
which is then normal for the job.

Of several optimizers, the first that steps counts. If it stops while another continues, as after a pretraining or a
warm-up with its own optimizer, the other one takes its place, immediately if the job has freed the first.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from typing import Any

from stepscope.record.compiling import capturing_check, compiling_check
from stepscope.record.recording import Recording, count_samples
from stepscope.record.settings import note_loader
from stepscope.record.targets.optimizers import OptimizerSteps
from stepscope.record.targets.patches import Patch

QUIET = 16
"""Steps of another optimizer after which one that has not stepped counts as finished.

A generator may wait for a few steps of its critic."""


class _Step:
    """A function as a method of an optimizer, without keeping the optimizer alive: its state may be twice as large as
    its model, and would be freed late.

    Args:
        function: gets the optimizer as first argument.
        original: the method that it replaces.
    """

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
    """Drives a recording by the iterations of the process.

    Args:
        recording: the recording. While its `driver` says that the script drives it itself (by `inline.iterate`), this
            makes no calls.
        steps: whether to observe optimizers' steps; otherwise only batches.
    """

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
        self._heard: OptimizerSteps | None = None
        self._batches: Patch | None = None

    def install(self) -> None:
        """Starts to observe optimizers and DataLoaders."""
        if self._steps:
            self._heard = OptimizerSteps(self._guard.wrap(self._adopt))
            self._heard.install()
        if not self._recording.takes_batches:
            return
        from torch.utils.data import dataloader

        self._batches = Patch(dataloader._BaseDataLoaderIter, "__next__", self._next)
        self._batches.install()

    def remove(self) -> None:
        """Stops observing."""
        if self._heard is not None:
            self._heard.remove()
        if self._batches is not None:
            self._batches.remove()
        if self._step is not None:
            self._step.remove()
        self._heard = self._batches = self._step = None

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
            if is_compiling():
                return result
            recording = self._followed()
            if recording.rests and recording.driver is None and not self._missed:
                self._started_over_before, self._starts_over = self._starts_over, False
                recording.passes()
                return result
            if self._guard.tripped or recording.driver is not None:
                return result
            # Another optimizer may have taken its place.
            if not self._capturing() and (of_adopted is None or of_adopted() is self._optimizer()):
                missed, self._missed = self._missed, 0
                if missed:
                    recording.missed(missed)
                self._started_over_before, self._starts_over = self._starts_over, False
                recording.begin()
            return result

        return step if owner is None else _Step(step, original)

    def _next(self, original: Any) -> Any:
        @functools.wraps(original)
        def following(batches: Any) -> Any:
            recording = self._followed()
            first = getattr(batches, "_num_yielded", None) == 0
            if recording.rests and not first:
                return original(batches)
            if first:
                self._guard.ask(note_loader, batches)
            if self._guard.tripped or recording.driver is not None or recording.over:
                return original(batches)
            tokens = recording.input_begins()
            try:
                batch = original(batches)
            finally:
                recording.input_ends(tokens)
                if first:
                    self._starts_over = True
                    if not self._started_over_before:
                        recording.not_this_one()
            count_samples(recording, batch, getattr(batches, "_index_sampler", None))
            return batch

        return following
