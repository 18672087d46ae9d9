"""Traces become files in the background, while the job goes on."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from stepscope.floor.ranks import Process
from stepscope.record.traces.file import trace_name, write_trace
from stepscope.record.trouble import Guard, say_once


class TraceWriter:
    """Writes each trace from a thread of its own.

    Args:
        out: directory of the files.
        name: of the trace.
        guard: hears what goes wrong.
        max_bytes: a trace whose text is larger than this is not written.
        step_in_name: whether the first recorded step's number is in the file's name.
    """

    def __init__(
        self, out: Path, name: str, guard: Guard, *, max_bytes: int, step_in_name: bool
    ) -> None:
        self.written: list[Path] = []
        self._out = out
        self._name = name
        self._guard = guard
        self._max_bytes = max_bytes
        self._step_in_name = step_in_name
        self._threads: list[threading.Thread] = []
        self._since_epoch_s = time.time()

    def begin(self) -> None:
        """The recording begins; what another process writes from now on is not replaced."""
        self._since_epoch_s = time.time()

    @property
    def has_begun(self) -> bool:
        """Whether there is a file, or one on its way."""
        return bool(self.written or self._threads)

    @property
    def busy(self) -> bool:
        """Whether a file is on its way."""
        return any(thread.is_alive() for thread in self._threads)

    def name_of(self, process: Process, first_step: int) -> str:
        """The name of a file, without its ending."""
        return trace_name(self._name, process, first_step if self._step_in_name else None)

    def write(
        self, profiler: Any, process: Process, recorded: list[int], *, unfinished: int | None
    ) -> None:
        """Starts to write what torch's profiler has recorded.

        Args:
            profiler: what recorded it.
            process: whose trace it is.
            recorded: the numbers of its steps.
            unfinished: the number of a step behind them that was begun only.
        """
        thread = threading.Thread(
            target=self._write,
            args=(profiler, self.name_of(process, recorded[0]), unfinished),
            name="stepscope-trace",
        )
        thread.daemon = True
        thread.start()
        self._threads.append(thread)

    def wait(self, seconds: float) -> None:
        """Waits until all files are written, but not longer than that."""
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                say_once(f"a trace is not written after {seconds:.0f} s; it may get lost")

    def _write(self, profiler: Any, name: str, unfinished: int | None) -> None:
        try:
            path = write_trace(
                profiler.export_chrome_trace,
                self._out,
                name,
                self._max_bytes,
                unfinished_step=unfinished,
                since_epoch_s=self._since_epoch_s,
            )
            if path is not None:
                self.written.append(path)
        except Exception as error:
            self._guard.trip(error)
