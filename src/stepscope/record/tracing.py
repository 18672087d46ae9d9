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
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from multiprocessing import util
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from stepscope.record import annotate
from stepscope.record.cycles import Cycles
from stepscope.record.discover import Discovery
from stepscope.record.every_step import EveryStep
from stepscope.record.memory import resident_bytes
from stepscope.record.ranges import ModuleRanges
from stepscope.record.ranks import Process, chosen, this_process
from stepscope.record.trace_file import trace_name, write_snapshot, write_trace
from stepscope.record.trouble import Guard, say_once

T = TypeVar("T")

_MIB = 1 << 20


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
        self.out = Path(out)
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
        self._discovery: Discovery | None = None
        self._ranges: ModuleRanges | None = None
        self._profiler: Any = None
        self._recording = False
        self._recorded: list[int] = []
        self._step_range: Any = None
        self._grown_from: int | None = None
        self._skip_cycle: int | None = None
        self._pid = os.getpid()
        self._writers: list[threading.Thread] = []
        self._over = False
        self._finalizer: util.Finalize | None = None

    @property
    def over(self) -> bool:
        """Whether no further step is recorded; the files may still be on their way."""
        return self._over

    def __enter__(self) -> Tracer:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Begins with the first step."""
        try:
            self._cycles = Cycles(**self._settings)
            if not chosen(self._ranks, this_process()):
                self._over = True
                return
            if os.environ.get("NSYS_PROFILING_SESSION_ID"):
                raise RuntimeError(
                    "Nsight Systems already records this process, and only one of the two can"
                )
            atexit.register(self.stop)
            # Processes of multiprocessing leave without atexit, but run their own finalizers.
            self._finalizer = util.Finalize(None, self.stop, exitpriority=10)
            self._enter_step()
        except Exception as error:
            self.guard.trip(error)
            self._over = True

    def step(self, number: int | None = None) -> None:
        """A step has ended and the next begins.

        Args:
            number: the next step's number, where it is not the one after this.
        """
        if self._over:
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

    def iterate(self, loader: Iterable[T]) -> Iterator[T]:
        """The batches of a loader, each a step; the wait for a batch belongs to its step."""
        for batch in loader:
            yield batch
            self.step()

    def stop(self, *, wait_seconds: float = 120.0) -> list[Path]:
        """Ends the recording and waits until its files are written."""
        if os.getpid() != self._pid:
            return self.written
        if not self._over:
            try:
                self._leave_step()
                self._end_cycle()
            except Exception as error:
                self._give_up(error)
            self._finish()
        deadline = time.monotonic() + wait_seconds
        for writer in self._writers:
            writer.join(max(0.0, deadline - time.monotonic()))
        self._forget_exit()
        return self.written

    def _enter_step(self) -> None:
        cycles = self._cycles
        if cycles is None:
            return
        self._index += 1
        index = self._index
        if cycles.over(index):
            self._end_cycle()
            self._finish()
            return
        self._look_for_model(index)
        action = cycles.action(index)
        if self._skip_cycle == cycles.cycle(index):
            action = "off"
        if action == "off":
            self._end_cycle()
            return
        if self._recording and action == "warmup":
            self._end_cycle()
        if self._profiler is None:
            self._prepare()
        if action == "record":
            if not self._recording:
                self._begin_recording()
            self._recorded.append(self._number)
            self._step_range = _record_function(f"ProfilerStep#{self._number}")
            self._step_range.__enter__()

    def _leave_step(self) -> None:
        if self._step_range is not None:
            self._step_range.__exit__(None, None, None)
            self._step_range = None
        if self._recording and self._grown_from is not None:
            grown = (resident_bytes() or 0) - self._grown_from
            if grown > self._max_bytes and self._cycles is not None:
                self._skip_cycle = self._cycles.cycle(self._index)
                say_once(
                    f"the trace ends after {len(self._recorded)} of {self._cycles.active} steps: "
                    f"it has taken {grown // _MIB} MiB of memory (max_mb)"
                )
                self._end_cycle()

    def _look_for_model(self, index: int) -> None:
        if not self._modules:
            return
        if self._model is None and self._discovery is None and index == 0:
            self._discovery = Discovery()
            self._discovery.install(self.guard)
        elif self._discovery is not None:
            self._discovery.remove()
            self._model = self._model or self._discovery.model
            self._discovery = None

    def _prepare(self) -> None:
        from torch import profiler

        _refuse_second_profiler()
        self._profiler = profiler.profile(
            activities=profiler.supported_activities(),
            record_shapes=self._shapes,
            profile_memory=self._memory,
            with_stack=self._stack,
        )
        self._profiler.prepare_trace()

    def _begin_recording(self) -> None:
        _refuse_second_profiler()
        self._grown_from = resident_bytes()
        self._profiler.start_trace()
        self._recording = True
        if self._modules and self._model is not None:
            self._ranges = ModuleRanges(self._model)
            self._ranges.install(self.guard)
        self._describe()
        annotate.listen(self._open_range)
        if self._snapshot:
            _memory_history(on=True)

    def _describe(self) -> None:
        """Puts into the file what its name and its rows do not say."""
        process = this_process()
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
        annotate.stop_listening(self._open_range)
        if self._ranges is not None:
            self._ranges.remove()
            self._ranges = None
        recorded, self._recorded = self._recorded, []
        was_recording, self._recording = self._recording, False
        if not was_recording:
            # Only warmed up: started and stopped, so that the next one finds a clean profiler; unless
            # the job has started one of its own since, which that would end.
            if not _job_profiles_itself():
                profiler.start_trace()
                profiler.stop_trace()
            return
        process = this_process()
        if self._snapshot:
            self._keep_snapshot(process, recorded)
        began = time.monotonic()
        profiler.stop_trace()
        self.stop_seconds.append(time.monotonic() - began)
        writer = threading.Thread(
            target=self._write, args=(profiler, process, recorded), name="stepscope-trace"
        )
        writer.daemon = True
        writer.start()
        self._writers.append(writer)

    def _write(self, profiler: Any, process: Process, recorded: list[int]) -> None:
        try:
            path = write_trace(
                profiler.export_chrome_trace,
                self.out,
                self._file(process, recorded),
                self._max_bytes,
            )
            if path is not None:
                self.written.append(path)
        except Exception as error:
            self.guard.trip(error)

    def _keep_snapshot(self, process: Process, recorded: list[int]) -> None:
        try:
            path = write_snapshot(self.out, self._file(process, recorded))
            if path is not None:
                self.written.append(path)
        finally:
            _memory_history(on=False)

    def _file(self, process: Process, recorded: list[int]) -> str:
        return trace_name(self.name, process, recorded[0] if self._step_in_name else None)

    def _open_range(self, name: str) -> AbstractContextManager[Any] | None:
        try:
            opened: AbstractContextManager[Any] = _record_function(name)
        except Exception as error:
            self.guard.trip(error)
            return None
        return opened

    def _give_up(self, error: BaseException) -> None:
        """Stops because of `error`; the steps that were recorded are written all the same."""
        self.guard.trip(error)
        with contextlib.suppress(Exception):
            self._end_cycle()
        with contextlib.suppress(Exception):
            if self._ranges is not None:
                self._ranges.remove()
        self._profiler = None
        self._finish()

    def _finish(self) -> None:
        self._over = True
        self._model = None
        annotate.stop_listening(self._open_range)
        if self._discovery is not None:
            self._discovery.remove()
            self._discovery = None
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


def _job_profiles_itself() -> bool:
    from torch.autograd import profiler

    return bool(getattr(profiler, "_is_profiler_enabled", False))


def _refuse_second_profiler() -> None:
    """Raises when the job is profiling itself: starting another profiler would end its own."""
    if _job_profiles_itself():
        raise RuntimeError("the job already runs a profiler of its own, and only one can record")


def _memory_history(*, on: bool) -> None:
    import torch

    if torch.cuda.is_available():
        torch.cuda.memory._record_memory_history(enabled="all" if on else None)


def trace(out: str | Path = "traces", **options: Any) -> Tracer:
    """Records a trace of a few steps; options are those of `Tracer`.

    >>> tracer = trace("traces", active=3)
    """
    return Tracer(out, **options)
