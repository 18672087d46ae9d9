"""Rules about what is missing or damaged in the recording itself."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.analysis.steps.parts import WAITING
from stepscope.findings.declare import Finding, Threshold, rule
from stepscope.findings.facts import Facts, ranks_text
from stepscope.query.rank_exclusion import STEP_TIMES
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
    """No operator, device event or phase of a step was read, or none takes any time in the requested steps."""
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


_CHECKS = Threshold("failed checks", 0, "count", "the data-quality checks' own thresholds")
_IDLE = Threshold(
    "time in which the device looks idle, of the step, where a check says that its work is missing",
    0.15,
    "ratio",
    "TraceLens: idle > 15 % of the total",
)


@rule("data-quality", "Data-quality checks with a warning or an error.", _CHECKS, _IDLE)
def data_quality(facts: Facts) -> Iterator[Finding]:
    """`stepscope checks` has the details. It saves nothing; it says which of the other findings and answers need care.
    It comes first if a check with an error concerns the times of steps, or if the device looks idle, or has no work at
    all, while a check says that device work is missing. If only some ranks are affected, or their files are damaged,
    these are named, and the other findings are about the others.
    """
    checks = facts.of_all.checks
    if len(checks) <= _CHECKS.value:
        return
    names = ", ".join(dict.fromkeys(row["check"] for row in checks))
    severities = {row["severity"] for row in checks}
    title = f"Some answers rest on evidence that is damaged or missing: {names}"
    if facts.left_out:
        title += (
            f". The recording of {ranks_text(facts.left_out)} is damaged: the other findings are about the other "
            f"{len(facts.scope.ranks)} ranks"
        )
    elif hides_idle(facts):
        title = f"Unreliable data ({names}): device work is missing, so how long the device waited, and for what, is unknown"
    elif "error" in facts.failing(*STEP_TIMES, "file").values():
        title = f"Unreliable data ({names}): the times of steps and of their parts may be wrong"
    yield Finding(
        title=title,
        metric="failed checks",
        value=len(checks),
        unit="count",
        confidence="high",
        severity="high" if "error" in severities else "note",
        evidence=tuple(checks),
        advice="See `stepscope checks` before relying on numbers that these checks affect.",
        query='SELECT count(*) FROM (SELECT DISTINCT "check", severity FROM data_check '
        "WHERE severity IN ('warning', 'error'))",
        rank=facts.left_out[0] if len(facts.left_out) == 1 else None,
        ranks=facts.left_out,
        role="obstacle" if title.startswith("Unreliable") else "remedy",
    )


def hides_idle(facts: Facts) -> bool:
    """Whether the device looks idle, or has no work at all, while a check says that its work is missing."""
    if not facts.failing("device-work"):
        return False
    return not facts.has_device or facts.share(*WAITING, "dataloader") > _IDLE.value
