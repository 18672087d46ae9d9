"""Traces a few steps with torch.profiler, one file per rank, with as little delay of the job as possible.

    with stepscope.trace("traces", model=model) as tracer:
        for batch in loader:
            ...
            tracer.step()

Stopping the profiler delays the job; exporting, compressing and writing happen in the background.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
import time
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from stepscope.base.chosen_ranks import chosen, may_be_chosen
from stepscope.base.folders import from_anywhere
from stepscope.record import annotate
from stepscope.record.job.at_end import PATIENCE_SECONDS, AtEnd
from stepscope.record.job.exit_reason import ExitReason, closing_reason, exit_reason, handled_exception
from stepscope.record.job.loop import LoopFinder
from stepscope.record.job.trained_model import ModelSearch
from stepscope.record.output import Background, Who, warn_unusable
from stepscope.record.recording import SCRIPT_FOLDERS, EveryStep
from stepscope.record.traces.allocator_history import AllocatorHistory
from stepscope.record.traces.file import file_safe, trace_name, write_trace
from stepscope.record.traces.graph_captures import GraphCaptures
from stepscope.record.traces.one_profiler import OneProfiler
from stepscope.record.traces.profiling import Profiling
from stepscope.record.trouble import Guard, warn_once

_MIB = 1 << 20
_NEXT_STEP_SECONDS, _NEXT_STEPS = 2.0, 2
"""Wait for the next step of another thread when a job ends: this many times the longest step of the trace, or this
time."""
_STOPPING_SECONDS = 30.0


Action = Literal["off", "warmup", "record"]

MAX_ACTIVE = 5
"""Largest default number of recorded steps: a trace of an entire run is too large to work with."""


@dataclass(frozen=True, slots=True)
class Cycles:
    """The schedule of a trace. The profiler warms up before it records, because the first kernels after its start are
    lost, and its start-up would look like the job's.

    Args:
        wait: steps before the warm-up, in every cycle.
        warmup: steps in which the profiler runs and its data is discarded.
        active: recorded steps.
        repeat: number of cycles.

    Raises:
        ValueError: a number is too small.

    >>> cycles = Cycles(wait=1, warmup=1, active=2)
    >>> [cycles.action(index) for index in range(5)]
    ['off', 'warmup', 'record', 'record', 'off']
    """

    wait: int = 1
    warmup: int = 1
    active: int = MAX_ACTIVE
    repeat: int = 1

    def __post_init__(self) -> None:
        if min(self.wait, self.warmup) < 0 or min(self.active, self.repeat) < 1:
            raise ValueError("wait and warmup are 0 or more, active and repeat 1 or more")

    @property
    def length(self) -> int:
        return self.wait + self.warmup + self.active

    def cycle(self, index: int) -> int:
        """The cycle that a step belongs to, from 0."""
        return index // self.length

    def action(self, index: int) -> Action:
        """What to do in a step, counted from the recording's first."""
        if index < 0 or self.cycle(index) >= self.repeat:
            return "off"
        within = index % self.length
        if within < self.wait:
            return "off"
        return "warmup" if within < self.wait + self.warmup else "record"

    def over(self, index: int) -> bool:
        return self.cycle(index) >= self.repeat


