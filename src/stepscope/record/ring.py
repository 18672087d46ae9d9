"""A bounded queue of measurements that have been made but cannot be read yet.

A device reaches the marks of a step long after the host has left it. Reading them at once would wait for the device,
and storing all would fill the memory of a host that runs ahead. So they wait here, and the oldest is dropped when there
is no room. Each mark is queried, because streams reach theirs at different times.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from stepscope.record.clock import Clock

MAX_MEASUREMENTS = 16_384
"""Most measurements in flight: a step of a thousand micro-batches has two thousand."""

Marked = tuple[int, Any, Any]
"""A measurement's key, start mark and stop mark."""


@dataclass(slots=True)
class Pending:
    """The measurements of one clock in one iteration, and its mark at the iteration's start (`origin`).

    Those `in_graph` are recorded again by the next replay; until the clock has reached `end`, a mark after the replay,
    they may still be those of the previous one.
    """

    iteration: int
    clock: Clock
    origin: Any
    measured: Sequence[Marked]
    in_graph: Sequence[Marked] = ()
    end: Any = None
    weight: int = 1

    def __len__(self) -> int:
        return len(self.measured) + len(self.in_graph)

    def done(self) -> bool:
        """Whether the clock has reached every mark; queries the last ones first."""
        done = self.clock.done
        if self.end is not None and not done(self.end):
            return False
        for marks in (self.in_graph, self.measured):
            for _, start, stop in reversed(marks):
                if not (done(stop) and done(start)):
                    return False
        return done(self.origin)

    def release(self) -> None:
        """Returns the marks to the clock, except those inside a graph."""
        self.clock.release(self.origin)
        if self.end is not None:
            self.clock.release(self.end)
        for _, start, stop in self.measured:
            self.clock.release(start, stop)


@dataclass(frozen=True, slots=True)
class Sample:
    """A measurement: its iteration, duration, offset from the iteration's start (ns), and how many it stands for."""

    iteration: int
    duration_ns: int
    offset_ns: int
    weight: int = 1


class Ring:
    """A queue of at most `capacity` iterations and `most` measurements; `lost` counts dropped ones by key."""

    def __init__(self, capacity: int = 64, *, max_measurements: int = MAX_MEASUREMENTS) -> None:
        self.capacity = capacity
        self.max_measurements = max_measurements
        self.lost: dict[int, int] = {}
        self._queue: deque[Pending] = deque()
        self._measurements = 0

    def __len__(self) -> int:
        return len(self._queue)

    def push(self, pending: Pending) -> None:
        self._queue.append(pending)
        self._measurements += len(pending)
        while len(self._queue) > self.capacity or self._measurements > self.max_measurements:
            self._give_up()

    def read(self) -> Iterator[tuple[int, Sample]]:
        """Yields reached measurements with their keys, oldest first, up to the first iteration that is not reached."""
        while self._queue and self._queue[0].done():
            pending = self._take()
            between_ns = pending.clock.between_ns
            for key, start, stop in (*pending.measured, *pending.in_graph):
                duration_ns = between_ns(start, stop)
                if duration_ns < 0:  # on two streams, the stop's is ahead of the start's
                    self._lose(key)
                    continue
                offset_ns = between_ns(pending.origin, start)
                yield key, Sample(pending.iteration, duration_ns, offset_ns, pending.weight)
            pending.release()

    def drop(self) -> None:
        while self._queue:
            self._give_up()

    def _take(self) -> Pending:
        pending = self._queue.popleft()
        self._measurements -= len(pending)
        return pending

    def _give_up(self) -> None:
        pending = self._take()
        for key, _, _ in (*pending.measured, *pending.in_graph):
            self._lose(key)
        pending.release()

    def _lose(self, key: int) -> None:
        self.lost[key] = self.lost.get(key, 0) + 1
