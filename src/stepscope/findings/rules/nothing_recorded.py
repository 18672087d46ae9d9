"""`nothing-recorded`: there is nothing to judge."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.findings.declare import Finding, Threshold, rule
from stepscope.findings.facts import Facts

_EVENTS = Threshold("operators, device events and phases", 0, "count", "ours: any one is something")


_OTHER_TABLES = (
    ("inline_timing", "inline", "the events that the job measured inline"),
    ("stack_sample", "hotspots", "the functions that were sampled"),
    ("primitive", "onednn", "the primitives of oneDNN"),
    ("host_metric", "host-metrics", "what was measured of the host"),
    ("measured_kernel", "metrics", "counters of kernels"),
)
"""Tables that such a recording may have rows in, the question about them, and their name."""


@rule("nothing-recorded", "Recordings without operators, device events and phases.", _EVENTS)
def nothing_recorded(facts: Facts) -> Iterator[Finding]:
    """No operator, device event or phase of a step was read, or none takes any time in the requested
    steps.
    """
    has_times = facts.has_device or facts.has_host or facts.phases_alone or facts.times.device
    if facts.step_ns and has_times:
        return
    other_tables = [(question, what) for table, question, what in _OTHER_TABLES if facts.has_rows(table)]
    title = "Nothing recorded: there is no operator, device event or phase to judge by"
    advice = "`stepscope sources` for what was read."
    if facts.memory_recorded:
        title = "Only memory was recorded: there is no operator, device event or phase to judge time by"
        advice = "`stepscope memory` for the peak and what it was for; for times record a trace of the same job."
    elif other_tables:
        title = "No steps recorded: there is no operator, device event or phase to judge by, but " + " and ".join(
            what for _, what in other_tables
        )
        advice = "; ".join(f"`stepscope {question}` for {what}" for question, what in other_tables) + "."
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
