"""Measurements in bounded memory, however many there are: sums are exact, and evenly spaced ones are kept.

Each counts as often as the iterations that it stands for, which change in the course of a run (see `Budget`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from stepscope.floor.statistics import Statistics, describe_blocks, tell_as_much
from stepscope.record.between import Between
from stepscope.record.phases.history import History

MOST_SAMPLES = 512
MOST_ITERATIONS = 2048
_IN_A_ROW = 16
"""Iterations that are kept or left out together: what measuring costs is known by neighbours."""

Iteration = tuple[int, bool, int, int, int]
"""Its number, whether an event was measured in it, its time (ns), how many it stands for, and what these took together (ns)."""


@dataclass(slots=True)
class Sums:
    """How many times there were, and sums of them, of their squares and of their weights: whole numbers, so next to nothing
    is lost."""

    n: int = 0
    weight: int = 0
    weights_squared: int = 0
    total_ns: int = 0
    squares: int = 0

    def add(self, weight: int, together_ns: int, times: int = 1) -> None:
        """One more, which counts so often: for several that took so long together, and each of them as long as their mean.

        Args:
            weight: how many.
            together_ns: how long.
            times: -1 takes one back.
        """
        self.n += times
        self.weight += times * weight
        self.weights_squared += times * weight * weight
        self.total_ns += times * together_ns
        self.squares += times * (together_ns * together_ns // weight)

    def statistics(self, kept: Sequence[tuple[int, int, int]]) -> Statistics | None:
        """Of all of them, as `describe_blocks` has it; the median and the percentiles are of those that were kept.

        Args:
            kept: the time (ns) of each, how many it stands for, and what these took together (ns).
        """
        found = describe_blocks(*zip(*kept, strict=True)) if kept else None
        if found is None or self.n <= found.n:
            return found
        squares = max(self.weight * self.squares - self.total_ns**2, 0) / self.weight**2
        alike = tell_as_much(self.weight, self.weights_squared)
        return found.of_more(self.n, self.total_ns / self.weight, squares, alike)


class Samples(History):
    """The measurements of an event: rows of iteration, duration, offset (ns) and the iterations that it stands for."""

    def __init__(self) -> None:
        super().__init__(4, MOST_SAMPLES)
        self.sums = Sums()

    def measured(self, iteration: int, duration_ns: int, offset_ns: int, stands_for: int) -> None:
        """One more."""
        self.add((iteration, duration_ns, offset_ns, stands_for), weight=stands_for)
        self.sums.add(stands_for, duration_ns * stands_for)

    def statistics(self) -> Statistics | None:
        """Of the durations."""
        return self.sums.statistics([(row[1], row[3], row[1] * row[3]) for row in self.rows])

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
        (self.armed if row[1] else self.unarmed).add(*row[3:])
        if self._count // _IN_A_ROW % self._stride == 0:
            self.rows.append(row)
            self.values.append(values)
        self._count += 1
        if len(self.rows) == MOST_ITERATIONS:
            self._stride *= 2
            kept = [place for place in range(MOST_ITERATIONS) if place // _IN_A_ROW % 2 == 0]
            self.rows = [self.rows[place] for place in kept]
            self.values = [self.values[place] for place in kept]

    def copy(self, since: Between) -> Iterations:
        """What there is until now; the last one without an event stands for those since, too."""
        copied = Iterations()
        own = {"rows": self.rows.copy(), "values": self.values.copy()}
        vars(copied).update(vars(self), **own, armed=replace(self.armed), unarmed=replace(self.unarmed))
        copied.stand_for_more(since.steps, since.ns)
        return copied

    def statistics(self, *, armed: bool) -> Statistics | None:
        """Of iterations with an event, or of those without."""
        kept = [row[2:] for row in self.rows if row[1] == armed]
        return (self.armed if armed else self.unarmed).statistics(kept)

    def stand_for_more(self, iterations: int, together_ns: int) -> None:
        """The last kept one without an event stands for further ones."""
        place = max((place for place, row in enumerate(self.rows) if not row[1]), default=None)
        if place is None:
            return
        number, armed, time_ns, stands_for, of_all_ns = self.rows[place]
        more = stands_for + iterations, of_all_ns + together_ns
        self.unarmed.add(stands_for, of_all_ns, times=-1)
        self.unarmed.add(*more)
        self.rows[place] = (number, armed, time_ns, *more)
