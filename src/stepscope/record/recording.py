"""How a loop drives a recording: the calls that every recording accepts from any loop.

A loop is found by `job.loop.LoopFinder`, is one of ours (`inline.iterate`, `inline.iteration`, a tracer's `iterate`),
or belongs to a framework, whose callbacks know its steps. No loop depends on which recording it drives: the inline
session, the tracer, the listener for `stepscope trigger` and the survey of `stepscope plan` are all a `Recording`. An
iteration of the loop and a training step are the same thing; plans use the first name, traces and phases the second.

All calls come from the training thread. They do not raise into the job, except those of the survey, which end it. A
loop that continues after `stop`, or in a forked child, may still make them; they then do nothing.
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

SCRIPTS_OWN: list[Path] = []
"""Folders of the recordings that the script itself started, with `inline.start` or `trace`."""


class Recording(ABC):
    """What a loop drives. Methods that are not abstract do nothing by default.

    Attributes:
        guard: keeps the recording's exceptions out of the job; once it has tripped, a loop need not make more calls.
        driver: how the script drives the recording itself, if it does; then `LoopFinder`, which can only guess where
            iterations are, makes no calls.
        in_loop: whether a loop of ours runs; a loop of ours inside its iteration is part of that iteration.
        stopped: whether `stop` was called.
        rests: the number of following iterations for which no calls are needed: a loop calls `passes` for each instead
            of `begin`, and nothing else.
        began_ns: start of the running iteration, by `time.perf_counter_ns`.
        takes_batches: whether it uses `input_begins`, `input_ends`, `not_this_one` and `takes`.
    """

    guard: Guard
    driver: str | None = None
    in_loop: bool = False
    stopped: bool = False
    rests: int = 0
    began_ns: int = 0
    takes_batches: bool = True

    @property
    def successor(self) -> Recording | None:
        """The recording that the script has started instead, which the found loop then drives."""
        return None

    @property
    def keeps_numbers(self) -> bool:
        """Whether numbers of the running iteration are kept; if not, they need not be computed."""
        return True

    @abstractmethod
    def start(self, *, lead_in: bool = False) -> None:
        """Starts the recording, once, before any other call.

        Args:
            lead_in: whether what runs until the first `begin` is the job's start-up and no iteration; otherwise the
                first iteration starts now.
        """

    @abstractmethod
    def stop(self) -> list[Path]:
        """Ends the recording and writes everything; may be called again. Returns the files."""

    @abstractmethod
    def begin(self, *, fresh: bool = False, number: int | None = None) -> int:
        """Starts an iteration, ending one that still runs.

        Args:
            fresh: whether it is the first of an epoch, whose loader starts up, and so unlike others.
            number: the step's number, if the caller knows it.

        Returns:
            The argument of `abandon` for this iteration.
        """

    def passes(self) -> None:
        """Starts an iteration that needs no calls (`rests`), ending one that still runs."""
        self.rests -= 1
        self.began_ns = time.perf_counter_ns()

    def end(self) -> None:
        """Ends the iteration. Otherwise the next `begin` ends it."""

    def abandon(self, iteration: int | None = None, *, began: bool = True) -> None:
        """Drops a broken-off iteration: an exception, a break, the end of the loader.

        Args:
            iteration: only drop this one; None for the running one.
            began: False if there was no batch, and so no iteration.
        """

    def not_this_one(self) -> None:
        """Excludes the running iteration: an epoch started in it, or a validation ran."""

    def missed(self, iterations: int) -> None:
        """Reports iterations that ran before the loop was found; called before `begin`."""

    def input_begins(self) -> Any:
        """Starts the wait for a batch, perhaps outside any iteration; pass the result to `input_ends`."""

    def input_ends(self, token: Any) -> None:
        """Ends the wait for a batch: it is here, or the loader is exhausted."""

    def takes(self, name: str, number: float) -> None:
        """Adds a number to the running iteration: `samples` in its batch, or the script's `value`."""

    @property
    @abstractmethod
    def over(self) -> bool:
        """Whether nothing is left to record, so that a loop need not make more calls."""

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

    def forget_in_child(self) -> None:
        """Disables the hooks that this forked child inherits from its parent."""
        self.guard.error = self.guard.error or RuntimeError("recorded by the parent process")


def count_samples(recording: Recording, batch: Any, loader: Any) -> None:
    """Reports the number of samples in the running iteration's batch, if it is known."""
    samples = samples_in(batch, loader) if recording.keeps_numbers else None
    if samples is not None:
        recording.takes("samples", samples)


class EveryStep(Recording):
    """A recording that takes every step: also usable as a context, and with its own loop.

    It ignores batches, because a trace has the loader's own ranges.
    """

    takes_batches = False
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
        """Ends a step and starts the next.

        Args:
            number: the next step's number, if it is not the following one. The same on all ranks.
        """

    def iterate(self, loader: Iterable[T]) -> Iterator[T]:
        """Yields the batches of a loader, each a step, which includes the wait for the batch."""
        self.driver = "iterate"
        batches = iter(loader)
        self.guard.ask(note_loader, batches)
        for batch in batches:
            if self.keeps_numbers:
                count_samples(self, batch, loader)
            yield batch
            self.step()

    def begin(self, *, fresh: bool = False, number: int | None = None) -> int:  # noqa: ARG002 - every step counts in a trace
        """Starts the next step; if the last had no batch, it continues."""
        if not self._has_no_batch:
            self.step(number)
        self._has_no_batch = False
        return self._index

    def abandon(self, iteration: int | None = None, *, began: bool = True) -> None:  # noqa: ARG002
        """The loader was exhausted, or the iteration broke off, which still is a step."""
        self._has_no_batch |= not began

    def missed(self, iterations: int) -> None:
        """Counts steps before the first call, so that later steps have their true numbers."""
        self._number += iterations
