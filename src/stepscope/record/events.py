"""What inline recording has measured: events, their samples, and what could not be measured."""

from __future__ import annotations

from dataclasses import dataclass, field

from stepscope.record.plan import Entry, Plan
from stepscope.record.watch import Surveyed


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement of an event: `iteration` counts from the recorder's first, from 0."""

    iteration: int
    duration_ns: int
    offset_ns: int


@dataclass(slots=True)
class Event:
    """A planned event that the job runs, and what was measured of it.

    `missed` counts armed iterations that did not run it, `lost` measurements that the device had not
    finished when their place was needed.
    """

    surveyed: Surveyed
    samples: list[Sample] = field(default_factory=list)
    missed: int = 0
    lost: int = 0


@dataclass(frozen=True, slots=True)
class NotMeasured:
    """A planned event that could not be measured, and why."""

    entry: Entry
    reason: str


def not_measured_words(plan: Plan, not_measured: list[NotMeasured]) -> str:
    """One line for the warning: each entry with the plan's line, where it is known."""
    words = []
    for one in not_measured:
        line = f", line {one.entry.line}" if one.entry.line is not None else ""
        words.append(f'{plan.source}{line}: "{one.entry.text}" is not measured: {one.reason}')
    return "; ".join(words)
