"""Runs the rules over a recording and orders their findings: the first finding is the verdict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from stepscope.base.units import time_text
from stepscope.findings.declare import FILLED, HIGH, LEADING, MEDIUM, WITH_HOST, WITH_OTHERS, Finding, Rule, Severity
from stepscope.findings.facts import Facts, ranks_text
from stepscope.findings.host_pace import host_wait_ns
from stepscope.findings.waiting import waiting
from stepscope.query.rank_exclusion import STEP_TIMES, without_ranks

_MAX_CHECKS_NAMED = 3
_SHARED = 0.1
"""If a smaller share of a finding's waits is also counted elsewhere, that is not mentioned."""


@dataclass(frozen=True, slots=True)
class RankedFinding:
    """A finding, its rule and the failed checks that affect it.

    Args:
        step_ns: the mean step that it is about; `per` names it.
        lost_ns: what it is ranked by: the ranks' own loss in that step; -1 if no saving is stated.
        job_ns: upper bound of what a step of the job saves, with the waits of ranks for each other.
        caveat: why it may save less than its upper bound; the end of its advice.
    """

    rule: Rule
    finding: Finding
    severity: Severity
    checks: tuple[str, ...]
    step_ns: float
    per: str
    lost_ns: float
    job_ns: float | None = None
    caveat: str = ""

    @property
    def saving_share(self) -> float | None:
        """Upper bound of its saving, as a share of its step; None if no saving is stated."""
        return _share(self.finding.saving_ns, self.step_ns)

    @property
    def limits(self) -> bool:
        """Whether it names what limits the step, rather than something that would shorten it."""
        return self.finding.role != "remedy"


def judge(facts: Facts, rules: Iterable[Rule]) -> list[RankedFinding]:
    """Runs the rules: the verdict first, then the findings with the largest losses.

    A rule is silent if damaged evidence would make it wrong. If evidence that it rests on is damaged, its findings have
    low confidence and no lower bound. Damaged ranks are left out. The verdict depends only on the quick rules.
    """
    chosen_rules = tuple(rules)
    key = (__name__, *(rule.id for rule in chosen_rules))
    return list(facts.scope.cached(key, lambda: _judgement(facts, chosen_rules)))


def _judgement(facts: Facts, rules: Iterable[Rule]) -> list[RankedFinding]:
    with undamaged_facts(facts) as judged:
        results = [
            _judged(judged, rule, finding)
            for rule in rules
            if not judged.failing(*rule.silent_without)
            for finding in rule.find(judged)
        ]
        ranked = _lost_once(_in_order(results))
        if ranked and ranked[0].finding.role in ("loss", "work"):
            ranked[0] = _marked(judged, ranked[0])
        return ranked


@contextmanager
def undamaged_facts(facts: Facts) -> Iterator[Facts]:
    """The facts of all ranks that are not damaged."""
    with without_ranks(facts.scope, facts.damaged_ranks) as scope:
        yield facts if scope is facts.scope else Facts(scope, facts)


def _lost_once(ranked: list[RankedFinding]) -> list[RankedFinding]:
    """Marks findings that count waits of another one: of what limits the step, else of the finding before."""
    seen: list[RankedFinding] = []
    advice = {}
    for result in sorted(ranked, key=lambda result: not result.limits):
        gaps = result.finding.gaps
        for other in seen:
            shared = sum(ns for gap, ns in gaps.items() if gap in other.finding.gaps)
            if shared > _SHARED * sum(gaps.values()):
                advice[id(result)] = (
                    f"{result.finding.advice} {time_text(shared)} of it is also counted in `{other.rule.id}`."
                )
                break
        seen.append(result)
    return [
        replace(result, finding=replace(result.finding, advice=advice[id(result)])) if id(result) in advice else result
        for result in ranked
    ]


def _in_order(results: list[RankedFinding]) -> list[RankedFinding]:
    by_role: dict[str, list[RankedFinding]] = {"obstacle": [], "loss": [], "work": [], "remedy": []}
    for result in results:
        by_role[result.finding.role].append(result)
    leading = by_role["work"]
    losses = sorted(by_role["loss"], key=lambda result: -(result.finding.share or 0))
    if losses and (not leading or _leads(losses[0].finding, leading[0].finding)):
        leading = [losses.pop(0)]
    others = sorted([*losses, *by_role["remedy"]], key=lambda result: -result.lost_ns)
    return [*by_role["obstacle"], *leading, *others]


