"""Finding the iterations of a loop that knows nothing of us: from its optimizer and its DataLoader.

An iteration ends where `optimizer.step()` returns. With gradient accumulation that is one iteration
for several batches, which the phases tell apart by counting backwards. Where a DataLoader starts
over, an epoch began or a validation ran, so that iteration does not count.
"""

from __future__ import annotations

import functools
import types
import weakref
from typing import Any, Protocol

from stepscope.record.compiling import capturing_now, compiling_check
from stepscope.record.targets.patches import Patch
from stepscope.record.trouble import Guard


class Driven(Protocol):
    """What is told about the iterations that are found."""

    def begin(self, *, fresh: bool = False) -> int:
        """An iteration begins, and the one before has ended."""

    def not_this_one(self) -> None:
        """The running iteration does not count."""

    def input_begins(self) -> tuple[Any, Any]:
        """The wait for a batch begins."""

    def input_ends(self, tokens: tuple[Any, Any]) -> None:
        """The batch is here."""


class LoopFinder:
    """Tells a recording about the iterations of a process.

    Args:
        driven: what is told. While its `driver` says that the script tells it itself (by
            `inline.iterate`), nothing is told twice.
        guard: keeps our exceptions out of the job.
        steps: whether optimizers' steps are listened to; without, only the batches are.
    """

    def __init__(self, driven: Driven, guard: Guard, *, steps: bool = True) -> None:
        self._steps = steps
        self._driven = driven
        self._guard = guard
        self._optimizer: Any = lambda: None
        self._step: Patch | None = None
        self._handle: Any = None
        self._batches: Patch | None = None

    def install(self) -> None:
        """Begins to listen to optimizers and DataLoaders."""
        from torch.optim.optimizer import register_optimizer_step_pre_hook
        from torch.utils.data import dataloader

        if self._steps:
            self._handle = register_optimizer_step_pre_hook(self._guard.wrap(self._adopt))
        self._batches = Patch(dataloader._BaseDataLoaderIter, "__next__", self._next)
        self._batches.install()

    def remove(self) -> None:
        """Stops listening."""
        if self._handle is not None:
            self._handle.remove()
        if self._batches is not None:
            self._batches.remove()
        if self._step is not None:
            self._step.remove()
        self._handle = self._batches = self._step = None

    def _told_by_script(self) -> bool:
        return getattr(self._driven, "driver", None) is not None

    def _adopt(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        # The boundary cannot be torch's own hook: hooks are put in and taken out at boundaries, and
        # torch would be walking through them. So the first optimizer's `step` is replaced; its
        # call that is running now is the last that goes unheard.
        if self._optimizer() is not None:
            return
        self._optimizer = weakref.ref(optimizer)
        self._step = Patch(optimizer, "step", self._stepping)
        self._step.install()

    def _stepping(self, original: Any) -> Any:
        function = getattr(original, "__func__", original)

        is_compiling = compiling_check()

        # Schedulers and scalers look at the method's signature and attributes; wraps keeps both.
        @functools.wraps(function)
        def step(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            # A step inside compiled or captured code is the code being made, not an iteration.
            if is_compiling() or self._guard.tripped or self._told_by_script():
                return result
            if not capturing_now():
                self._driven.begin()
            return result

        owner = getattr(original, "__self__", None)
        return step if owner is None else types.MethodType(step, owner)

    def _next(self, original: Any) -> Any:
        @functools.wraps(original)
        def following(batches: Any) -> Any:
            if self._guard.tripped or self._told_by_script():
                return original(batches)
            first = getattr(batches, "_num_yielded", None) == 0
            tokens = self._driven.input_begins()
            try:
                return original(batches)
            finally:
                self._driven.input_ends(tokens)
                if first:
                    self._driven.not_this_one()

        return following
