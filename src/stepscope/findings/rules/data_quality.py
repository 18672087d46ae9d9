"""`data-quality`: failed checks, and what they make unreliable."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.analysis.steps.breakdown import WAITING
from stepscope.findings.declare import Finding, Threshold, rule
from stepscope.findings.facts import Facts, ranks_text
from stepscope.query.sound import STEP_TIMES

_CHECKS = Threshold("failed checks", 0, "count", "the data-quality checks' own thresholds")
_IDLE = Threshold(
    "time in which the device looks idle, of the step, where a check says that its work is missing",
    0.15,
    "ratio",
    "TraceLens: idle > 15 % of the total",
)


@rule("data-quality", "Data-quality checks with a warning or an error.", _CHECKS, _IDLE)
def data_quality(facts: Facts) -> Iterator[Finding]:
    """`stepscope checks` has the details. It saves nothing; it says which of the other findings and
    answers need care. It comes first if a check with an error concerns the times of steps,
    or if the device looks idle, or has no work at all, while a check says that device work is missing. If only some
    ranks are affected, or their files are damaged, these are named, and the other findings are about the others.
    """
    checks = facts.of_all.checks
    if len(checks) <= _CHECKS.value:
        return
    names = ", ".join(dict.fromkeys(row["check"] for row in checks))
    severities = {row["severity"] for row in checks}
    title = f"Some answers rest on evidence that is damaged or missing: {names}"
    if facts.left_out:
        title += (
            f". The recording of {ranks_text(facts.left_out)} is damaged: the other findings are of the other "
            f"{len(facts.scope.ranks)} ranks"
        )
    elif hides_idle(facts):
        title = (
            f"Unreliable data ({names}): device work is missing, so how long the device waited, and "
            "for what, is not known"
        )
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
        advice="Read `stepscope checks` before relying on numbers that these checks bear on.",
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
