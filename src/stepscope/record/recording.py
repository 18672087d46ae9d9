"""How a loop drives a recording: the calls that every recording accepts from any loop.

A loop is found by `job.loop.LoopFinder`, is one of ours (`inline.iterate`, `inline.iteration`, a tracer's `iterate`),
or belongs to a framework. No loop depends on which recording it drives. An iteration of the loop and a training step
are the same thing; plans use the first name, traces and phases the second.

                  start               start_iteration
    (created) ------------> between ------------------> running --+
                               ^                         |   ^    |  start_iteration: ends it, starts the next
                               |  end_iteration, abandon |   |    |  skip: the same without any work,
                               +-------------------------+   +----+        while `to_skip` is not 0

    in any state:      stop            writes the files; every later call does nothing
    between, running:  data_wait_start, data_wait_end; add_missed (iterations that the loop did not see)
    running:           add_value; exclude_current (an epoch or a validation started: it does not count)
    loops of ours ask: stops_now (before each iteration), recapture (before each replay of a CUDA graph)

A loop makes no more calls when `over` is true or the guard has tripped. All calls come from the training thread. They
do not raise into the job, except those of the survey, which end it. After `stop` they do nothing, and so they do in a
forked child, where all guards have tripped (`trouble`).
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from stepscope.record.settings import note_loader
from stepscope.record.tensors import samples_in
from stepscope.record.trouble import Guard

T = TypeVar("T")
Itself = TypeVar("Itself", bound="EveryStep")

SCRIPT_FOLDERS: list[Path] = []
"""Folders of the recordings that the script itself started, with `inline.start` or `trace`."""


class Recording(ABC):
    """What a loop drives. Methods that are not abstract do nothing by default.

    Attributes:
        guard: keeps the recording's exceptions out of the job.
        driver: how the script drives the recording itself, if it does; then `LoopFinder`, which can only guess where
            iterations are, makes no calls.
        in_loop: whether a loop of ours runs; a loop of ours inside its iteration is part of that iteration.
        stopped: whether `stop` was called.
        to_skip: the number of following iterations for which a loop only calls `skip`.
        began_ns: start of the running iteration, by `time.perf_counter_ns`.
        successor: the recording that the script has started instead, which the found loop then drives.
        uses_batches: whether it needs `data_wait_start`, `data_wait_end`, `exclude_current` and `add_value`.
    """

    guard: Guard
    driver: str | None = None
    in_loop: bool = False
    stopped: bool = False
    to_skip: int = 0
    began_ns: int = 0
    successor: Recording | None = None
    uses_batches: bool = True

    @property
    def records_values(self) -> bool:
        """Whether numbers of the running iteration are recorded; if not, they need not be computed."""
        return True

    @abstractmethod
    def start(self, *, lead_in: bool = False) -> None:
        """Starts the recording; a `lead_in` is the job's start-up, otherwise the first iteration starts now."""

    @abstractmethod
    def stop(self) -> list[Path]:
        """Ends the recording and writes everything; may be called again. Returns the files."""

    @abstractmethod
    def start_iteration(self, *, first_of_epoch: bool = False, number: int | None = None) -> int:
        """Starts an iteration, ending one that still runs; returns the argument of `abandon` for it.

        Args:
            first_of_epoch: whether its loader starts up in it, so that it is unlike others.
            number: the step's number, if the caller knows it.
        """

    def skip(self) -> None:
        """Starts an iteration that needs no calls, ending one that still runs."""
        self.to_skip -= 1
        self.began_ns = time.perf_counter_ns()

    def end_iteration(self) -> None:
        """Ends the iteration."""

    def abandon(self, iteration: int | None = None, *, began: bool = True) -> None:
        """Drops a broken-off iteration, the running one or only this one; without a batch it has not begun."""

    def exclude_current(self) -> None:
        """Excludes the running iteration: an epoch started in it, or a validation ran."""

    def add_missed(self, iterations: int) -> None:
        """Reports iterations that ran before the loop was found."""

    def data_wait_start(self) -> Any:
        """Starts the wait for a batch, perhaps between iterations; pass the result to `data_wait_end`."""

    def data_wait_end(self, token: Any) -> None:
        """Ends the wait for a batch: it is here, or the loader is exhausted."""

    def add_value(self, name: str, number: float) -> None:
        """Adds a number to the running iteration: `samples` in its batch, or the script's `value`."""

    @property
    @abstractmethod
    def over(self) -> bool:
        """Whether nothing is left to record."""

    @property
    def done(self) -> bool:
        """Whether the requested measurements are complete: the script's `inline.done()`."""
        return self.over

    def stops_now(self) -> bool:
        """Whether a loop of ours should end before another iteration."""
        return False

    def recapture(self) -> bool:
        """Whether the job must recapture its CUDA graph before the next replay."""
        return False


def count_samples(recording: Recording, batch: Any, loader: Any) -> None:
    """Reports the number of samples in the running iteration's batch, if it is known."""
    samples = samples_in(batch, loader) if recording.records_values else None
    if samples is not None:
        recording.add_value("samples", samples)


class EveryStep(Recording):
    """A recording that takes every step: also usable as a context, and with its own loop.

    It ignores batches, because a trace has the loader's own ranges.
    """

    uses_batches = False
    _index: int
    _number: int
    _has_no_batch = False

    def __enter__(self: Itself) -> Itself:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @abstractmethod
    def step(self, number: int | None = None) -> None:
        """Ends a step and starts the next, with the following number unless one is given, the same on all ranks."""

    def iterate(self, loader: Iterable[T]) -> Iterator[T]:
        """Yields the batches of a loader, each a step, which includes the wait for the batch."""
        self.driver = "iterate"
        batches = iter(loader)
        self.guard.ask(note_loader, batches)
        for batch in batches:
            if self.records_values:
                count_samples(self, batch, loader)
            yield batch
            self.step()

    def start_iteration(self, *, first_of_epoch: bool = False, number: int | None = None) -> int:  # noqa: ARG002
        if not self._has_no_batch:  # otherwise the last step continues
            self.step(number)
        self._has_no_batch = False
        return self._index

    def abandon(self, iteration: int | None = None, *, began: bool = True) -> None:  # noqa: ARG002
        # An iteration that broke off still is a step.
        self._has_no_batch |= not began

    def add_missed(self, iterations: int) -> None:
        self._number += iterations
