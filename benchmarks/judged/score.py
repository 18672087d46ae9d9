"""Judges one seed's job, and adds up what many seeds say."""

from __future__ import annotations

import math
import random
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.judged.causes import CAUSES, CURES, Cause
from benchmarks.judged.jobs import draw_job
from tests.simulated_job import START_NS, Job, simulate

WITHOUT_CAUSE = 0.2
"""Part of the seeds that plant nothing."""
MIN_SAVING = 0.08
"""Part of the step that a planted cause costs at least, and half as much again as any other loss of the job."""
AS_LARGE = 0.9
"""A loss whose cure saves this much of what the planted cause costs is as good a first sentence."""
TOLERANCE = 0.01
"""Part of the step by which draws of two simulations differ."""


@dataclass(frozen=True)
class Case:
    """A drawn job with what is true about it; savings are parts of the step."""

    seed: int
    job: Job
    cause: Cause | None
    step_ns: float
    savings: dict[str, float]
    planted: float = 0.0


@dataclass
class Outcome:
    """What the findings about a job say, beside the truth."""

    seed: int
    cause: str
    first: str
    named: bool = False
    """whether the first sentence names the cause, or a loss whose cure saves as much"""
    false: list[str] = field(default_factory=list)
    """rules whose finding is of high confidence and names a loss that the job does not have"""
    bounds: int = 0
    missed: list[str] = field(default_factory=list)
    """rules whose bounds do not hold the true saving"""
    high_low: list[str] = field(default_factory=list)
    """rules that say that at least 2 % of the step are saved, in a job without a cause"""
    error: str = ""


def step_ns(job: Job, *, first: bool = False) -> float:
    """The mean step of a job, from when the work of the one before is done on all hosts and devices.

    The first step counts only where first use is the cause: means leave out a first step that is slow.
    """
    ran = simulate(job)
    done = [max(ends) for ends in zip(*(ran.done_ns(rank) for rank in range(job.ranks)), strict=True)]
    if first:
        return (done[-1] - START_NS) / job.steps
    return (done[-1] - done[0]) / (job.steps - 1)


def draw_case(seed: int) -> Case:
    """The case of a seed: a cause is large enough to be named, and larger than the job's other losses."""
    draw = random.Random(seed)  # noqa: S311
    if draw.random() < WITHOUT_CAUSE:
        return _case(seed, draw_job(draw, seed), None)
    cause = draw.choice(CAUSES)
    while True:
        healthy = draw_job(draw, seed)
        if not cause.fits(healthy):
            continue
        for share in (0.15, 0.3, 0.6, 1.2):
            job = cause.plant(healthy, draw, share * draw.uniform(0.8, 1.2))
            first = job.first_use_ns > 0
            saving = 1 - step_ns(cause.cured(job), first=first) / step_ns(job, first=first)
            if saving < MIN_SAVING:
                continue
            case = _case(seed, job, cause, saving)
            rivals = (value for rule, value in case.savings.items() if rule not in cause.named_by)
            if saving >= 1.5 * max(rivals, default=0.0):
                return case


def _case(seed: int, job: Job, cause: Cause | None, planted: float = 0.0) -> Case:
    before = step_ns(job)
    savings = {rule: 1 - step_ns(cured) / before for rule, cure in CURES.items() if (cured := cure(job)) != job}
    return Case(seed, job, cause, before, savings, planted)


def judge(case: Case, rows: list[dict[str, Any]]) -> Outcome:
    """Compares the findings about a case's traces with its truth."""
    first = rows[0]["id"] if rows else ""
    named_by: tuple[str, ...] = ()
    outcome = Outcome(case.seed, "", first)
    if case.cause is not None:
        named_by = case.cause.named_by
        outcome.cause = case.cause.name
        outcome.named = first in named_by or case.savings.get(first, 0.0) >= AS_LARGE * case.planted
    for row in rows:
        rule, high_ns = row["id"], row["saving_job_ns"] or row["saving_high_ns"]
        if high_ns is None:
            continue
        low, high = (row["saving_low_ns"] or 0) / case.step_ns, high_ns / case.step_ns
        if case.cause is None and low > 0.02:
            outcome.high_low.append(rule)
        true = case.savings.get(rule, 0.0) if rule in CURES else None
        if true is None or row["per"] != "step":
            continue
        outcome.bounds += 1
        if not low - TOLERANCE <= true <= high + TOLERANCE:
            outcome.missed.append(f"{rule} {low:.3f} {true:.3f} {high:.3f}")
        if row["confidence"] == "high" and high > 0.05 and true < TOLERANCE and rule not in named_by:
            outcome.false.append(f"{rule} {high:.3f}")
    return outcome


def score(seed: int) -> Outcome:
    """Draws, simulates, reads and judges the job of a seed."""
    import stepscope

    case = draw_case(seed)
    with tempfile.TemporaryDirectory(prefix="judged-") as folder:
        simulate(case.job).write(Path(folder))
        try:
            with stepscope.open(folder, cache=False) as trace:
                rows = trace.findings().rows()
        except Exception as error:
            return Outcome(seed, case.cause.name if case.cause else "", "", error=repr(error))
    return judge(case, rows)


def interval(hits: int, of: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a ratio (Wilson, 1927)."""
    if not of:
        return 0.0, 1.0
    z, ratio = 1.959964, hits / of
    middle = (ratio + z * z / (2 * of)) / (1 + z * z / of)
    width = z * math.sqrt(ratio * (1 - ratio) / of + z * z / (4 * of * of)) / (1 + z * z / of)
    return max(0.0, middle - width), min(1.0, middle + width)


def table(outcomes: Iterable[Outcome]) -> str:
    """The scores by cause, as a table in Markdown."""
    outcomes = list(outcomes)
    lines = ["| cause | jobs | first sentence names it | other first sentences |", "| --- | --: | --: | --- |"]
    for name in [cause.name for cause in CAUSES]:
        mine = [one for one in outcomes if one.cause == name]
        others: dict[str, int] = {}
        for one in mine:
            if not one.named:
                others[one.first or one.error] = others.get(one.first or one.error, 0) + 1
        text = ", ".join(f"{rule} {count}" for rule, count in sorted(others.items(), key=lambda item: -item[1]))
        lines.append(f"| {name} | {len(mine)} | {_ratio(sum(one.named for one in mine), len(mine))} | {text} |")
    planted = [one for one in outcomes if one.cause]
    healthy = [one for one in outcomes if not one.cause]
    bounds = sum(one.bounds for one in outcomes)
    lines += [
        "",
        f"* First sentence names the planted cause: {_ratio(sum(one.named for one in planted), len(planted))} of {len(planted)} jobs.",
        f"* Jobs with a false finding of high confidence: {_ratio(sum(bool(one.false) for one in outcomes), len(outcomes))} of {len(outcomes)}.",
        f"* True saving within the bounds: {_ratio(bounds - sum(len(one.missed) for one in outcomes), bounds)} of {bounds} findings.",
        f"* Nothing planted and no least saving above 2 %: {_ratio(sum(not one.high_low for one in healthy), len(healthy))} of {len(healthy)} jobs.",
        f"* Errors: {sum(bool(one.error) for one in outcomes)}.",
    ]
    return "\n".join(lines)


def _ratio(hits: int, of: int) -> str:
    low, high = interval(hits, of)
    return f"{100 * hits / of:.1f} % [{100 * low:.1f}, {100 * high:.1f}]" if of else "–"
