"""Measurements that are made but cannot be read yet, in a queue that never grows.

A device reaches the marks of a step long after the host has left the step. Reading them at once
would wait for the device; keeping all of them would fill the memory of a host that runs ahead. So
they wait here, at most `capacity` iterations of them, and the oldest is given up when there is no
room.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from stepscope.record.clock import Clock

Marked = tuple[int, Any, Any]
"""A measurement's key, start mark and stop mark."""


@dataclass(slots=True)
class Pending:
    """What one clock measured in one iteration.

    Args:
        iteration: which one.
        clock: whose marks they are.
        origin: its mark at the iteration's start.
        measured: the measurements.
        in_graph: those inside a captured graph, whose marks its next replay makes again.
    """

    iteration: int
    clock: Clock
    origin: Any
    measured: Sequence[Marked]
    in_graph: Sequence[Marked] = ()

    def done(self) -> bool:
        """Whether the clock has reached every mark."""
        return all(self.clock.done(stop) for _, _, stop in (*self.measured, *self.in_graph))

    def release(self) -> None:
        """Gives the marks back to the clock, but for those that a graph goes on making."""
        self.clock.release(self.origin)
        for _, start, stop in self.measured:
            self.clock.release(start, stop)


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement: in which iteration, how long, and how long after the iteration's start (ns)."""

    iteration: int
    duration_ns: int
    offset_ns: int


class Ring:
    """A queue of at most `capacity` iterations; `lost` counts measurements given up, by key."""

    def __init__(self, capacity: int = 64) -> None:
        self.capacity = capacity
        self.lost: dict[int, int] = {}
        self._queue: deque[Pending] = deque()

    def __len__(self) -> int:
        return len(self._queue)

    def push(self, pending: Pending) -> None:
        """Adds an iteration's measurements; gives up the oldest when the ring is full."""
        if len(self._queue) >= self.capacity:
            self._give_up(self._queue.popleft())
        self._queue.append(pending)

    def read(self) -> Iterator[tuple[int, Sample]]:
        """Takes out, oldest first and with its key, what the clocks have reached; stops at the first they have not.

        Marks are reached nearly in the order they were made, so later ones are not asked.
        """
        while self._queue and self._queue[0].done():
            pending = self._queue.popleft()
            between_ns = pending.clock.between_ns
            for key, start, stop in (*pending.measured, *pending.in_graph):
                offset_ns = between_ns(pending.origin, start)
                yield key, Sample(pending.iteration, between_ns(start, stop), offset_ns)
            pending.release()

    def drop(self) -> None:
        """Gives up everything that is still in flight."""
        while self._queue:
            self._give_up(self._queue.popleft())

    def _give_up(self, pending: Pending) -> None:
        for key, _, _ in (*pending.measured, *pending.in_graph):
            self.lost[key] = self.lost.get(key, 0) + 1
        pending.release()
