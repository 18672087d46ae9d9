"""A trace of a few steps with torch.profiler, one file per rank, without holding the job up.

    with stepscope.trace("traces", model=model) as tracer:
        for batch in loader:
            ...
            tracer.step()

Stopping the profiler takes time that nobody can save; exporting, compressing and writing happen in
the background, in temporary space, and the file gets its name when it is whole.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import sys
import threading
import time
from contextlib import AbstractContextManager
from multiprocessing import util
from pathlib import Path
from typing import Any

from stepscope.record import annotate
from stepscope.record.cycles import Cycles
from stepscope.record.discover import Discovery
from stepscope.record.every_step import EveryStep
from stepscope.record.in_flight import InFlight
from stepscope.record.memory import resident_bytes
from stepscope.record.one_profiler import JOBS_OWN, OneProfiler
from stepscope.record.ranges import ModuleRanges
from stepscope.record.ranks import Process, chosen, this_process
from stepscope.record.trace_file import trace_name, write_snapshot, write_trace
from stepscope.record.trouble import Guard, say_once

_MIB = 1 << 20
_MOST_EXTRA_STEPS = 100


class Tracer(EveryStep):
    """Records the steps that a schedule names, on the ranks that were chosen.

    It never raises into the job: what goes wrong is said once, and the job runs untraced.

    Args:
        out: directory of the files `{name}-{rank}-of-{world_size}.json.gz`.
        name: of the trace; by default the script's.
        wait, warmup, active, repeat: see `Cycles`.
        ranks: `"0,8"`, `"0-3"`, `"local:0"` or `"all"`; a rank that is not chosen does nothing.
        model: the outermost module, for module paths; None finds it in the first step.
        modules: whether module paths are recorded.
        shapes: whether operators' input shapes are recorded.
        memory: whether allocations are recorded.
        stack: whether call stacks are recorded; they make traces large and steps slow.
        memory_snapshot: also the CUDA allocator's history of the recorded steps.
        max_mb: recording ends at the next step when it has taken this much memory, and a trace
            whose text is larger than this is not written (MiB).
        start_step: number of the first step, for a run that was resumed.
        step_in_name: whether the first recorded step's number is in the file's name; always with
            several cycles.
    """

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
        # A job may change its directory; its traces stay where they were to go.
        self.out = Path(out).absolute()
        self.name = name or _script_name()
        self.guard = Guard("the trace")
        self.written: list[Path] = []
        self.stop_seconds: list[float] = []
        """How long each stop of the profiler held the job up."""
        self.driver: str | None = None
        self._settings = {"wait": wait, "warmup": warmup, "active": active, "repeat": repeat}
        self._cycles: Cycles | None = None
        self._ranks = ranks
        self._model = model
        self._modules = modules
        self._shapes = shapes
        self._memory = memory
        self._stack = stack
        self._snapshot = memory_snapshot
        self._max_bytes = max_mb * _MIB
        self._number = start_step
        self._step_in_name = step_in_name or repeat > 1
        self._index = -1
        self._lead_in = 0
        self._looked = False
        self._asked_rank = False
        self._process: Process | None = None
        self._one: OneProfiler | None = None
        self._discovery: Discovery | None = None
        self._ranges: ModuleRanges | None = None
        self._profiler: Any = None
        self._recording = False
        self._in_flight = InFlight(self.guard)
        self._muted = False
        self._extra_steps = 0
        self._recorded: list[int] = []
        self._step_range: Any = None
        self._grown_from: int | None = None
        self._skip_cycle: int | None = None
        self._pid = os.getpid()
        self._writers: list[threading.Thread] = []
        self._over = False
        self._finalizer: util.Finalize | None = None
        self._began_epoch_s = time.time()

    @property
    def over(self) -> bool:
        """Whether no further step is recorded; the files may still be on their way."""
        return self._over

    def start(self, *, lead_in: bool = False) -> None:
        """Begins with the first step.

        Args:
            lead_in: what runs until `step` is called first is no step but the job's beginning; it
                stands for the first waiting step, and is never recorded.
        """
        try:
            self._cycles = Cycles(**self._settings)
            self._began_epoch_s = time.time()
            if not chosen(self._ranks, self._who()):
                self._over = True
                return
            if os.environ.get("NSYS_PROFILING_SESSION_ID"):
                raise RuntimeError(
                    "Nsight Systems already records this process, and only one of the two can"
                )
            atexit.register(self.stop)
            # Processes of multiprocessing leave without atexit, but run their own finalizers.
            self._finalizer = util.Finalize(None, self.stop, exitpriority=10)
            self._one = OneProfiler(self._give_way)
            self._one.install()
            if lead_in:
                self._lead_in = 1 if self._cycles.wait else 2
                self._index = -self._lead_in
            self._enter_step()
        except Exception as error:
            self._give_up(error)

    def step(self, number: int | None = None) -> None:
        """A step has ended and the next begins.

        Args:
            number: the next step's number, where it is not the one after this.
        """
        if self._over or os.getpid() != self._pid:
            return
        if self.guard.error is not None:
            self._give_up(self.guard.error)
            return
        try:
            self._leave_step()
            self._number = self._number + 1 if number is None else number
            self._enter_step()
        except Exception as error:
            self._give_up(error)

    def stop(self, *, wait_seconds: float = 120.0) -> list[Path]:
        """Ends the recording and waits until its files are written."""
        if os.getpid() != self._pid:
            return self.written
        if not self._over:
            try:
                self._say_what_is_missing()
                self._end_cycle()
            except Exception as error:
                self._give_up(error)
            self._finish()
        deadline = time.monotonic() + wait_seconds
        for writer in self._writers:
            writer.join(max(0.0, deadline - time.monotonic()))
            if writer.is_alive():
                say_once(f"a trace is not written after {wait_seconds:.0f} s; it may get lost")
        self._forget_exit()
        return self.written

    def _who(self) -> Process:
        """This process; its process group may be made after start(), and be gone at the end."""
        if self._process is None or self._process.rule != "torch.distributed":
            self._process = this_process()
        return self._process

    def _enter_step(self) -> None:
        cycles = self._cycles
        if cycles is None:
            return
        self._index += 1
        index = self._index
        action = cycles.action(index)
        if self._skip_cycle == cycles.cycle(index):
            action = "off"
        if self._recording and action != "record" and self._held_open():
            if action == "warmup":
                self._skip_cycle = cycles.cycle(index)
            return
        if cycles.over(index):
            self._end_cycle()
            self._finish()
            return
        self._look_for_model()
        if action == "off":
            self._end_cycle()
            return
        if not self._asked_rank:
            # A process group that the job has made since start() knows better who this is.
            self._asked_rank = True
            if not chosen(self._ranks, self._who()):
                self._finish()
                return
        if self._recording and action == "warmup":
            self._end_cycle()
        if self._profiler is None:
            self._prepare()
        if action == "record":
            if not self._recording:
                self._begin_recording()
            self._step_range = _record_function(f"ProfilerStep#{self._number}")
            self._step_range.__enter__()

    def _held_open(self) -> bool:
        """Whether the profiler cannot stop yet: what a recorded step began has not ended."""
        if not self._in_flight.any():
            return False
        if not self._muted:
            self._muted = self._mute()
            self._extra_steps += 1
        return self._muted or self._extra_steps <= _MOST_EXTRA_STEPS

    def _mute(self) -> bool:
        """Lets the profiler hear nothing new; False where this torch cannot (before 2.6)."""
        from torch import profiler

        toggle = getattr(self._profiler, "toggle_collection_dynamic", None)
        if toggle is None:
            return False
        toggle(False, profiler.supported_activities())
        self._close_ears()
        return True

    def _close_ears(self) -> None:
        annotate.stop_listening(self._open_range)
        self._in_flight.stop_listening()
        if self._ranges is not None:
            self._ranges.remove()
            self._ranges = None

    def _leave_step(self) -> None:
        if self._step_range is not None:
            self._step_range.__exit__(None, None, None)
            self._step_range = None
            self._recorded.append(self._number)
        if self._recording and self._grown_from is not None:
            grown = (resident_bytes() or 0) - self._grown_from
            if grown > self._max_bytes and self._cycles is not None:
                self._skip_cycle = self._cycles.cycle(self._index)
                say_once(
                    f"the trace ends after {len(self._recorded)} of {self._cycles.active} steps: "
                    f"it has taken {grown // _MIB} MiB of memory (max_mb)"
                )
                self._end_cycle()

    def _say_what_is_missing(self) -> None:
        """Words for a job that ends before anything was recorded."""
        cycles = self._cycles
        if cycles is None or self._recording or self.written or self._writers:
            return
        done = self._index + self._lead_in
        if self._lead_in and done < 2:
            say_once(
                "nothing was traced: no optimizer has stepped twice, and its steps are the steps"
            )
            return
        say_once(
            f"nothing was traced: the job was over after {done} step{'s'[: done != 1]}, and those to "
            f"record come after wait={cycles.wait} and warmup={cycles.warmup}"
        )

    def _look_for_model(self) -> None:
        if not self._modules:
            return
        if self._model is None and not self._looked and self._index >= self._look_at():
            self._looked = True
            self._discovery = Discovery()
            self._discovery.install(self.guard)
        elif self._discovery is not None:
            self._discovery.remove()
            self._model = self._model or self._discovery.model
            self._discovery = None

    def _look_at(self) -> int:
        """The step to find the model in: the second, where it is not recorded yet.

        Code is compiled in the first, and would be compiled again without our hooks.
        """
        cycles = self._cycles
        first_recorded = 0 if cycles is None else cycles.wait + cycles.warmup
        return min(1, first_recorded - 1)

    def _prepare(self) -> None:
        from torch import profiler

        if self._one is None:
            return
        self._one.take()
        try:
            with self._one.ours():
                prepared = profiler.profile(
                    activities=profiler.supported_activities(),
                    record_shapes=self._shapes,
                    profile_memory=self._memory,
                    with_stack=self._stack,
                )
                prepared.prepare_trace()
        except Exception as error:
            self._one.release()
            # Older torches refuse, in these words, where the job's own is prepared: it stays so.
            if "when it's not running" in str(error):
                raise RuntimeError(JOBS_OWN) from error
            raise
        self._profiler = prepared

    def _begin_recording(self) -> None:
        self._grown_from = resident_bytes()
        with _ours(self._one):
            self._profiler.start_trace()
        self._recording = True
        self._muted, self._extra_steps = False, 0
        self._in_flight.listen()
        if self._modules and self._model is not None:
            self._ranges = ModuleRanges(self._model)
            self._ranges.install(self.guard)
        self._describe()
        annotate.listen(self._open_range)
        if self._snapshot:
            self._begin_history()

    def _describe(self) -> None:
        """Puts into the file what its name and its rows do not say."""
        process = self._who()
        about = {
            "rank": process.rank,
            "local_rank": process.local_rank,
            "world_size": process.world_size,
            "host_name": process.host,
            "pid": process.pid,
            "rank_rule": process.rule,
            "first_step": self._number,
            "modules": self._ranges.classes() if self._ranges is not None else {},
        }
        with contextlib.suppress(Exception):
            self._profiler.add_metadata_json("stepscope", json.dumps(about))

    def _end_cycle(self) -> None:
        profiler, self._profiler = self._profiler, None
        if profiler is None:
            return
        unfinished, self._step_range = self._step_range, None
        if unfinished is not None:
            unfinished.__exit__(None, None, None)
        self._close_ears()
        recorded, self._recorded = self._recorded, []
        was_recording, self._recording = self._recording, False
        process = self._who()
        if was_recording and self._snapshot:
            self._keep_snapshot(process, recorded)
        try:
            with _ours(self._one):
                if not was_recording:
                    # Only warmed up: started and stopped, so that the next finds a clean profiler.
                    profiler.start_trace()
                began = time.monotonic()
                if was_recording:
                    self._in_flight.settle()
                profiler.stop_trace()
        finally:
            self._in_flight.forget()
            if self._one is not None:
                self._one.release()
        if not was_recording:
            return
        self.stop_seconds.append(time.monotonic() - began)
        if not recorded:
            if self._skip_cycle is None and not self.guard.tripped:
                say_once(f"no trace: the job left step {self._number}, the first one to record")
            return
        writer = threading.Thread(
            target=self._write,
            args=(profiler, process, recorded, None if unfinished is None else self._number),
            name="stepscope-trace",
        )
        writer.daemon = True
        writer.start()
        self._writers.append(writer)

    def _write(
        self, profiler: Any, process: Process, recorded: list[int], unfinished: int | None
    ) -> None:
        try:
            path = write_trace(
                profiler.export_chrome_trace,
                self.out,
                self._file(process, recorded),
                self._max_bytes,
                unfinished_step=unfinished,
                since_epoch_s=self._began_epoch_s,
            )
            if path is not None:
                self.written.append(path)
        except Exception as error:
            self.guard.trip(error)

    def _begin_history(self) -> None:
        import torch

        if torch.cuda.is_available():
            torch.cuda.memory._record_memory_history(enabled="all")
        else:
            self._snapshot = False
            say_once(
                "there is no memory snapshot: it is the CUDA allocator's, and CUDA is not there"
            )

    def _keep_snapshot(self, process: Process, recorded: list[int]) -> None:
        """Keeps the allocator's history; the trace does not depend on it."""
        import torch

        try:
            path = write_snapshot(self.out, self._file(process, recorded or [self._number]))
            if path is not None:
                self.written.append(path)
            torch.cuda.memory._record_memory_history(enabled=None)
        except Exception as error:
            say_once(f"there is no memory snapshot: {type(error).__name__}: {error}")

    def _file(self, process: Process, recorded: list[int]) -> str:
        return trace_name(self.name, process, recorded[0] if self._step_in_name else None)

    def _open_range(self, name: str) -> AbstractContextManager[Any] | None:
        try:
            opened: AbstractContextManager[Any] = _record_function(name)
        except Exception as error:
            self.guard.trip(error)
            return None
        return opened

    def _give_way(self) -> None:
        """The job begins a profiler of its own, which only works when ours has ended."""
        if self._over or self._profiler is None or os.getpid() != self._pid:
            return
        self._give_up(RuntimeError("the job starts a profiler of its own, and only one can record"))

    def _give_up(self, error: BaseException) -> None:
        """Stops because of `error`; the steps that were recorded are written all the same."""
        self.guard.trip(error)
        with contextlib.suppress(Exception):
            self._end_cycle()
        with contextlib.suppress(Exception):
            if self._ranges is not None:
                self._ranges.remove()
        self._profiler = self._step_range = None
        self._finish()

    def _finish(self) -> None:
        self._over = True
        self._model = None
        annotate.stop_listening(self._open_range)
        if self._discovery is not None:
            self._discovery.remove()
            self._discovery = None
        if self._one is not None:
            self._one.remove()
            self._one = None
        self._forget_exit()

    def _forget_exit(self) -> None:
        if self._finalizer is not None and not any(one.is_alive() for one in self._writers):
            atexit.unregister(self.stop)
            self._finalizer.cancel()
            self._finalizer = None


def _record_function(name: str) -> Any:
    from torch.profiler import record_function

    return record_function(name)


def _script_name() -> str:
    script = Path(sys.argv[0] or "trace")
    # `python -m package` runs package/__main__.py.
    return (script.parent.name if script.stem == "__main__" else script.stem) or "trace"


def _ours(one: OneProfiler | None) -> AbstractContextManager[None]:
    return contextlib.nullcontext() if one is None else one.ours()


def trace(out: str | Path = "traces", **options: Any) -> Tracer:
    """Records a trace of a few steps; options are those of `Tracer`.

    >>> tracer = trace("traces", active=3)
    """
    return Tracer(out, **options)
