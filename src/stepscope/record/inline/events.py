"""The results of inline recording: events, their samples, and what could not be measured."""

from __future__ import annotations

from dataclasses import dataclass, field

from stepscope.record.inline.samples import Iterations, Samples
from stepscope.record.plan import Entry, Plan
from stepscope.record.targets.watch import Observed

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

    Args:
        model_changes: iterations from which on another model was measured.
        iterations: iterations that count for the overhead.
        bookkeeping_ns: host time between iterations, summed.
        in_graph: whether something was measured inside a captured graph.
        armed_every: the most expensive event was measured in one of this many iterations.
        observed: whether it is known what the job runs.
        done: whether measuring has ended.
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
