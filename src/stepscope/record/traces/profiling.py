"""One session of torch's profiler: it warms up, records, and stops when nothing writes into it any more.

torch has one session per process (`one_profiler`). gloo's work from a recorded step writes its end into the session's
records, so until all of it has ended the session continues without recording anything new (`in_flight`).
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from stepscope.record import annotate
from stepscope.record.memory import resident_bytes
from stepscope.record.settings import settings
from stepscope.record.targets.around import Wrapper
from stepscope.record.traces.in_flight import InFlight
from stepscope.record.traces.module_ranges import InRange, ModuleRanges, TraceRange, in_trace
from stepscope.record.traces.one_profiler import JOB_PROFILER_RUNS, OneProfiler
from stepscope.record.trouble import Guard


class Profiling:
    """A session of torch's profiler, which warms up from its creation; RuntimeError if another is recording."""

    def __init__(self, profiler_lock: OneProfiler, guard: Guard, options: Mapping[str, Any]) -> None:
        self.recording = False
        self.stop_seconds = 0.0
        """The delay of the job by stopping."""
        self._profiler_lock = profiler_lock
        self._in_flight = InFlight(guard)
        self._guard = guard
        self._modules: ModuleRanges | None = None
        self._about: dict[str, Any] = {}
        self._has_settings = False
        self._step: TraceRange | None = None
        self._grown_from: int | None = None
        self._profile_function: Any = None
        """The job's, whose place torch takes in all threads to record stacks, and leaves empty."""
        self._muted = False
        self._thread_muted = False
        self._profiler = self._prepared(options)

    def _prepared(self, options: Mapping[str, Any]) -> Any:
        from torch import profiler

        self._profiler_lock.take()
        try:
            with self._profiler_lock.ours():
                prepared = profiler.profile(activities=profiler.supported_activities(), **options)
                prepared.prepare_trace()
        except Exception as error:
            self._profiler_lock.release()
            # Older versions refuse, in these words, if the job's own is prepared: it stays prepared.
            if "when it's not running" in str(error):
                raise RuntimeError(JOB_PROFILER_RUNS) from error
            raise
        return prepared

    def start(self, model: Any, about: Mapping[str, Any]) -> None:
        """Starts recording, with ranges around the model's modules and more metadata about the file."""
        self._grown_from = resident_bytes()
        self._profile_function = sys.getprofile()
        with self._profiler_lock.ours():
            self._profiler.start_trace()
        self.recording = True
        self._in_flight.listen()
        classes = {}
        if model is not None:
            self._modules = ModuleRanges(model, self._asking(model))
            self._modules.install(self._guard)
            classes = self._modules.classes()
        annotate.listen(self._open_region)
        self._about = {**about, "modules": classes, "settings": settings()}

    def _asking(self, model: Any) -> InRange:
        """Makes ranges around modules; the first call of the model itself also asks for settings."""

        def in_range(path: str, what: str, guard: Guard) -> Wrapper:
            wrapper = in_trace(path, what, guard)
            if not what.endswith(", model"):
                return wrapper

            def call_in_range(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
                if not self._has_settings:
                    self._has_settings = True
                    guard.ask(self._ask_in_forward, model)
                return wrapper(call, *args, **kwargs)

            return call_in_range

        return in_range

    def _ask_in_forward(self, model: Any) -> None:
        self._about["settings"] = settings(model, in_forward=True)

    def note(self, values: Mapping[str, Mapping[int, float]], ended: Mapping[str, Any] | None = None) -> None:
        """Writes metadata into the file, with its steps' numbers by name, and how the job ended if it has ended."""
        if not self.recording:
            return
        of_steps = {name: list(map(list, steps.items())) for name, steps in values.items()}
        with contextlib.suppress(Exception):
            about = json.dumps({**self._about, **(ended or {}), "values": of_steps})
            self._profiler.add_metadata_json("stepscope", about)

    def start_step(self, number: int) -> None:
        self._step = TraceRange(f"ProfilerStep#{number}")
        self._step.__enter__()

    def end_step(self) -> bool:
        """Ends the running step; False if none was recorded."""
        step, self._step = self._step, None
        if step is None:
            return False
        step.__exit__(None, None, None)
        return True

    @property
    def grown_bytes(self) -> int | None:
        """Growth of the process's memory since recording started; None if the system does not report it."""
        if not self.recording or self._grown_from is None:
            return None
        return (resident_bytes() or 0) - self._grown_from

    def must_run_on(self) -> bool:
        """Whether something that a recorded step started has not ended; until then nothing new is recorded."""
        if not self._in_flight.any():
            return False
        if not self._muted:
            self._muted = True
            self._mute()
        return True

    def _mute(self) -> None:
        import torch

        self.stop_listening()
        toggle = getattr(self._profiler, "toggle_collection_dynamic", None)
        if toggle is not None:
            toggle(False, torch.profiler.supported_activities())
        else:
            # Before torch 2.6 this thread can be muted, but not its device.
            torch.autograd._enable_record_function(False)
            self._thread_muted = True

    def quieten(self) -> bool:
        """Removes hooks and ranges; True if a recorded step has started and not ended."""
        try:
            return self.end_step()
        finally:
            self.stop_listening()

    def stop_listening(self) -> None:
        """Removes hooks and ranges; the running step keeps its own."""
        self._in_flight.stop_listening()
        annotate.stop_listening(self._open_region)
        if self._modules is not None:
            self._modules.remove()
            self._modules = None

    def _open_region(self, name: str) -> AbstractContextManager[Any] | None:
        return self._guard.ask(TraceRange, name)

    def stop(self) -> Any:
        """Stops, and returns torch's profiler for export; None if nothing was recorded."""
        was_recording, self.recording = self.recording, False
        # Not stored here, because its data is large.
        profiler, self._profiler = self._profiler, None
        try:
            with self._profiler_lock.ours():
                if not was_recording:
                    # Only warmed up: started and stopped, so that the next one finds a clean profiler.
                    self._profile_function = sys.getprofile()
                    profiler.start_trace()
                began = time.monotonic()
                if was_recording:
                    self._in_flight.settle()
                profiler.stop_trace()
        finally:
            if self._profile_function is not None and sys.getprofile() is None:
                sys.setprofile(self._profile_function)
            if self._thread_muted:
                from torch.autograd import _enable_record_function

                _enable_record_function(True)
            self._in_flight.forget()
            self._profiler_lock.release()
        self.stop_seconds = time.monotonic() - began
        return profiler if was_recording else None


def quieten_profiler() -> None:
    """Keeps the profiler's library from writing to stderr, unless the environment says otherwise; call it first."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
