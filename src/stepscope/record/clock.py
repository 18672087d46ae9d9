"""Two kinds of clock: the host's, and events on a device's streams.

A mark is a moment that a clock has recorded. The host clock knows its time at once; a device reaches its mark later, so
device marks are checked afterwards for completion, and nothing ever waits for one inside a step.
"""

from __future__ import annotations

import time
from typing import Any


class Clock:
    """The host's monotonic clock (ns), and the base of device clocks; `place` reports `stream`."""

    kind = "host"
    """`host`, or the device's kind (`cuda`, `xpu`, ...)."""

    def __init__(self, stream: int = 0) -> None:
        self._stream = stream

    def mark(self, *, in_graph: bool = False) -> Any:  # noqa: ARG002 - a device needs it
        """Records now, in the current stream's order; each replay of a graph repeats an `in_graph` mark."""
        return time.perf_counter_ns()

    def capturing(self) -> bool:
        return False

    def marks_graphs(self) -> bool:
        return False

    def move(self, mark: Any) -> Any:  # noqa: ARG002 - a device needs it
        return time.perf_counter_ns()

    def done(self, mark: Any) -> bool:  # noqa: ARG002 - a device needs it
        """Whether the clock has reached the mark. Never waits."""
        return True

    def between_ns(self, start: Any, stop: Any) -> int:
        return int(stop - start)

    def place(self) -> tuple[int, int]:
        """The device and stream on which marks are recorded now."""
        return 0, self._stream

    def release(self, *marks: Any) -> None:
        """Returns marks for reuse, so that a long run has only as many as are in flight."""


HOST = Clock()

_CAPTURED: list[Any] = []
"""All events inside graphs: until the process ends the job may replay a graph, which records the event again. There are
few, as recaptures are rare."""


class DeviceClock(Clock):
    """Events on a device's current stream, as `torch.cuda.Event` and its siblings offer them.

    A device that lags behind the host is measured as it really ran; one that waits for the host includes that wait
    between the marks, because the event is reached before the work is launched. Resolution is about half a microsecond.
    """

    def __init__(self, backend: Any, kind: str, device: int | None = None) -> None:
        super().__init__()
        self.kind = kind
        self._backend = backend
        self._device = device
        self._free: list[Any] = []

    def mark(self, *, in_graph: bool = False) -> Any:
        if in_graph:
            # Only an external event becomes a graph node with a new time at every replay.
            event = self._backend.Event(enable_timing=True, external=True)
            _CAPTURED.append(event)
        elif self._free:
            event = self._free.pop()
        else:
            event = self._backend.Event(enable_timing=True)
        event.record(self._backend.current_stream(self._device))
        return event

    def capturing(self) -> bool:
        asks = getattr(self._backend, "is_current_stream_capturing", None)
        return bool(asks is not None and asks())

    def marks_graphs(self) -> bool:
        try:
            self._backend.Event(enable_timing=True, external=True)
        except TypeError:
            return False
        return True

    def move(self, mark: Any) -> Any:
        mark.record(self._backend.current_stream(self._device))
        return mark

    def done(self, mark: Any) -> bool:
        return bool(mark.query())

    def between_ns(self, start: Any, stop: Any) -> int:
        return round(float(start.elapsed_time(stop)) * 1e6)

    def place(self) -> tuple[int, int]:
        stream = self._backend.current_stream(self._device)
        return int(stream.device.index or 0), int(stream.stream_id)

    def release(self, *marks: Any) -> None:
        self._free.extend(marks)


def clock_for(device: Any) -> Clock:
    """The clock for a `torch.device`: events if its kind has them, else the host's clock."""
    kind = getattr(device, "type", "cpu")
    if kind in ("cpu", "meta"):
        return HOST
    import torch

    backend = getattr(torch, kind, None)
    if backend is None or not hasattr(backend, "Event") or not hasattr(backend, "current_stream"):
        return HOST
    return DeviceClock(backend, kind, device.index)