class Tracer(EveryStep):
    """Records scheduled steps on the chosen ranks.

    Never raises into the job: an error becomes one warning, and the job runs untraced.

    Args:
        out: directory of the files `{name}-{rank}-of-{world_size}.json.gz`.
        wait, warmup, active, repeat: see `Cycles`.
        ranks: the ranks that record, as in `chosen_ranks` (`"0,8"`, `"local:0"`); other ranks do nothing.
        model: the outermost module, for module paths; None finds it in the first step.
        stack: whether call stacks are recorded; they make traces large and steps slow.
        memory_snapshot: also record the CUDA allocator's history of the recorded steps, and take another snapshot if
            the device runs out of memory in them.
        max_mb: recording ends at the next step after it has taken this much memory, and a trace with more text than
            this is not written (MiB).
        step_in_name: whether the first recorded step's number is in the file's name; always with several cycles.
    """

    uses_batches = True

    def __init__(
        self,
        out: str | Path = "traces",
        *,
        name: str | None = None,
        wait: int = 1,
        warmup: int = 1,
        active: int = 5,
        repeat: int = 1,
        ranks: str | None = None,
        model: Any = None,
        modules: bool = True,
        shapes: bool = True,
        memory: bool = False,
        stack: bool = False,
        memory_snapshot: bool = False,
        max_mb: int = 2048,
        start_step: int = 0,
        step_in_name: bool = False,
    ) -> None:
        # Absolute, because a job may change its directory.
        self.out = from_anywhere(out)
        self.name = name or _script_name()
        self.guard = Guard("the trace")
        self.written: list[Path] = []
        self.stop_seconds: list[float] = []
        """The delay of the job by each stop of the profiler."""
        self._settings = {"wait": wait, "warmup": warmup, "active": active, "repeat": repeat}
        self._cycles = Cycles()
        self._ranks = ranks
        self._asked_rank = False
        self._who = Who()
        self._options = {"record_shapes": shapes, "profile_memory": memory, "with_stack": stack}
        self._profiler_lock: OneProfiler | None = None
        self._captures: GraphCaptures | None = None
        self._profiling: Profiling | None = None
        self._search = ModelSearch(model, self.guard) if modules else None
        self._history = AllocatorHistory() if memory_snapshot else None
        self._max_bytes = max_mb * _MIB
        self._step_in_name = step_in_name or repeat > 1
        self._started_epoch_s = time.time()
        self._background = Background("stepscope-trace", self.guard)
        self._number = start_step
        self._index = -1
        self._lead_in = 0
        self._recorded: list[int] = []
        self._entered = time.monotonic()
        self._longest_seconds = 0.0
        self._values: dict[str, dict[int, float]] = {}
        self._skip_cycle: int | None = None
        self._survived = handled_exception()
        self._at_end: AtEnd | None = None
        self._thread = 0
        self._of_thread = threading.local()
        self._asked_to_end: ExitReason | None = None
        self._thread_ended_it = threading.Event()
        self._over = self._waited = False
        self._batches = LoopFinder(self, steps=False)

    def __enter__(self) -> Tracer:
        # Counts the batches of a loop that only reports where its steps end.
        self.guard.ask(self._batches.install)
        return super().__enter__()

    def __exit__(self, *exception: object) -> None:
        self._batches.remove()
        super().__exit__(*exception)

    @property
    def over(self) -> bool:
        return self._over

    @property
    def disturbs(self) -> bool:
        """Whether steps are slowed down now: the profiler runs, or its file is being made."""
        return self._profiling is not None or self._background.busy

    @property
    def records_values(self) -> bool:
        return self._profiling is not None and self._profiling.recording

    def start(self, *, lead_in: bool = False) -> None:
        try:
            warn_unusable(self.out)
            self._survived = handled_exception()
            self._cycles = Cycles(**self._settings)
            self._started_epoch_s = time.time()
            if not may_be_chosen(self._ranks, self._who.process()):
                self._over = True
                return
            if os.environ.get("NSYS_PROFILING_SESSION_ID"):
                raise RuntimeError("Nsight Systems already records this process, and only one of the two can")
            wait = functools.partial(self._background.wait, PATIENCE_SECONDS)
            self._at_end = AtEnd(stop=self.stop, save=wait, leave=self._cut_off)
            annotate.take_values(self.add_value)
            self._profiler_lock = OneProfiler(self._give_way)
            self._profiler_lock.install()
            self._captures = self._graph_captures(self._profiler_lock)
            self._captures.install()
            if self._search is not None:
                self._search.start()
            if lead_in:
                self._lead_in = 1 if self._cycles.wait else 2
                self._index = -self._lead_in
            self._enter_step()
        except Exception as error:
            self._give_up(error)

    def step(self, number: int | None = None) -> None:
        if self._over or self.guard.inherited:
            return
        if self.guard.error is not None:
            self._give_up(self.guard.error)
            return
        self._survived = handled_exception()
        try:
            self._leave_step()
            if self._asked_to_end is not None:
                self._end_cycle(self._asked_to_end)
                self._thread_ended_it.set()
                return
            self._number = self._number + 1 if number is None else number
            self._enter_step()
        except Exception as error:
            self._give_up(error)

    def add_value(self, name: str, number: float) -> None:
        if self.records_values:
            of_steps = self._values.setdefault(name, {})
            of_steps[self._number] = of_steps.get(self._number, 0) + number

    def stop(self, *, wait_seconds: float = 120.0) -> list[Path]:
        if self.guard.inherited:
            return self.written
        self.stopped = True
        if not self._over:
            try:
                self._warn_of_nothing()
                self._end_cycle(closing_reason(self._survived))
            except Exception as error:
                self._give_up(error)
            self._finish()
        if not self._background.wait(wait_seconds):
            warn_once(f"a trace is not written after {wait_seconds:.0f} s; it may get lost")
        self._forget_exit()
        return self.written

    def _enter_step(self) -> None:
        cycles, entered = self._cycles, time.monotonic()
        if self._profiling is not None:
            self._longest_seconds = max(self._longest_seconds, entered - self._entered)
        self._entered = entered
        self._index += 1
        index = self._index
        action = cycles.action(index)
        if self._skip_cycle == cycles.cycle(index):
            action = "off"
        if action != "record" and self._profiling is not None and self._profiling.must_run_on():
            if action == "warmup":
                self._skip_cycle = cycles.cycle(index)
            return
        if cycles.over(index):
            self._end_cycle()
            self._finish()
            return
        if (
            action != "off"
            and self._profiling is None
            and self._profiler_lock is not None
            and (self._profiler_lock.waits or (self._lead_in and self._profiler_lock.theirs_runs))
        ):
            # The script has its own trace or profiler under `stepscope record`: they take turns.
            self._waited = True
            self._index -= 1
            return
        if self._search is not None:
            self._search.start_step(index, first_recorded=cycles.wait + cycles.warmup)
        if action == "off":
            self._end_cycle()
            return
        if not self._asked_rank:
            # A process group created since start() knows the rank better.
            self._asked_rank = True
            if not chosen(self._ranks, self._who.process()):
                self._finish()
                return
        if self.records_values and action == "warmup":
            self._end_cycle()
        if self._profiling is None and self._profiler_lock is not None:
            if self._captures is not None:
                self._captures.give_way()
            self._profiling = Profiling(self._profiler_lock, self.guard, self._options)
            self._thread = threading.get_ident()
            if not hasattr(self._of_thread, "end"):
                self._of_thread.end = _EndOfThread(weakref.WeakMethod(self._thread_ends))
        if action == "record" and self._profiling is not None:
            self._record_step(self._profiling)

    def _record_step(self, profiling: Profiling) -> None:
        if not profiling.recording:
            profiling.start(None if self._search is None else self._search.model, self._about())
            if self._history is not None:
                oom = trace_name(f"{self.name}.oom", self._who.named(), self._number if self._step_in_name else None)
                self._history.start(self.out, oom)
        profiling.start_step(self._number)

    def _about(self) -> dict[str, Any]:
        return {**self._who.named().fields(), "first_step": self._number}

    def _graph_captures(self, profiler_lock: OneProfiler) -> GraphCaptures:
        def write(profiler: Any, number: int) -> None:
            name = trace_name(f"{file_safe(self.name)}.capture{number}", self._who.named(), first_step=None)
            self._write(profiler, name)

        return GraphCaptures(
            profiler_lock,
            busy=lambda: self._profiling is not None,
            model=lambda: None if self._search is None else self._search.model,
            about=lambda: self._who.named().fields(),
            write=write,
        )

    def _leave_step(self) -> None:
        profiling = self._profiling
        if profiling is None:
            return
        if profiling.end_step():
            self._recorded.append(self._number)
        grown = profiling.grown_bytes
        if grown is not None and grown > self._max_bytes:
            self._skip_cycle = self._cycles.cycle(self._index)
            warn_once(
                f"the trace ends after {len(self._recorded)} of {self._cycles.active} steps: "
                f"it has taken {grown // _MIB} MiB of memory (max_mb)"
            )
            self._end_cycle()

    def _warn_of_nothing(self) -> None:
        cycles = self._cycles
        if self._profiler_lock is None or self.records_values or self.stop_seconds:
            return
        if self._waited:
            warn_once(
                "nothing was traced: until the job was nearly over another trace was being recorded, "
                "and only one can be at a time"
            )
            return
        done = self._index + self._lead_in
        if self._lead_in and done < 2:
            warn_once(
                "nothing was traced: an optimizer's steps are the steps, and none has stepped twice in this process. "
                "A loop without one says where its steps are, by `with stepscope.inline.iteration():` around each; "
                "processes that a script starts itself are not recorded"
            )
            return
        warn_once(
            f"nothing was traced: the job was over after {done} step{'s'[: done != 1]}, and those to "
            f"record come after wait={cycles.wait} and warmup={cycles.warmup}"
        )

    def _end_cycle(self, ended: ExitReason | None = None) -> None:
        if self._profiling is not None and threading.get_ident() != self._thread:
            self._have_thread_end(self._profiling, ended)
            return
        profiling, self._profiling = self._profiling, None
        if profiling is None:
            return
        recorded, self._recorded = self._recorded, []
        try:
            unfinished = self._number if profiling.quieten() else None
            first_step = recorded[0] if recorded else self._number
            name = trace_name(self.name, self._who.named(), first_step if self._step_in_name else None)
            values, self._values = self._values, {}
            profiling.note(values, {"ended": ended, "ended_in_step": self._number} if ended else {})
            if profiling.recording and self._history is not None:
                self.written += self._history.keep(self.out, name)
        finally:
            profiler = profiling.stop()
        if profiler is None:
            return
        self.stop_seconds.append(profiling.stop_seconds)
        if recorded:
            self._write(profiler, name, unfinished)
        elif self._skip_cycle is None and not self.guard.tripped:
            warn_once(f"no trace: the job ended within step {self._number}, the first to be recorded")

    def _have_thread_end(self, profiling: Profiling, ended: ExitReason | None) -> None:
        """Lets the training thread end the trace at its next step, because torch crashes if another thread stops it."""
        self._asked_to_end = ended or {}
        patience = max(_NEXT_STEPS * self._longest_seconds, _NEXT_STEP_SECONDS)
        if not self._thread_ended_it.wait(min(patience, _STOPPING_SECONDS)) and self._profiling is profiling:
            profiling.stop_listening()
            warn_once(
                "the trace is lost: the thread that runs the steps made none more, and torch's profiler can be "
                "stopped in that thread alone"
            )
            return
        self._thread_ended_it.wait(_STOPPING_SECONDS)

    def _thread_ends(self) -> None:
        if self._profiling is not None and threading.get_ident() == self._thread:
            self.guard.ask(self._end_cycle)
            self._thread_ended_it.set()
            self._finish()

    def _cut_off(self) -> None:
        """Ends the trace when the process exits by `os._exit` or SIGTERM."""
        if not self._over:
            self._end_cycle(exit_reason())

    def _write(self, profiler: Any, name: str, unfinished_step: int | None = None) -> None:
        def write() -> None:
            # Replaces an earlier run's trace of this name, but not a file that another process is writing now.
            path = write_trace(
                profiler.export_chrome_trace,
                self.out,
                name,
                self._max_bytes,
                unfinished_step=unfinished_step,
                since_epoch_s=self._started_epoch_s,
            )
            if path is not None:
                self.written.append(path)

        self._background.run(write)

    def _give_way(self) -> None:
        """Ends the trace when the job starts its own profiler, which only works after that."""
        if self._captures is not None:
            self._captures.give_way()
        if self._over or self._profiling is None or self.guard.inherited:
            return
        self._give_up(RuntimeError("the job starts a profiler of its own, and only one can record"))

    def _give_up(self, error: BaseException) -> None:
        """Stops because of `error`; steps recorded so far are still written."""
        self.guard.trip(error)
        with contextlib.suppress(Exception):
            self._end_cycle()
        self._finish()

    def _finish(self) -> None:
        self._over = True
        annotate.stop_taking(self.add_value)
        if self._search is not None:
            self._search.close()
        if self._captures is not None:
            self._captures.remove()
            self._captures = None
        if self._profiler_lock is not None:
            self._profiler_lock.remove()
            self._profiler_lock = None
        self._forget_exit()

    def _forget_exit(self) -> None:
        if self._background.busy:
            return
        if self._at_end is not None:
            self._at_end.cancel()
            self._at_end = None


class _EndOfThread:
    """Kept in a `threading.local`: the ending thread deletes it, and so calls the method in that thread."""

    def __init__(self, method: weakref.WeakMethod[Any]) -> None:
        self._method = method

    def __del__(self) -> None:
        method = self._method()
        if method is not None:
            method()


def _script_name() -> str:
    script = Path(sys.argv[0] or "trace")
    # `python -m package` runs package/__main__.py.
    return (script.parent.name if script.stem == "__main__" else script.stem) or "trace"


def trace(out: str | Path = "traces", **options: Any) -> Tracer:
    """Records a trace of a few steps; options are those of `Tracer`.

    >>> tracer = trace("traces", active=3)
    """
    tracer = Tracer(out, **options)
    SCRIPT_FOLDERS.append(tracer.out)
    return tracer
