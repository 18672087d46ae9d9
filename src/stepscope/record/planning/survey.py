"""Surveys a job: watches some of its first iterations, then ends the job.

The job's loop drives a `Survey` like any recording. All ranks of a job end after the same iteration, whatever they have
seen, because a rank that leaves alone leaves the others waiting in a collective.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, Literal

from stepscope.record.compiling import capturing_check
from stepscope.record.job.trained_model import Discovery
from stepscope.record.planning.listing import MAX_MODULES, Listed, heaviest, listed, modules_of
from stepscope.record.planning.surveyor import Kind, Surveyor
from stepscope.record.recording import Recording
from stepscope.record.targets.watch import ObservingWatch
from stepscope.record.trouble import Guard

_MAX_REFUSALS = 3
_DEVICE_SECONDS = 30.0

Stage = Literal["untouched", "discover", "plain", "all", "forwards", "operators"]
"""The purpose of an iteration."""


class Enough(SystemExit):
    """Ends the script after a survey; exit code 0 passes through scripts and frameworks."""


class Survey(Recording):
    """Watches iterations of a job and then ends it: the first runs undisturbed, in the second the model and optimizers
    are found, and between watched ones some are timed undisturbed.

    Args:
        finished: called once when something has been found, before the script is ended.
        swallowed: called if the script does not end: it caught `Enough` and started iterations again and again.
    """

    def __init__(
        self,
        *,
        top: int = MAX_MODULES,
        iterations: int = 3,
        finished: Callable[[Survey], None] = lambda _: None,
        swallowed: Callable[[], None] = lambda: None,
    ) -> None:
        self.guard = Guard("the survey")
        self.ended = False
        """Whether everything is known, and the script should end."""
        self.labels: list[Listed] = []
        """What can be measured, once the survey has ended; empty if no iteration was watched."""
        self.modules = 0
        """The number of modules that ran, of which `top` are listed."""
        self.iterations = 0
        self._top = top
        # Unwatched iterations are between the others, so that changes of the job's speed affect both equally.
        timed: tuple[Stage, ...] = ("plain", "all", "forwards")
        operators: tuple[Stage, ...] = ("operators",)
        self._stages = (*("untouched", "discover"), *(timed * iterations), "plain", *(operators * iterations))
        self._finished = finished
        self._swallowed = swallowed
        self._capturing = capturing_check()
        # Not the loop's guard: after a hook fails, the loop must still drive the survey, or an endless script would not
        # be ended.
        self._hooks = Guard("the survey")
        self._discovery: Discovery | None = None
        self._surveyor: Surveyor | None = None
        self._operators_of: list[str] | None = None
        self._running = False
        self._excluded = False
        self._began_ns = 0
        self._times: dict[Stage, list[int]] = {}
        self._refusals = 0

    @property
    def error(self) -> BaseException | None:
        """The error in one of our hooks, after which nothing was watched."""
        return self._hooks.error

    @property
    def over(self) -> bool:
        return False

    @property
    def all_iterations(self) -> int:
        return len(self._stages)

    def watched(self, kind: Kind) -> int:
        rounds = [] if self._surveyor is None else self._surveyor.rounds
        return sum(watched.kind == kind for watched in rounds)

    def median_ns(self, stage: Stage) -> int | None:
        """Time of an iteration at a stage (ns); None if none ended."""
        times = self._times.get(stage)
        return round(median(times)) if times else None

    def start(self, *, lead_in: bool = False) -> None:
        if not lead_in:
            self.start_iteration()

    def start_iteration(self, *, first_of_epoch: bool = False, number: int | None = None) -> int:  # noqa: ARG002 - it counts itself
        if self.guard.inherited or self._capturing():
            return self.iterations
        self.end_iteration()
        if self.iterations >= len(self._stages):
            self._leave()
        self._excluded = first_of_epoch
        self.iterations += 1
        self._running = True
        try:
            self._start_stage(self._stages[self.iterations - 1])
        except Exception as error:
            self._hooks.trip(error)
        self._began_ns = time.perf_counter_ns()
        return self.iterations

    def end_iteration(self) -> None:
        if self.guard.inherited:
            return
        if self.ended:
            self._leave()
        if not self._running:
            return
        time_ns = time.perf_counter_ns() - self._began_ns
        self._running = False
        stage = self._stages[self.iterations - 1]
        try:
            if self._surveyor is not None and self._surveyor.watch is not None:
                self._surveyor.end_iteration(excluded=self._excluded)
            if not self._excluded:
                self._times.setdefault(stage, []).append(time_ns)
        except Exception as error:
            self._hooks.trip(error)
        if self.iterations == len(self._stages):
            self._leave()

    def abandon(self, iteration: int | None = None, *, began: bool = True) -> None:
        if not self._running or self.guard.inherited or iteration not in (None, self.iterations):
            return
        self._running = False
        if not began:
            self.iterations -= 1
        if self._surveyor is not None:
            self._surveyor.abandon()

    def exclude_current(self) -> None:
        self._excluded = True

    def data_wait_start(self) -> tuple[Any, Any]:
        watch = None if self.guard.inherited else self._watch
        return watch, None if watch is None else self._hooks.ask(watch.open, "input_wait")

    def data_wait_end(self, token: tuple[Any, Any]) -> None:
        watch, opened = token
        if watch is not None:
            watch.close(opened)

    def recapture(self) -> bool:
        return self._watch is not None

    def stop(self) -> list[Path]:
        self.stopped = True
        if not self.guard.inherited and not self.ended:
            self._running = False
            self._finish()
        return []

    @property
    def _watch(self) -> ObservingWatch | None:
        return None if self._surveyor is None else self._surveyor.watch

    def _start_stage(self, stage: Stage) -> None:
        discovery = self._discovery
        if stage == "discover" and discovery is None:
            self._discovery = Discovery()
            self._discovery.install(self._hooks)
        # A broken-off iteration has shown nothing, so the next one is watched.
        elif discovery is not None and (discovery.roots or discovery.optimizers):
            discovery.remove()
            self._discovery = None
            self._surveyor = Surveyor(discovery.model, discovery.optimizers, self._hooks)
        if self._surveyor is None or self._hooks.tripped:
            return
        if stage == "operators":
            if self._operators_of is None:
                self._surveyor.wait(_DEVICE_SECONDS)
                self._operators_of = modules_of(heaviest(listed(self._surveyor.rounds), self._top))
            self._surveyor.start_iteration("operators", self._operators_of)
        elif stage in ("all", "forwards"):
            self._surveyor.start_iteration(stage)

    def _leave(self) -> None:
        if self.ended:
            self._refusals += 1
            if self._refusals >= _MAX_REFUSALS:
                self._swallowed()
        else:
            self._finish()
        raise Enough(0)

    def _finish(self) -> None:
        self.ended = True
        try:
            everything = self._take_out()
            self.modules = sum(bool(path) for path in modules_of(everything))
            self.labels = heaviest(everything, self._top)
        except Exception as error:
            self._hooks.trip(error)
        if self.labels:
            self._finished(self)

    def _take_out(self) -> list[Listed]:
        if self._discovery is not None:
            self._discovery.remove()
        if self._surveyor is None:
            return []
        self._surveyor.remove()
        self._surveyor.wait(_DEVICE_SECONDS)
        return listed(self._surveyor.rounds)
