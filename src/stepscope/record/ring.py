"""Measurements that are made but cannot be read yet, in a queue that never grows.

A device reaches the marks of a step long after the host has left the step. Reading them at once
would wait for the device; keeping all of them would fill the memory of a host that runs ahead. So
they wait here, at most `capacity` iterations of them, and the oldest is given up when there is no
room. A device that is given several streams reaches the marks of one of them long before those of
another, so each mark is asked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from stepscope.record.clock import Clock

MOST_MEASUREMENTS = 16_384
"""Most in flight at once: a step of a thousand micro-batches has two thousand."""

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
        end: a mark behind the replay. Until the clock has reached it, the marks inside the graph may
            still be those of the replay before.
        stands_for: how many iterations count as this one.
    """

    iteration: int
    clock: Clock
    origin: Any
    measured: Sequence[Marked]
    in_graph: Sequence[Marked] = ()
    end: Any = None
    stands_for: int = 1

    def __len__(self) -> int:
        return len(self.measured) + len(self.in_graph)

    def done(self) -> bool:
        """Whether the clock has reached every mark; the last ones are asked first."""
        done = self.clock.done
        if self.end is not None and not done(self.end):
            return False
        for marks in (self.in_graph, self.measured):
            for _, start, stop in reversed(marks):
                if not (done(stop) and done(start)):
                    return False
        return done(self.origin)

    def release(self) -> None:
        """Gives the marks back to the clock, but for those that a graph goes on making."""
        self.clock.release(self.origin)
        if self.end is not None:
            self.clock.release(self.end)
        for _, start, stop in self.measured:
            self.clock.release(start, stop)


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement: in which iteration, how long, how long after the iteration's start (ns), and for how many it stands."""

    iteration: int
    duration_ns: int
    offset_ns: int
    stands_for: int = 1


class Ring:
    """A queue of iterations; `lost` counts measurements given up, by key.

    Args:
        capacity: most iterations in it.
        most: most measurements in it, of all iterations.
    """

    def __init__(self, capacity: int = 64, *, most: int = MOST_MEASUREMENTS) -> None:
        self.capacity = capacity
        self.most = most
        self.lost: dict[int, int] = {}
        self._queue: deque[Pending] = deque()
        self._measurements = 0

    def __len__(self) -> int:
        return len(self._queue)

    def push(self, pending: Pending) -> None:
        """Adds an iteration's measurements; gives up the oldest when the ring is full."""
        self._queue.append(pending)
        self._measurements += len(pending)
        while len(self._queue) > self.capacity or self._measurements > self.most:
            self._give_up()

    def read(self) -> Iterator[tuple[int, Sample]]:
        """Takes out, oldest first and with its key, what the clocks have reached; stops at the first they have not.

        Iterations are reached in the order they were made, so later ones are not asked.
        """
        while self._queue and self._queue[0].done():
            pending = self._take()
            between_ns = pending.clock.between_ns
            for key, start, stop in (*pending.measured, *pending.in_graph):
                duration_ns = between_ns(start, stop)
                if duration_ns < 0:  # on two streams, the stop's ahead of the start's
                    self._lose(key)
                    continue
                offset_ns = between_ns(pending.origin, start)
                yield key, Sample(pending.iteration, duration_ns, offset_ns, pending.stands_for)
            pending.release()

    def drop(self) -> None:
        """Gives up everything that is still in flight."""
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
