"""What the callbacks share: optimizer steps, micro-steps within them, and who is told of both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from stepscope.errors import StepScopeError
from stepscope.record import inline
from stepscope.record.annotate import region
from stepscope.record.loop import LoopFinder
from stepscope.record.plan import as_plan
from stepscope.record.session import Session
from stepscope.record.tracing import Tracer
from stepscope.record.trigger import OnDemand
from stepscope.record.trouble import Guard, say_once

MICRO_STEP = "micro_step"
"""The range, and the region for inline plans, of one batch where an optimizer step takes several."""


class StepRecording:
    """Records the optimizer steps that a framework tells of. It never raises into the job.

    Args:
        out: directory of everything that is written.
        steps: how many steps the trace has; 0 for no trace.
        wait: steps before the trace and its warm-up.
        warmup: steps in which the profiler runs and nothing is kept.
        repeat: how often, one cycle after the other.
        ranks: `"0,8"`, `"0-3"`, `"local:0"` or `"all"`: who records the trace.
        memory: whether the trace has allocations.
        stack: whether the trace has call stacks.
        name: of the trace; by default the script's.
        plan: events to measure inline, as for `inline.start`. It takes many steps, and would measure
            the profiler in those of the trace, so give `steps=0` with it.
        phases: whether the phases of every step are timed, for the whole run.
        trigger: a directory to listen to for `stepscope trigger`.
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
        self.written: list[Path] = []
        self._steps = steps
        self._schedule: dict[str, Any] = {"wait": wait, "warmup": warmup, "repeat": repeat}
        self._trace_options: dict[str, Any] = {"ranks": ranks, "memory": memory, "stack": stack}
        self._name = name
        self._plan = plan
        self._phases = phases
        self._trigger = trigger
        self._tracer: Tracer | None = None
        self._listener: OnDemand | None = None
        self._session: Session | None = None
        self._batches: LoopFinder | None = None
        self._number = 0
        self._micro: Any = None
        self._running = False

    def begin(
        self,
        number: int,
        model: Any = None,
        optimizers: Any = None,
        roots: Sequence[Any] | None = None,
    ) -> None:
        """Training begins, with the step of this number; `roots` as for `Session`."""
        if self._running:
            return
        self._running = True
        self._number = number
        self._guarded(lambda: self._begin(model, optimizers, roots))

    def step(self, number: int) -> None:
        """An optimizer step has ended; the next has this number. Called again with it, it is none."""
        if not self._running or number == self._number:
            return
        self._number = number
        self.micro_step_ends()
        self._guarded(self._step)

    def micro_step_begins(self) -> None:
        """One of several batches of an optimizer step begins."""
        if self._running and self._micro is None:
            opened = region(MICRO_STEP)
            self._micro = opened
            opened.__enter__()

    def micro_step_ends(self) -> None:
        """That batch is through."""
        opened, self._micro = self._micro, None
        if opened is not None:
            opened.__exit__(None, None, None)

    def not_this_one(self) -> None:
        """The running step has something in it that others have not: a validation, a checkpoint."""
        if self._session is not None:
            self._guarded(self._session.not_this_one)

    def end(self) -> list[Path]:
        """Training is over: writes what was recorded."""
        if not self._running:
            return self.written
        self._running = False
        self.micro_step_ends()
        self._guarded(self._end)
        return self.written

    def _begin(self, model: Any, optimizers: Any, roots: Sequence[Any] | None) -> None:
        if self._phases or self._plan is not None:
            try:
                self._session = inline.begin(
                    None if self._plan is None else as_plan(self._plan),
                    model=model,
                    optimizer=optimizers,
                    roots=roots,
                    out=self.out,
                    phases=self._phases,
                )
            except StepScopeError as error:
                say_once(f"training goes on without inline recording: {error.message}")
            else:
                self._batches = LoopFinder(self._session, self.guard, steps=False)
                self._batches.install()
                self._session.begin(fresh=True)
        if self._steps:
            self._tracer = Tracer(
                self.out,
                name=self._name,
                model=model,
                active=self._steps,
                start_step=self._number,
                **self._schedule,
                **self._trace_options,
            )
            self._tracer.start()
        if self._trigger is not None:
            self._listener = OnDemand(
                self._trigger,
                out=self.out,
                name=self._name,
                model=model,
                start_step=self._number,
            )
            self._listener.start()

    def _step(self) -> None:
        if self._tracer is not None:
            self._tracer.step(self._number)
        if self._listener is not None:
            self._listener.step(self._number)
        if self._session is not None:
            self._session.begin()

    def _end(self) -> None:
        if self._batches is not None:
            self._batches.remove()
        for recording in (self._tracer, self._listener):
            if recording is not None:
                self.written += recording.stop()
        if self._session is not None:
            inline.stop()
            self.written += self._session.written
        self._tracer = self._listener = self._session = self._batches = None

    def _guarded(self, what: Callable[[], Any]) -> None:
        if self.guard.tripped and self._running:
            return
        try:
            what()
        except Exception as error:
            self.guard.trip(error)
