"""Two ways to say when something happened: the host's clock, and events on a device's streams.

A mark is a moment that a clock was told to remember. The host clock knows at once when that was; a
device reaches its mark later, so marks of a device are asked afterwards whether they are done, and
nobody ever waits for one inside a step.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol


class Clock(Protocol):
    """Where marks come from. `kind` is `host` or the device's kind (`cuda`, `xpu`, ...)."""

    kind: str

    def mark(self, *, in_graph: bool = False) -> Any:
        """Remembers now, in the order of work of the current stream.

        Args:
            in_graph: the stream is being captured: the mark is made anew at every replay.
        """

    def capturing(self) -> bool:
        """Whether the current stream is being captured into a graph."""

    def marks_graphs(self) -> bool:
        """Whether marks can be made inside a captured graph."""

    def move(self, mark: Any) -> Any:
        """The same mark, moved to now."""

    def done(self, mark: Any) -> bool:
        """Whether the clock has reached the mark. Never waits."""

    def between_ns(self, start: Any, stop: Any) -> int:
        """Time from one mark to another, both done (ns)."""

    def place(self) -> tuple[int, int]:
        """Device and stream that marks are made on now."""

    def release(self, *marks: Any) -> None:
        """Gives marks back, so that a long run makes no more of them than are in flight."""


class HostClock:
    """The host's monotonic clock: marks are integer nanoseconds.

    Args:
        now: nanoseconds of a monotonic clock; tests give a clock of their own.
        stream: what `place` says. Host times of a job that also has a device are set apart from
            its streams as stream -1.
    """

    kind = "host"

    def __init__(self, now: Callable[[], int] = time.perf_counter_ns, stream: int = 0) -> None:
        self._now = now
        self._place = (0, stream)

    def mark(self, *, in_graph: bool = False) -> int:  # noqa: ARG002 - the protocol's signature
        """Now."""
        return self._now()

    def capturing(self) -> bool:
        """Never: the host has no graphs."""
        return False

    def marks_graphs(self) -> bool:
        """Never, as there are none."""
        return False

    def move(self, mark: int) -> int:  # noqa: ARG002 - the protocol's signature
        """Now: an integer cannot be moved."""
        return self._now()

    def done(self, mark: int) -> bool:  # noqa: ARG002 - the protocol's signature
        """Always: the host is where its clock is."""
        return True

    def between_ns(self, start: int, stop: int) -> int:
        """Difference of the two (ns)."""
        return stop - start

    def place(self) -> tuple[int, int]:
        """Device 0 and the stream given at construction."""
        return self._place

    def release(self, *marks: int) -> None:
        """Nothing to give back."""


class DeviceClock:
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
        self.kind = kind
        self._backend = backend
        self._device = device
        self._free: list[Any] = []

    def mark(self, *, in_graph: bool = False) -> Any:
        """Records an event on the current stream of the device."""
        if in_graph:
            # Only an external event becomes a node that keeps its own time at every replay.
            event = self._backend.Event(enable_timing=True, external=True)
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
        return HostClock()
    import torch

    backend = getattr(torch, kind, None)
    if backend is None or not hasattr(backend, "Event") or not hasattr(backend, "current_stream"):
        return HostClock()
    return DeviceClock(backend, kind, device.index)


class Clocks:
    """The clock of each device, made once.

    Args:
        host: of devices that have no events.
        given: the clock of all devices instead; tests give their own.
    """

    def __init__(self, host: HostClock, given: Clock | None = None) -> None:
        self._host = host
        self._given = given
        self._known: dict[str, Clock] = {}

    def of(self, device: Any) -> Clock:
        """The clock of a `torch.device`; None is the host."""
        if self._given is not None:
            return self._given
        key = str(device)
        if key not in self._known:
            clock = clock_for(device)
            self._known[key] = self._host if clock.kind == "host" else clock
        return self._known[key]
