"""How a loop drives a recording: the calls that every recording takes, from any loop.

A loop is found by `job.loop.LoopFinder`, is one of ours (`inline.iterate`, `inline.iteration`, a tracer's
`iterate`), or is a framework's, whose callbacks know its steps. None of them depends on which recording it
drives: the inline session, the tracer, the listener for `stepscope trigger` and the survey of
`stepscope plan` are all a `Recording`. An iteration of the loop and a training step are the same thing;
plans call it the first, traces and phases the second.

All calls come from the thread that trains. They do not raise into the job, except for the survey's,
which end it. A loop that goes on after `stop`, or in a forked child, may still make them; they then do
nothing.
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
    """What a loop drives. A method that is not abstract does nothing here, and may be left so.

    Attributes:
        guard: keeps the recording's own exceptions out of the job; once it has tripped, a loop need
            make no more calls.
        driver: how the script drives the recording itself, if it does; `LoopFinder`, which can only
            guess where iterations are, is then silent.
        in_loop: whether a loop of ours runs, of whose iterations one of ours inside it is a part.
        stopped: whether `stop` was called.
        rests: of so many of the next iterations nothing is wanted: a loop calls `passes` for each where it would call
            `begin`, and makes no other call for it.
        began_ns: when the running iteration began, by `time.perf_counter_ns`.
        takes_batches: whether it makes use of `input_begins`, `input_ends`, `not_this_one` and `takes`.
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
        """What the script has started in its place, which the loop that was found drives from then on."""
        return None

    @property
    def keeps_numbers(self) -> bool:
        """Whether a number of the running iteration is kept: what is not need not be found out."""
        return True

    @abstractmethod
    def start(self, *, lead_in: bool = False) -> None:
        """Starts the recording, once, before any other call.

        Args:
            lead_in: what runs until the first `begin` is the job's start-up and no iteration; without
                it the first iteration starts now.
        """

    @abstractmethod
    def stop(self) -> list[Path]:
        """Ends the recording and writes everything; safe to call again. Returns the files."""

    @abstractmethod
    def begin(self, *, fresh: bool = False, number: int | None = None) -> int:
        """An iteration starts, and one that still runs has ended.

        Args:
            fresh: it is the first of an epoch, whose loader starts up, and is not like the others.
            number: the step's number, where the caller knows it.

        Returns:
            What `abandon` takes for this iteration.
        """

    def passes(self) -> None:
        """An iteration starts of which nothing is wanted, see `rests`; one that still runs has ended."""
        self.rests -= 1
        self.began_ns = time.perf_counter_ns()

    def end(self) -> None:
        """The iteration has ended. Where this is not called, the next `begin` ends it."""

    def abandon(self, iteration: int | None = None, *, began: bool = True) -> None:
        """The iteration broke off: an exception, a break, the end of the loader.

        Args:
            iteration: only if this one is running; None for whichever is.
            began: False when there was no batch, and so no iteration at all.
        """

    def not_this_one(self) -> None:
        """The running iteration does not count: an epoch started in it, or a validation ran."""

    def missed(self, iterations: int) -> None:
        """This many iterations ran before the loop was found; called before `begin`."""

    def input_begins(self) -> Any:
        """The wait for a batch starts, perhaps outside any iteration; `input_ends` takes the result."""

    def input_ends(self, token: Any) -> None:
        """The batch is here, or the loader has none left."""

    def takes(self, name: str, number: float) -> None:
        """A number of the running iteration: `samples` in its batch, or what the script calls `value` with."""

    @property
    @abstractmethod
    def over(self) -> bool:
        """Whether nothing is left to record, so that a loop need make no more calls."""

    @property
    def done(self) -> bool:
        """Whether what was asked for is measured: the script's `inline.done()`."""
        return self.over

    def stops_now(self) -> bool:
        """Whether a loop of ours should end before another iteration."""
        return False

    def recapture(self) -> bool:
        """Whether the job has to capture its CUDA graph again before the next replay."""
        return False

    def forget_in_child(self) -> None:
        """This process is a forked child: it has its parent's hooks, which must do nothing here."""
        self.guard.error = self.guard.error or RuntimeError("recorded by the parent process")


def count_samples(recording: Recording, batch: Any, loader: Any) -> None:
    """Tells a recording how many samples the batch of the running iteration has, where that is known."""
    samples = samples_in(batch, loader) if recording.keeps_numbers else None
    if samples is not None:
        recording.takes("samples", samples)


class EveryStep(Recording):
    """A recording that takes every step as it comes: also as a context, and in a loop of its own.

    It takes no batches: a trace has the loader's own ranges.
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
        """A step has ended and the next starts.

        Args:
            number: the next step's number, where it is not the one after this. The same on all
                ranks.
        """

    def iterate(self, loader: Iterable[T]) -> Iterator[T]:
        """The batches of a loader, each a step; the wait for a batch belongs to its step."""
        self.driver = "iterate"
        batches = iter(loader)
        self.guard.ask(note_loader, batches)
        for batch in batches:
            if self.keeps_numbers:
                count_samples(self, batch, loader)
            yield batch
            self.step()

    def begin(self, *, fresh: bool = False, number: int | None = None) -> int:  # noqa: ARG002 - every step counts in a trace
        """The next step starts; where the last had no batch, it goes on."""
        if not self._has_no_batch:
            self.step(number)
        self._has_no_batch = False
        return self._index

    def abandon(self, iteration: int | None = None, *, began: bool = True) -> None:  # noqa: ARG002
        """The loader had no batch left, or the iteration broke off, which is a step all the same."""
        self._has_no_batch |= not began

    def missed(self, iterations: int) -> None:
        """Steps have run before the first call; those after them keep their true numbers."""
        self._number += iterations
