"""A job's throughput: samples, tokens, or other numbers that it reported for its iterations, per second."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from stepscope.analysis.counted import COUNTED_STEPS
from stepscope.analysis.job.phase_times import TOGETHER, has_untraced_phases
from stepscope.base.statistics import is_informative, student_t
from stepscope.base.units import count_text
from stepscope.query.rank_exclusion import damaged_ranks, without_ranks
from stepscope.query.scope import Scope

NO_INTERVAL = "too few steps for an interval"

_TIMED = f"""
    WITH unarmed AS (
        SELECT * FROM inline_timing WHERE kind = 'iteration' AND (
            armed IS DISTINCT FROM true OR (rank, span) NOT IN (
                SELECT (rank, span) FROM inline_timing
                WHERE kind = 'iteration' AND armed IS DISTINCT FROM true
            )
        )
    ),
    timed AS (
        SELECT rank, span, name, value, {TOGETHER} / weight AS ns, weight
        FROM step_value JOIN phase_step USING (rank, span, step) WHERE phase = 'step'
        UNION ALL
        SELECT rank, span, step_value.name, value, end_ns - start_ns AS ns, 1
        FROM step_value JOIN step USING (rank, span, step)
        SEMI JOIN ({COUNTED_STEPS}) USING (rank, span, step)
        UNION ALL
        SELECT rank, span, name, value, {TOGETHER} / weight AS ns, weight
        FROM step_value JOIN unarmed USING (rank, span, iteration)
        UNION ALL
        SELECT rank, span, name, value, ns, 1 FROM step_value
        JOIN (SELECT rank, span, sum({TOGETHER}) / sum(weight) AS ns FROM unarmed GROUP BY ALL) USING (rank, span)
        WHERE step IS NULL AND iteration IS NULL
    ),
    summed AS (
        SELECT name, rank, span, count(*) AS n, sum(weight)::DOUBLE AS weight,
            sum(value * weight) AS value, sum(ns * weight)::DOUBLE AS ns
        FROM timed GROUP BY ALL HAVING sum(ns) > 0
    )
    SELECT summed.*, (rank, span) IN (SELECT (rank, span) FROM step) AS traced,
        (rank, span) IN (SELECT (rank, span) FROM phase_step WHERE weight_ns IS NOT NULL) AS of_all,
        sum((timed.weight * (timed.value - summed.value * timed.ns / summed.ns)) ** 2) AS squares
    FROM summed JOIN timed USING (name, rank, span)
    GROUP BY ALL ORDER BY name, rank, of_all DESC, n DESC, span
"""
"""SQL: numbers reported for steps of known time, by rank and recording. HugeCTR's have no iteration: each counts for
one of mean time."""


@dataclass(frozen=True, slots=True)
class Rate:
    """A number that one rank, or several together, reported.

    Args:
        steps: counted steps with a number, on all ranks.
        per_step: mean over steps; for several ranks the sum of their means.
        step_ns: mean time of these steps.
        per_second: total over these steps per time; the sum over ranks.
        half_per_second: half of its 95 % interval; None with too few steps.
        traced: whether they are steps of a trace.
    """

    name: str
    ranks: tuple[int, ...]
    steps: int
    per_step: float
    step_ns: float
    per_second: float
    half_per_second: float | None
    traced: bool


def rates(scope: Scope) -> list[Rate]:
    """Each rank's numbers, by name and rank. Of several recordings, phases win, whose time covers all steps, then most
    steps."""
    if scope.has_none("step_value"):
        return []
    best: dict[tuple[str, int], dict[str, Any]] = {}
    for row in scope.sql(_TIMED).to_pylist():
        best.setdefault((row["name"], row["rank"]), row)
    return [_rate(row) for row in best.values()]


def _rate(row: dict[str, Any]) -> Rate:
    """The ratio of sums, with its interval from the steps' residuals (W. G. Cochran, "Sampling Techniques", chapter 6)."""
    n, value, ns = row["n"], row["value"], row["ns"]
    ratio = value / ns
    half = None
    if n > 1:
        error = math.sqrt(row["squares"] / (n - 1) / n) / (ns / n)
        half = student_t(n - 1) * error * 1e9
    per_step, step_ns = value / row["weight"], ns / row["weight"]
    return Rate(row["name"], (row["rank"],), n, per_step, step_ns, ratio * 1e9, half, row["traced"])


def together(of_ranks: Iterable[Rate]) -> list[Rate]:
    """The sum over ranks, by name. Ranks wait for one another: their intervals add up."""
    totals = []
    ordered = sorted(of_ranks, key=lambda rate: rate.name)
    for name, several in groupby(ordered, lambda rate: rate.name):
        of_name = list(several)
        halves = [rate.half_per_second for rate in of_name]
        totals.append(
            Rate(
                name,
                tuple(rank for rate in of_name for rank in rate.ranks),
                sum(rate.steps for rate in of_name),
                sum(rate.per_step for rate in of_name),
                sum(rate.step_ns for rate in of_name) / len(of_name),
                sum(rate.per_second for rate in of_name),
                None if None in halves else sum(half for half in halves if half is not None),
                any(rate.traced for rate in of_name),
            )
        )
    return totals


def throughput_words(scope: Scope) -> str:
    """Describes the throughput of all ranks in scope in a sentence; empty if no numbers were reported."""
    with without_ranks(scope, damaged_ranks(scope)) as scope_of_valid:
        totals = together(rates(scope_of_valid))
    if not totals:
        return ""
    texts = []
    for rate in totals:
        unsure = f"; {NO_INTERVAL}" if _is_unsure(rate) else ""
        per_step = f"{count_text(_rounded(rate.per_step))} in a step"
        texts.append(f"{_value_text(rate)} {rate.name}/s ({per_step}{unsure})")
    ranks = max(len(rate.ranks) for rate in totals)
    whose = "" if ranks == 1 else f" of {ranks} ranks together"
    if has_untraced_phases(scope):
        whose += ", traced" if any(rate.traced for rate in totals) else ", not traced"
    return f"Throughput{whose}: {', '.join(texts)}."


def rate_text(rate: Rate) -> str:
    """A rate and its interval, without its unit: `1 234 ± 12`."""
    return f"{_value_text(rate)}{f' ({NO_INTERVAL})' if _is_unsure(rate) else ''}"


def _value_text(rate: Rate) -> str:
    half = None if _is_unsure(rate) else rate.half_per_second
    around = "" if half is None else f" ± {count_text(_rounded(half))}"
    return f"{count_text(_rounded(rate.per_second))}{around}"


def _is_unsure(rate: Rate) -> bool:
    return rate.half_per_second is not None and not is_informative(rate.half_per_second, rate.per_second)


def _rounded(value: float) -> float:
    return float(round(value)) if abs(value) >= 1000 else float(f"{value:.4g}")
