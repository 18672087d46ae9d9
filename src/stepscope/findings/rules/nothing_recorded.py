"""`nothing-recorded`: there is nothing to judge."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.findings.declare import Finding, Threshold, rule
from stepscope.findings.facts import Facts
from stepscope.schema.tables import TABLES

_EVENTS = Threshold("operators, device events and phases", 0, "count", "ours: any one is something")


_QUESTIONS = {
    "inline_timing": "inline",
    "stack_sample": "hotspots",
    "primitive": "onednn",
    "host_metric": "host-metrics",
    "measured_kernel": "metrics",
    "counter": "counters",
}
"""The question about each table that has measurements without events (`SchemaTable.measures`)."""


@rule("nothing-recorded", "Recordings without operators, device events and phases.", _EVENTS)
def nothing_recorded(facts: Facts) -> Iterator[Finding]:
    """No operator, device event or phase of a step was read, or none takes any time in the requested
    steps.
    """
    has_times = facts.has_device or facts.has_host or facts.phases_alone or facts.times.device
    if facts.step_ns and has_times:
        return
    measured = {
        question: TABLES[table].measures or "" for table, question in _QUESTIONS.items() if facts.has_rows(table)
    }
    title = "Nothing recorded: there is no operator, device event or phase to judge by"
    advice = "`stepscope sources` for what was read."
    if facts.memory_recorded:
        title = "Only memory was recorded: there is no operator, device event or phase to judge time by"
        advice = "`stepscope memory` for the peak and what it was for; for times record a trace of the same job."
    elif measured:
        title = "No steps recorded: there is no operator, device event or phase to judge by, but " + " and ".join(
            measured.values()
        )
        advice = "; ".join(f"`stepscope {question}` for {what}" for question, what in measured.items()) + "."
    yield Finding(
        title=title,
        metric=_EVENTS.name,
        value=_EVENTS.value,
        unit="count",
        confidence="high",
        advice=advice,
        query="stepscope sources SRC",
        role="obstacle",
    )
