"""The results of inline recording: events, their samples, and what could not be measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from stepscope.base.statistics import Statistics, describe_blocks, effective_sample_size
from stepscope.record.budget import UntimedBlock
from stepscope.record.phases.history import History
from stepscope.record.plan import Entry, Plan
from stepscope.record.targets.watch import Observed

MAX_SAMPLES = 512
MAX_ITERATIONS = 2048
_IN_A_ROW = 16
"""Iterations that are stored or dropped together, because the cost of measuring is found by comparing neighbours."""

Iteration = tuple[int, bool, int, int, int]
"""Its number, whether an event was measured in it, its time (ns), how many it stands for, and their summed time
(ns)."""


@dataclass(slots=True)
class Sums:
    """The number of times, and sums of them, of their squares and of their weights, as exact integers."""

    n: int = 0
    weight: int = 0
    weights_squared: int = 0
    total_ns: int = 0
    squares: int = 0

    def add(self, weight: int, together_ns: int, times: int = 1) -> None:
        """Adds a time that represents `weight` times with this sum; `times=-1` removes it again."""
        self.n += times
        self.weight += times * weight
        self.weights_squared += times * weight * weight
        self.total_ns += times * together_ns
        self.squares += times * (together_ns * together_ns // weight)

    def statistics(self, rows: Sequence[tuple[int, int, int]]) -> Statistics | None:
        """Statistics of all, as from `describe_blocks`; percentiles are those of stored times, weights and sums."""
        statistics = describe_blocks(*zip(*rows, strict=True)) if rows else None
        if statistics is None or self.n <= statistics.n:
            return statistics
        squares = max(self.weight * self.squares - self.total_ns**2, 0) / self.weight**2
        similar = effective_sample_size(self.weight, self.weights_squared)
        return statistics.of_more(self.n, self.total_ns / self.weight, squares, similar)


class Samples(History):
    """The measurements of an event: rows of iteration, duration, offset (ns) and weight."""

    def __init__(self) -> None:
        super().__init__(4, MAX_SAMPLES)
        self.sums = Sums()

    def measured(self, iteration: int, duration_ns: int, offset_ns: int, weight: int) -> None:
        self.add((iteration, duration_ns, offset_ns, weight), weight=weight)
        self.sums.add(weight, duration_ns * weight)

    def statistics(self) -> Statistics | None:
        return self.sums.statistics([(row[1], row[3], row[1] * row[3]) for row in self.rows])

    def copy(self) -> Samples:
        copied = Samples()
        copies = {"rows": self.rows.copy(), "attachments": [], "totals": self.totals.copy()}
        vars(copied).update(vars(self), **copies, sums=replace(self.sums))
        return copied


class Iterations:
    """Iterations that count for the overhead, and their numbers by name."""

    def __init__(self) -> None:
        self.rows: list[Iteration] = []
        self.values: list[Mapping[str, float]] = []
        self.armed = Sums()
        self.unarmed = Sums()
        self._count = 0
        self._stride = 1

    def add(self, row: Iteration, values: Mapping[str, float]) -> None:
        """Counts an iteration, and keeps it if it is its turn."""
        (self.armed if row[1] else self.unarmed).add(*row[3:])
        if self._count // _IN_A_ROW % self._stride == 0:
            self.rows.append(row)
            self.values.append(values)
        self._count += 1
        if len(self.rows) == MAX_ITERATIONS:
            self._stride *= 2
            places = [place for place in range(MAX_ITERATIONS) if place // _IN_A_ROW % 2 == 0]
            self.rows = [self.rows[place] for place in places]
            self.values = [self.values[place] for place in places]

    def copy(self, since: UntimedBlock) -> Iterations:
        """A copy of the present state; the last iteration without an event also stands for those since."""
        copied = Iterations()
        copies = {"rows": self.rows.copy(), "values": self.values.copy()}
        vars(copied).update(vars(self), **copies, armed=replace(self.armed), unarmed=replace(self.unarmed))
        copied.add_weight(since.steps, since.ns)
        return copied

    def statistics(self, *, armed: bool) -> Statistics | None:
        rows = [row[2:] for row in self.rows if row[1] == armed]
        return (self.armed if armed else self.unarmed).statistics(rows)

    def add_weight(self, iterations: int, together_ns: int) -> None:
        """Increases the weight of the last stored iteration without an event."""
        place = max((place for place, row in enumerate(self.rows) if not row[1]), default=None)
        if place is None:
            return
        number, armed, time_ns, weight, of_all_ns = self.rows[place]
        more = weight + iterations, of_all_ns + together_ns
        self.unarmed.add(weight, of_all_ns, times=-1)
        self.unarmed.add(*more)
        self.rows[place] = (number, armed, time_ns, *more)


MAX_LISTED = 20
"""Limit for listed entries of a plan that are not measured: a plan may have thousands."""


@dataclass(slots=True)
class Event:
    """A planned event that the job runs, and its measurements.

    `missed` counts armed iterations that did not run it, `other_model` those that trained a model not known yet, and
    `lost` measurements that the device had not finished when their storage was needed.
    """

    observed: Observed
    samples: Samples = field(default_factory=Samples)
    missed: int = 0
    other_model: int = 0
    lost: int = 0


@dataclass(frozen=True, slots=True)
class NotMeasured:
    """A planned event that could not be measured, and why."""

    entry: Entry
    reason: str


@dataclass(frozen=True, slots=True)
class Measured:
    """What a recorder has measured until now; later measurements do not change it.

    `iterations` count for the overhead, `armed_every` is that of the most expensive event, and `model_changes` are the
    iterations from which on another model was measured.
    """

    plan: Plan
    events: list[Event]
    not_measured: list[NotMeasured]
    model_changes: list[int]
    iterations: Iterations
    iterations_run: int
    bookkeeping_ns: int
    in_graph: bool
    armed_every: int
    observed: bool
    done: bool

    @property
    def complete(self) -> bool:
        """Whether everything was measured as often as the plan asks; in rounds, twice."""
        if self.plan.mode != "in_rounds":
            return self.done
        return self.observed and all(event.samples.count > 1 or event.missed for event in self.events)


def not_measured_words(plan: Plan, not_measured: list[NotMeasured]) -> str:
    """One line for the warning: the first entries, with the plan's line if it is known."""
    words = []
    for missing in not_measured[:MAX_LISTED]:
        line = f", line {missing.entry.line}" if missing.entry.line is not None else ""
        words.append(f'{plan.source}{line}: "{missing.entry.text}" is not measured: {missing.reason}')
    more = len(not_measured) - MAX_LISTED
    return "; ".join([*words, f"and {more} more are not measured"] if more > 0 else words)
