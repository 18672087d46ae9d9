"""The recordings that a framework's callbacks drive, by its optimizer steps."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from stepscope.base.errors import StepScopeError
from stepscope.record import inline
from stepscope.record.annotate import region
from stepscope.record.job.loop import LoopFinder
from stepscope.record.on_demand.listener import OnDemand
from stepscope.record.plan import as_plan
from stepscope.record.recording import Recording
from stepscope.record.traces.tracing import Tracer
from stepscope.record.trouble import Guard, warn_once

Method = TypeVar("Method", bound=Callable[..., None])

MICRO_STEP = "micro_step"
"""The range, or region of inline plans, of one batch if an optimizer step takes several."""


class Recordings:
    """The recordings of one training run, all driven by the same steps. Never raises into the job.

    Args:
        steps: number of traced steps; 0 for no trace.
        wait: steps before the trace and its warm-up.
        warmup: steps in which the profiler runs without recording.
        repeat: the number of cycles.
        ranks: the ranks that record a trace, as in `base.chosen_ranks`: `"0,8"`, `"local:0"`.
        name: name of the trace; by default the script's.
        plan: events to measure inline, as for `inline.start`. This takes many steps, and would measure the profiler in
            traced steps, so use `steps=0` with it.
        phases: whether the phases of every step are timed during the entire run.
        trigger: a directory to watch for `stepscope trigger`.
    """

    def __init__(
        self,
        out: str | Path = "stepscope-out",
        *,
        steps: int = 5,
        wait: int = 1,
        warmup: int = 1,
        repeat: int = 1,
        ranks: str | None = None,
        memory: bool = False,
        stack: bool = False,
        name: str | None = None,
        plan: Any = None,
        phases: bool = False,
        trigger: str | Path | None = None,
    ) -> None:
        self.out = Path(out)
        self.guard = Guard("recording")
        self._guards: dict[str, Guard] = {}
        self.written: list[Path] = []
        self._steps = steps
        self._name = name
        self._trace_options: dict[str, Any] = {
            "wait": wait,
            "warmup": warmup,
            "active": steps,
            "repeat": repeat,
            "ranks": ranks,
            "memory": memory,
            "stack": stack,
        }
        self._plan = plan
        self._phases = phases
        self._trigger = trigger
        self._recordings: dict[str, Recording] = {}
        self._batches: list[LoopFinder] = []
        self._number = 0
        self._micro: Any = None
        self._running = False

    def start(self, number: int, model: Any = None, optimizers: Any = None, roots: Sequence[Any] | None = None) -> None:
        """Starts recording before the step with this number; `roots` as for `Session`."""
        if self._running:
            return
        self._running = True
        self._number = number
        self._guarded("inline", self._start_inline, model, optimizers, roots)
        options = {"name": self._name, "model": model, "start_step": number}
        if self._steps:
            traced = functools.partial(Tracer, self.out, **options, **self._trace_options)
            self._guarded("trace", self._start, "trace", traced)
        if self._trigger is not None:
            listening = functools.partial(OnDemand, self._trigger, out=self.out, **options)
            self._guarded("trigger", self._start, "trigger", listening)

    def step(self, number: int) -> None:
        """Ends an optimizer step; the next one has this number. Does nothing if it is the running step's."""
        if not self._running or number == self._number:
            return
        self._number = number
        self.end_micro_step()
        # The inline session last, so that the time of the others belongs to the step that ended.
        for part, recording in reversed(self._recordings.items()):
            self._guarded(part, functools.partial(recording.start_iteration, number=number))

    def start_micro_step(self) -> None:
        if self._running and self._micro is None:
            self._guarded("micro-steps", self._open_micro_step)

    def end_micro_step(self) -> None:
        opened, self._micro = self._micro, None
        if opened is not None:
            self._guarded("micro-steps", opened.__exit__, None, None, None)

    def exclude_current(self) -> None:
        """Marks the running step as unlike others: it contains a validation or a checkpoint."""
        for part, recording in self._recordings.items():
            self._guarded(part, recording.exclude_current)

    def stop(self) -> list[Path]:
        if not self._running:
            return self.written
        self._running = False
        self.end_micro_step()
        # Recordings that failed are ended, too: they keep what they had measured.
        for batches in self._batches:
            self._guarded("end of batches", batches.remove)
        for part, recording in reversed(self._recordings.items()):
            self.written += self._guarded(f"end of {part}", recording.stop) or []
        self._recordings, self._batches = {}, []
        return self.written

    def _start_inline(self, model: Any, optimizers: Any, roots: Sequence[Any] | None) -> None:
        if self._plan is None and not self._phases:
            return
        try:
            plan = None if self._plan is None else as_plan(self._plan)
        except StepScopeError as error:
            warn_once(f"training goes on without inline recording: {error.message}")
            return
        options = {"model": model, "optimizer": optimizers, "roots": roots, "out": self.out, "phases": self._phases}
        self._start("inline", lambda: inline.new_session(plan, **options))

    def _start(self, part: str, make: Callable[[], Recording]) -> None:
        self._recordings[part] = recording = make()
        if recording.uses_batches:
            batches = LoopFinder(recording, steps=False)
            self._batches.append(batches)
            self._guarded("batches", batches.install)  # one guard: if it fails once, it fails for all
        recording.start()

    def _open_micro_step(self) -> None:
        opened = region(MICRO_STEP)
        opened.__enter__()
        self._micro = opened

    def _guarded(self, part: str, what: Callable[..., Any], *args: Any) -> Any:
        """Calls something for one recording; if that raises, the recording is dropped and the others go on."""
        return self._guards.setdefault(part, Guard(f"recording ({part})")).ask(what, *args)


def never_raises(method: Method) -> Method:
    """Makes a callback's method that never raises: a trainer of another version may lack what it uses."""

    @functools.wraps(method)
    def guarded(callback: Any, *args: Any, **kwargs: Any) -> None:
        try:
            method(callback, *args, **kwargs)
        except Exception as error:
            callback.recordings.guard.trip(error)

    return guarded  # type: ignore[return-value] # it has the same signature
