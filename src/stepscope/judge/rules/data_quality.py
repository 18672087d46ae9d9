"""`data-quality`: checks that failed, and what they make unreliable."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.judge.declare import Finding, Threshold, rule
from stepscope.judge.facts import Facts

_CHECKS = Threshold("failed checks", 0, "count", "the data-quality checks' own thresholds")


@rule(
    "data-quality",
    "Data-quality checks with a warning or an error.",
    _CHECKS,
    saves="waiting",
)
def data_quality(facts: Facts) -> Iterator[Finding]:
    """What `stepscope checks` says in full. It saves nothing; it says which of the other findings and
    answers to take with care.
    """
    if len(facts.checks) <= _CHECKS.value:
        return
    names = ", ".join(dict.fromkeys(row["check"] for row in facts.checks))
    grave = any(row["severity"] == "error" for row in facts.checks)
    yield Finding(
        title=f"The recording is not whole or not in order: {names}",
        metric="failed checks",
        value=len(facts.checks),
        unit="count",
        confidence="high",
        severity="high" if grave else "note",
        evidence=tuple(facts.checks),
        advice="Read `stepscope checks` before relying on numbers that these checks bear on.",
        query='SELECT count(*) FROM (SELECT DISTINCT "check", severity FROM data_check '
        "WHERE severity IN ('warning', 'error'))",
    )