def _leads(loss: Finding, work: Finding) -> bool:
    return (loss.share or 0) > LEADING.value or (work.share or 0) < FILLED.value


def _marked(facts: Facts, first: RankedFinding) -> RankedFinding:
    """Names the failed checks of step times in the verdict."""
    names = facts.failing(*STEP_TIMES, "file")
    words = first.finding.title
    if facts.left_out:
        words += f". Without {ranks_text(facts.left_out)}, whose recording is damaged"
    if names:
        words += f". Read with care: {', '.join([*names][:_MAX_CHECKS_NAMED])}"
    if len(names) > _MAX_CHECKS_NAMED:
        words += f" and {len(names) - _MAX_CHECKS_NAMED} more"
    if words == first.finding.title:
        return first
    advice = f"`stepscope checks` first. {first.finding.advice}"
    return replace(first, finding=replace(first.finding, title=words, advice=advice))


def _judged(facts: Facts, rule: Rule, finding: Finding) -> RankedFinding:
    checks = tuple(facts.failing(*rule.rests_on))
    if not finding.query:
        finding = replace(finding, query=f"stepscope findings SRC --id {rule.id} --json")
    if finding.query.startswith("stepscope "):
        finding = replace(finding, query=finding.query.replace(" SRC", f" SRC{facts.options}", 1))
    of_run = finding.step_ns is not None and facts.phases_alone is None
    per = "step that is not traced" if of_run else facts.per
    step_ns = float(facts.step_ns) if finding.step_ns is None else finding.step_ns
    lost, job_ns, caveat = None, None, ""
    if facts.failing("device-work"):  # the missing work has no known saving
        finding = replace(finding, saving_ns=None)
    if finding.saving_ns is not None:
        lost = min(max(finding.saving_ns, 0.0), step_ns)
        waits = waiting(facts, of_phases=facts.phases_alone is not None or finding.step_ns is not None)
        saving_ns = min(lost + finding.hidden_ns, step_ns)
        job_ns = min(waits.saved_by_job(saving_ns, finding.lost_on) if saving_ns else 0.0, step_ns)
        advice = finding.advice
        if time_text(saving_ns) != time_text(lost):
            advice += WITH_HOST
        if time_text(job_ns) != time_text(saving_ns):
            advice += WITH_OTHERS
        if rule.shortens_device:
            caveat = _host_first(facts, lost)
        advice += caveat
        min_saving = finding.min_saving
        # One step does not show what the next one does; equal bounds would be a promise.
        if min_saving is not None and (checks or facts.steps < 2 or not 0 < round(min_saving[0]) < round(saving_ns)):
            min_saving = None
        finding = replace(finding, saving_ns=saving_ns, min_saving=min_saving, advice=advice)
    if checks:
        finding = replace(finding, confidence="low")
    severity = finding.severity or _severity(_share(lost, step_ns))
    return RankedFinding(rule, finding, severity, checks, step_ns, per, -1.0 if lost is None else lost, job_ns, caveat)


def _host_first(facts: Facts, lost_ns: float) -> str:
    """The caveat of shorter device work if the host sets the pace; empty for steps that kernels fill."""
    filled = facts.share("kernel") > 1 - LEADING.value
    waits_ns = None if filled else host_wait_ns(facts)
    if waits_ns is None or waits_ns >= lost_ns:
        return ""
    return (
        f" {facts.per.capitalize()}s are host-bound: speeding up kernels saves at most {time_text(waits_ns)} until the host "
        "is faster."
    )


def _share(ns: float | None, step_ns: float) -> float | None:
    if ns is None:
        return None
    return ns / step_ns if step_ns else 0.0


def _severity(share: float | None) -> Severity:
    if share is None:
        return "note"
    return "high" if share >= HIGH else "medium" if share >= MEDIUM else "low"
