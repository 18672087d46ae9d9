"""A device that exists only in tests: it reaches its marks when it is told to."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

from stepscope.record.clock import Clock


@dataclass(eq=False)
class Mark:
    """A moment on the device; `time_ns` is when it is reached."""

    time_ns: int
    serial: int


class FakeDeviceClock(Clock):
    """Marks whose times are taken from `now`, or lie `between_ns` apart; done after `finish`."""

    kind = "cuda"

    def __init__(
        self, now: Callable[[], int] | None = None, *, between_ns: int = 1, stream: int = 7, done_at_once: bool = False
    ) -> None:
        super().__init__(stream)
        ticks = itertools.count(0, between_ns)
        self._now = now or (lambda: next(ticks))
        self._free: list[Mark] = []
        self._serial = 0
        self._finished = -1
        self._done_at_once = done_at_once
        self.is_capturing = False
        self.can_mark_graphs = True
        self.made = 0
        self.asked = 0
        self.released: set[int] = set()

    def mark(self, *, in_graph: bool = False) -> Mark:
        if self._free and not in_graph:
            mark = self._free.pop()
        else:
            mark = Mark(0, 0)
            self.made += 1
        return self.move(mark)

    def capturing(self) -> bool:
        return self.is_capturing

    def marks_graphs(self) -> bool:
        return self.can_mark_graphs

    def move(self, mark: Mark) -> Mark:
        self._serial += 1
        mark.time_ns, mark.serial = self._now(), self._serial
        return mark

    def done(self, mark: Mark) -> bool:
        self.asked += 1
        return self._done_at_once or mark.serial <= self._finished

    def between_ns(self, start: Mark, stop: Mark) -> int:
        return stop.time_ns - start.time_ns

    def release(self, *marks: Mark) -> None:
        self.released.update(id(mark) for mark in marks)
        self._free.extend(marks)

    def finish(self) -> None:
        """The device has done all that it was given."""
        self._finished = self._serial
