"""Runs the rules over a recording and ranks what they find."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from stepscope.judge.declare import Finding, Rule, Severity
from stepscope.judge.rules import every

if TYPE_CHECKING:
    from stepscope.judge.facts import Facts

HIGH, MEDIUM = 0.20, 0.05
"""Parts of the step from which a saving is high or medium: xprof's bands for time lost to input."""

_FILLED = 0.5
"""Below this share of kernels in the step, shorter kernels may only make the device wait longer."""


@dataclass(frozen=True, slots=True)
class Found:
    """A finding with the rule it comes from and the failing checks that bear on it."""

    rule: Rule
    finding: Finding
    severity: Severity
    checks: tuple[str, ...]

    @property
    def saving(self) -> float:
        """What it is ranked by: the middle of its bounds (ns); -1 where nothing is said of it."""
        bounds = self.finding.saving_ns
        return -1.0 if bounds is None else sum(bounds) / 2


def find_all(facts: Facts, rules: Iterable[Rule] | None = None) -> list[Found]:
    """What the rules find, the largest saving first.

    A rule is silent where a failing check would make it wrong; where one makes it unreliable, its
    findings have low confidence and save nothing for certain.
    """
    if not facts.step_ns:
        return []
    failing = {row["check"] for row in facts.checks}
    found = [
        _judged(facts, rule, finding, failing)
        for rule in (every() if rules is None else rules)
        if failing.isdisjoint(rule.silent_with)
        for finding in rule.find(facts)
    ]
    return sorted(found, key=lambda one: -one.saving)


def _judged(facts: Facts, rule: Rule, finding: Finding, failing: set[str]) -> Found:
    checks = tuple(name for name in rule.unreliable_with if name in failing)
    if finding.saving_ns is not None:
        low, high = finding.saving_ns
        high = min(max(high, 0.0), float(facts.step_ns))
        low = min(max(low, 0.0), high)
        if checks or (rule.saves == "kernel time" and facts.share("kernel") < _FILLED):
            low = 0.0
        finding = replace(finding, saving_ns=(low, high))
    if checks:
        finding = replace(finding, confidence="low")
    return Found(rule, finding, finding.severity or _severity(facts, finding), checks)


def _severity(facts: Facts, finding: Finding) -> Severity:
    if finding.saving_ns is None:
        return "note"
    return severity_of(facts.part_of_step(finding.saving_ns[1]))


def severity_of(share: float) -> Severity:
    """How severe what could save this part of a step is."""
    return "high" if share >= HIGH else "medium" if share >= MEDIUM else "low"
