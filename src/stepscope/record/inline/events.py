"""What inline recording has measured: events, their samples, and what could not be measured."""

from __future__ import annotations

from dataclasses import dataclass, field

from stepscope.record.inline.kept import Iterations, Samples
from stepscope.record.plan import Entry, Plan
from stepscope.record.targets.watch import Observed

MOST_SAID = 20
"""Of the entries of a plan that are not measured: a plan may have thousands."""


@dataclass(slots=True)
class Event:
    """A planned event that the job runs, and what was measured of it.

    `missed` counts armed iterations that did not run it, `other_model` those that trained a model which was not known
    yet, and `lost` measurements that the device had not finished when their place was needed.
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
    """What a recorder has measured until now; the recorder goes on without changing it.

    Args:
        plan: what was to be measured.
        events: the planned events that the job runs, in their order.
        not_measured: planned events that the job does not run.
        model_changes: iterations from which on another model was measured.
        iterations: those that count towards the overhead.
        iterations_run: how many started.
        bookkeeping_ns: host time spent between iterations, in all of them.
        in_graph: whether something was measured inside a captured graph.
        armed_every: the event whose measuring costs most was measured in one of so many iterations.
        observed: whether it is known what the job runs.
        done: whether no more is measured.
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
        """Whether everything has been measured as often as the plan asks; in rounds, twice."""
        if self.plan.mode != "in_rounds":
            return self.done
        return self.observed and all(event.samples.count > 1 or event.missed for event in self.events)


def not_measured_words(plan: Plan, not_measured: list[NotMeasured]) -> str:
    """One line for the warning: the first entries with the plan's line, where it is known."""
    words = []
    for one in not_measured[:MOST_SAID]:
        line = f", line {one.entry.line}" if one.entry.line is not None else ""
        words.append(f'{plan.source}{line}: "{one.entry.text}" is not measured: {one.reason}')
    more = len(not_measured) - MOST_SAID
    return "; ".join([*words, f"and {more} more are not measured"] if more > 0 else words)
