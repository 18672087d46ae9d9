"""Records the captures of CUDA graphs, a file each, which show what replays run.

A job captures its graphs when it starts, long before the traced steps. So torch's profiler runs around each capture.
Its file is read with the traces. A trace that is being recorded contains the capture.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from stepscope.record.targets.patches import Patches
from stepscope.record.traces.one_profiler import OneProfiler
from stepscope.record.traces.profiling import Profiling
from stepscope.record.trouble import Guard, warn_once

MAX_CAPTURES = 100
"""Limit of recorded captures: servers capture a graph for each batch size."""
MAX_SECONDS = 60.0
"""Limit of the time that recording all of them may delay the job."""


class GraphCaptures:
    """Records each capture that starts while nothing else is recorded; `write` gets torch's profiler and a number."""

    def __init__(
        self,
        profiler_lock: OneProfiler,
        *,
        busy: Callable[[], bool],
        model: Callable[[], Any],
        about: Callable[[], Mapping[str, Any]],
        write: Callable[[Any, int], None],
    ) -> None:
        self.guard = Guard("recording the captures of CUDA graphs")
        self._profiler_lock = profiler_lock
        self._busy = busy
        self._model = model
        self._about = about
        self._write = write
        self._patches = Patches()
        self._session: Profiling | None = None
        self._thread = 0
        self._number = 0
        self._seconds = 0.0
        self._full = False

    def install(self) -> None:
        """Starts to watch for captures; does nothing if this torch has none."""
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        graph = getattr(cuda, "CUDAGraph", None)
        makes = {"capture_begin": self._beginning, "capture_end": self._ending}
        self._patches.install(graph, makes)

    def remove(self) -> None:
        self._patches.remove()
        self.give_way()

    def give_way(self) -> None:
        """Drops a running recording, because another profiler starts."""
        self.guard.ask(self._finish, False)

    def _beginning(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def start_capture(*args: Any, **kwargs: Any) -> Any:
            self.guard.ask(self._start)
            try:
                return original(*args, **kwargs)
            except BaseException:
                self.give_way()
                raise

        return start_capture

    def _ending(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def end_capture(*args: Any, **kwargs: Any) -> Any:
            try:
                ended = original(*args, **kwargs)
            except BaseException:
                self.give_way()
                raise
            if self._thread == threading.get_ident():
                self.guard.ask(self._finish, True)
            return ended

        return end_capture

    def _start(self) -> None:
        if self._session is not None or self._busy():
            return
        if self._number >= MAX_CAPTURES or self._seconds > MAX_SECONDS:
            if not self._full:
                warn_once(
                    f"{self._number} captures of CUDA graphs are recorded, and no more: they took "
                    f"{self._seconds:.0f} s; replays of the others will have no operators"
                )
            self._full = True
            return
        began, model = time.monotonic(), self._model()
        # Without the model's own paths, frames name modules by their classes.
        options = {"record_shapes": True, "with_stack": model is None}
        try:
            session = Profiling(self._profiler_lock, self.guard, options)
        except RuntimeError:
            return  # the job has its own recording
        self._session, self._thread = session, threading.get_ident()
        session.start(model, {**self._about(), "graph_capture": self._number})
        self._seconds += time.monotonic() - began

    def _finish(self, keep: bool) -> None:
        session, self._session = self._session, None
        if session is None:
            return
        began = time.monotonic()
        try:
            session.note({})
            session.quieten()
        finally:
            profiler = session.stop()
        self._seconds += time.monotonic() - began
        if keep and profiler is not None:
            self._number += 1
            self._write(profiler, self._number - 1)
