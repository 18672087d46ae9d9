"""Two ways to time things: the host's clock, and events on a device's streams.

A mark is a moment that a clock has remembered. The host clock knows at once when that was; a
device reaches its mark later, so marks of a device are asked afterwards whether they are done, and
nobody ever waits for one inside a step.
"""

from __future__ import annotations

import time
from typing import Any


class Clock:
    """The host's monotonic clock, in integer nanoseconds, and what the clock of a device does too.

    Args:
        stream: what `place` reports. Host times of a job that also has a device are set apart from
            its streams as stream -1.
    """

    kind = "host"
    """`host`, or the device's kind (`cuda`, `xpu`, ...)."""

    def __init__(self, stream: int = 0) -> None:
        self._stream = stream

    def mark(self, *, in_graph: bool = False) -> Any:  # noqa: ARG002 - a device needs it
        """Remembers now, in the order of work of the current stream.

        Args:
            in_graph: the stream is being captured: the mark is made again at every replay.
        """
        return time.perf_counter_ns()

    def capturing(self) -> bool:
        """Whether the current stream is being captured into a graph."""
        return False

    def marks_graphs(self) -> bool:
        """Whether marks can be made inside a captured graph."""
        return False

    def move(self, mark: Any) -> Any:  # noqa: ARG002 - a device needs it
        """The same mark, moved to now."""
        return time.perf_counter_ns()

    def done(self, mark: Any) -> bool:  # noqa: ARG002 - a device needs it
        """Whether the clock has reached the mark. Never waits."""
        return True

    def between_ns(self, start: Any, stop: Any) -> int:
        """Time from one mark to another, both done (ns)."""
        return int(stop - start)

    def place(self) -> tuple[int, int]:
        """Device and stream that marks are made on now."""
        return 0, self._stream

    def release(self, *marks: Any) -> None:
        """Gives marks back, so that a long run makes no more of them than are in flight."""


HOST = Clock()

_CAPTURED: list[Any] = []
"""Every event inside a graph: the job may replay the graph until the process ends, and the replay
records the event again. Recaptures are few, so these are too."""


class DeviceClock(Clock):
    """Events on a device's current stream, as `torch.cuda.Event` and its siblings offer them.

    A device that runs behind the host is measured as it really ran; one that waits for the host
    shows that wait between the marks, because the event is reached before the work is launched.
    Resolution is about half a microsecond.

    Args:
        backend: the module of the device's kind: `torch.cuda`, `torch.xpu`, ...
        kind: that kind's name.
        device: index of the device; None for the current one.
    """

    def __init__(self, backend: Any, kind: str, device: int | None = None) -> None:
        super().__init__()
        self.kind = kind
        self._backend = backend
        self._device = device
        self._free: list[Any] = []

    def mark(self, *, in_graph: bool = False) -> Any:
        """Records an event on the current stream of the device."""
        if in_graph:
            # Only an external event becomes a node that keeps its own time at every replay.
            event = self._backend.Event(enable_timing=True, external=True)
            _CAPTURED.append(event)
        elif self._free:
            event = self._free.pop()
        else:
            event = self._backend.Event(enable_timing=True)
        event.record(self._backend.current_stream(self._device))
        return event

    def capturing(self) -> bool:
        """Asks the backend, where it has graphs."""
        asks = getattr(self._backend, "is_current_stream_capturing", None)
        return bool(asks is not None and asks())

    def marks_graphs(self) -> bool:
        """Whether the backend's events can be external, which those of older torches cannot."""
        try:
            self._backend.Event(enable_timing=True, external=True)
        except TypeError:
            return False
        return True

    def move(self, mark: Any) -> Any:
        """Records the same event again: its last record counts."""
        mark.record(self._backend.current_stream(self._device))
        return mark

    def done(self, mark: Any) -> bool:
        """Asks the event; does not wait for it."""
        return bool(mark.query())

    def between_ns(self, start: Any, stop: Any) -> int:
        """Elapsed time between two done events (ns)."""
        return round(float(start.elapsed_time(stop)) * 1e6)

    def place(self) -> tuple[int, int]:
        """The device's index and the id of its current stream (0 is the default stream)."""
        stream = self._backend.current_stream(self._device)
        return int(stream.device.index or 0), int(stream.stream_id)

    def release(self, *marks: Any) -> None:
        """Keeps the events for later marks."""
        self._free.extend(marks)


def clock_for(device: Any) -> Clock:
    """The clock of a `torch.device`: events where its kind has events, else the host's clock."""
    kind = getattr(device, "type", "cpu")
    if kind in ("cpu", "meta"):
        return HOST
    import torch

    backend = getattr(torch, kind, None)
    if backend is None or not hasattr(backend, "Event") or not hasattr(backend, "current_stream"):
        return HOST
    return DeviceClock(backend, kind, device.index)
