"""`findings`: what is worth changing, and what that would save."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from stepscope.formats.evidence import EVERYTHING
from stepscope.query.declare import Column, Parameter, question
from stepscope.query.rows import ArrowTable, answer_dicts
from stepscope.query.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.findings.engine import RankedFinding
    from stepscope.findings.facts import Facts

_COLUMNS = (
    Column("id", "text", "rule that found it", visible=False),
    Column("severity", "text", "high, medium or low by the ranks' own loss; or note"),
    Column("title", "text", "what was found"),
    Column("saving_high_ns", "int", "upper bound of what a step of a rank could save by itself"),
    Column("saving_low_ns", "int", "lower bound of the saving; 0 unless the evidence shows more"),
    Column("saving_share_ratio", "float", "saving_high_ns as a fraction of the step"),
    Column("saving_job_ns", "int", "upper bound for the job, including waits between ranks", visible=False),
    Column("per", "text", "unit of the savings: step, untraced step, or recording without steps", visible=False),
    Column("confidence", "text", "how sure the cause is, whatever it costs: high, medium or low"),
    Column("advice", "text", "what to do, in PyTorch's terms", advises=True),
    Column("trade_off", "text", "what the cure costs elsewhere; not part of any saving", visible=False),
    Column("metric", "text", "what the value is", visible=False),
    Column("value", "float", "the number that the finding rests on", visible=False),
    Column("unit", "text", "its unit: ns, ratio, count or bytes", visible=False),
    Column("rank", "int", "rank it is about; empty for all", visible=False),
    Column("step", "int", "step it was seen in; empty for all", visible=False),
    Column("window_start_ns", "int", "start of the window it was seen in", visible=False),
    Column("window_end_ns", "int", "end of the window it was seen in", visible=False),
    Column("evidence", "text", "rows that show it, as a JSON list of objects", visible=False),
    Column("query", "text", "command, or SQL for `stepscope sql`, that reproduces the number", visible=False),
    Column("failing_checks", "text", "failing checks that affect it", visible=False),
)


@question(
    "findings",
    "What is worth changing, and what would it save?",
    _COLUMNS,
    group="steps",
    rests_on=EVERYTHING,
    about="recording",
    parameters=(Parameter("id", "text", "only the findings of one rule", default=None),),
    steps="all",
    drawing="paragraphs",
    fills="No rule found anything large enough. Record host and device, steps and shapes "
    "(record_shapes=True), so that all rules can look.",
)
def findings(scope: Scope, id: str | None = None) -> ArrowTable:  # noqa: A002  # the option is --id
    """What rules find in the recording: each finding with its number, the rows that show it, bounds of what a step
    could save, what to do about it, and the query that reproduces the number. [The rules](../findings.md) lists what
    each looks for, its thresholds and their sources.

    **The verdict**, which `summary` and `phases` print, comes first: the largest loss, or what fills the step if none
    is large, or what prevents judging. The others follow, ordered by the ranks' own losses, without others' waits.

    **Savings** are bounds for a mean step: at most what ranks lose themselves, and never more than the step. Titles
    state the mean loss. The bound is larger, and the advice says so, where the cure frees host time that counts even
    while a device works: a host that gets ahead hides waits with other causes (without `.item()` in mid-step, later
    launches happen while earlier work still runs). If ranks meet in collectives, a loss of one delays the others, so
    that the job may save more than one rank: a loader that waits on one rank of eight delays all eight. `saving_job_ns`
    bounds that, often loosely: no rank's step gets shorter by more than its own loss plus its waits for others, and the
    bound is the smallest such sum over the ranks, in a run of such steps. In collectives that are not matched over
    ranks all exposed time may be waiting; for phases it is the all-reduce as DDP timed it, else the sum over the ranks
    bounds the job's loss. A recording shows the loss, not what a cure wins, so the lower bound is 0 unless a rule names
    evidence for more; for a single step it always is. What a cure costs elsewhere (loading in workers, on CPU cores
    that the step needs too) is its trade-off, which no saving includes. Findings overlap: savings do not add up; a
    finding that counts single waits of another one says how much of its time that is.

    **Severity** follows from the ranks' own losses: high from 20 % of the step, medium from 5 % (the bands of xprof for
    time lost to input), low below, and note if nothing can be said about it.

    **Confidence** is how sure the cause is, whatever the saving: high if the evidence allows no other reading, medium
    if another cause could look the same, low if the recording shows only that it is possible, or if a failing check
    concerns the evidence.

    **Silence**: a rule that would be wrong about a recording says nothing. An answer without a saving means that no
    rule found something large enough, not that nothing could be better. Rules about kernels need 50 pieces of device
    work in a step. A failing check that makes a rule unreliable lowers the finding's confidence and is named with it.

    If a job's own phases are recorded but no events, rules use the means of the phases. Steps and their parts are those
    of `steps`; without steps, the time from the device's first work to its last is used as a step.
    """
    scope.preload()
    from stepscope.findings.engine import judge
    from stepscope.findings.facts import Facts
    from stepscope.findings.rules import all_rules, find, with_quick

    facts = scope.cached(Facts, lambda: Facts(scope))
    ranked = judge(facts, all_rules() if id is None else with_quick(id))
    rule_id = None if id is None else find(id).id
    rows = [_row(facts, finding) for finding in ranked if rule_id in (None, finding.rule.id)]
    return answer_dicts(_COLUMNS, rows)


_STATED = ("title", "confidence", "advice", "metric", "unit", "rank", "step", "query")
"""Columns that are a finding's own attributes."""


def _row(facts: Facts, ranked: RankedFinding) -> dict[str, Any]:
    finding = ranked.finding
    high = finding.saving_ns
    low, shows = finding.min_saving or (0.0, "")
    evidence = [_evidence_row(row) for row in finding.evidence]
    if shows:
        evidence.append({"saving_low_ns": round(low), "shown_by": shows})
    start, end = finding.window_ns or facts.window_ns or (None, None)
    return {
        **{name: getattr(finding, name) for name in _STATED},
        "id": ranked.rule.id,
        "severity": ranked.severity,
        "saving_high_ns": None if high is None else round(high),
        "saving_low_ns": None if high is None else round(low),
        "saving_share_ratio": ranked.saving_share,
        "saving_job_ns": None if ranked.job_ns is None else round(ranked.job_ns),
        "per": ranked.per,
        "trade_off": finding.trade_off or ranked.rule.trade_off or None,
        "value": float(finding.value),
        "window_start_ns": start,
        "window_end_ns": end,
        "evidence": json.dumps(evidence, ensure_ascii=False),
        "failing_checks": ", ".join(ranked.checks) or None,
    }


def _evidence_row(row: Mapping[str, Any]) -> dict[str, Any]:
    from stepscope.questions import affected

    return {**row, "affects": affected(row["affects"])} if "affects" in row else dict(row)
