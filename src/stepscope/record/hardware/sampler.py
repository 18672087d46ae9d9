"""Samples what the job takes of its machine once a second, in a thread of its own, never in a step."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from stepscope.record.budget import MAX_SHARE, OF_MACHINE
from stepscope.record.hardware.devices import MEASURES, Device, DeviceReader, open_reader
from stepscope.record.hardware.process_tree import ProcessTree, Use

_EVERY_SECONDS = 1.0
_MAX_SHARE = OF_MACHINE * MAX_SHARE
"""Part of a processor: if sampling takes more than that of each second, samples are further apart."""
_MAX_ROWS = 1024

OF_PROCESSES = ("processors_used", "memory_bytes", "read_bytes_per_s", "written_bytes_per_s")
COLUMNS = ("time_ns", *OF_PROCESSES, *MEASURES)


class HardwareSampler:
    """Usage of this process and its descendants since its creation; over time between `start` and `stop`."""

    def __init__(self) -> None:
        self._tree = ProcessTree()
        self._started_ns = time.perf_counter_ns()
        self._rows: list[list[float | None]] = []
        self._stride, self._looks = 1, 0
        self._max_resident_bytes = 0
        self._last: tuple[int, Use | None] | None = None
        self._device: Device | None = None
        self._reader: DeviceReader | None = None
        self._asked_for_reader = False
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, device: Device | None) -> None:
        """Sets the device to read; only the first known device counts."""
        self._device = self._device or device

    def start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="stepscope-hardware", daemon=True)
            with suppress(RuntimeError):  # no more threads can be started: nothing is known over time
                self._thread.start()

    def stop(self) -> None:
        self._ending.set()

    def figures(self) -> dict[str, Any] | None:
        """As `ProcessTree.figures`, with `over_time`: `columns` and at most a thousand even `rows`, times in ns."""
        figures = self._tree.figures()
        if figures is None:
            return None
        device = None
        if self._device is not None and self._reader is not None:
            device = asdict(self._device) | {"tool": self._reader.tool}
        figures["peak_memory_of_all_bytes"] = self._max_resident_bytes or None
        figures["over_time"] = {"columns": list(COLUMNS), "rows": self._rows.copy(), "device": device}
        return figures

    def _run(self) -> None:
        seconds = 0.0
        with suppress(Exception):
            self._look()
        while not self._ending.wait(max(_EVERY_SECONDS, seconds / _MAX_SHARE)):
            began = time.thread_time()
            with suppress(Exception):
                self._look()
            seconds = time.thread_time() - began

    def _look(self) -> None:
        now_ns, use = time.perf_counter_ns(), self._tree.use()
        last, self._last = self._last, (now_ns, use)
        of_device = self._read_device()
        if last is None:
            return  # the first sample is only the reference of the next
        taken: list[float | None] = [None] * len(OF_PROCESSES)
        passed_ns, then = now_ns - last[0], last[1]
        if use is not None and then is not None:
            self._max_resident_bytes = max(self._max_resident_bytes, use.resident_bytes)
            taken = [
                max(0, use.cpu_ns - then.cpu_ns) / passed_ns,
                use.resident_bytes,
                max(0, use.read_bytes - then.read_bytes) * 1e9 / passed_ns,
                max(0, use.written_bytes - then.written_bytes) * 1e9 / passed_ns,
            ]
        if self._looks % self._stride == 0:
            since_ns = now_ns - self._started_ns
            self._rows.append([since_ns, *taken, *(of_device.get(name) for name in MEASURES)])
            if len(self._rows) > _MAX_ROWS:
                del self._rows[1::2]
                self._stride *= 2
        self._looks += 1

    def _read_device(self) -> Mapping[str, float]:
        if self._device is not None and not self._asked_for_reader:
            self._asked_for_reader = True
            self._reader = open_reader(self._device)
        return {} if self._reader is None else self._reader.read()
