"""Measurements in bounded memory, however many there are: sums are exact, and evenly spaced ones are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from stepscope.floor.statistics import Statistics, describe
from stepscope.record.phases.history import History

MOST_SAMPLES = 512
MOST_ITERATIONS = 2048
_IN_A_ROW = 16
"""Iterations that are kept or left out together: what measuring costs is known by neighbours."""

Iteration = tuple[int, bool, int]
"""Its number, whether an event was measured in it, and its time (ns)."""


@dataclass(slots=True)
class Sums:
    """How many times there were, their sum and the sum of their squares: whole numbers, so nothing is lost."""

    n: int = 0
    total_ns: int = 0
    squares: int = 0

    def add(self, time_ns: int) -> None:
        """One more."""
        self.n += 1
        self.total_ns += time_ns
        self.squares += time_ns * time_ns

    def statistics(self, kept: list[int]) -> Statistics | None:
        """Of all of them; the median and the percentiles are those of the kept ones."""
        found = describe(kept)
        if found is None or self.n <= found.n:
            return found
        squares = (self.n * self.squares - self.total_ns**2) / self.n
        return found.of_more(self.n, self.total_ns / self.n, squares)


class Samples(History):
    """The measurements of an event: rows of iteration, duration and offset (ns)."""

    def __init__(self) -> None:
        super().__init__(3, MOST_SAMPLES)
        self.sums = Sums()

    def measured(self, iteration: int, duration_ns: int, offset_ns: int) -> None:
        """One more."""
        self.add((iteration, duration_ns, offset_ns))
        self.sums.add(duration_ns)

    def copy(self) -> Samples:
        """What there is until now."""
        copied = Samples()
        own = {"rows": self.rows.copy(), "beside": [], "totals": self.totals.copy()}
        vars(copied).update(vars(self), **own, sums=replace(self.sums))
        return copied


class Iterations:
    """Iterations that count towards the overhead, and the numbers of each by name."""

    def __init__(self) -> None:
        self.rows: list[Iteration] = []
        self.values: list[Mapping[str, float]] = []
        self.armed = Sums()
        self.unarmed = Sums()
        self._count = 0
        self._stride = 1

    def add(self, row: Iteration, values: Mapping[str, float]) -> None:
        """Counts an iteration, and keeps it when its turn is."""
        (self.armed if row[1] else self.unarmed).add(row[2])
        if self._count // _IN_A_ROW % self._stride == 0:
            self.rows.append(row)
            self.values.append(values)
        self._count += 1
        if len(self.rows) == MOST_ITERATIONS:
            self._stride *= 2
            kept = [place for place in range(MOST_ITERATIONS) if place // _IN_A_ROW % 2 == 0]
            self.rows = [self.rows[place] for place in kept]
            self.values = [self.values[place] for place in kept]

    def copy(self) -> Iterations:
        """What there is until now."""
        copied = Iterations()
        own = {"rows": self.rows.copy(), "values": self.values.copy()}
        vars(copied).update(
            vars(self), **own, armed=replace(self.armed), unarmed=replace(self.unarmed)
        )
        return copied
