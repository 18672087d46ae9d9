"""SQL for the times of a run's phases: over all steps, of chosen steps, and step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.analysis.weighted import quantile, ranked
from stepscope.base.step_phases import PHASES

if TYPE_CHECKING:
    from stepscope.query.scope import Scope

WINDOWS = 20
"""Windows of a run that `--by window` shows for each rank."""

TOGETHER = "coalesce(weight_ns, dur_ns * weight)"
"""SQL: total time of the steps that a row of `phase_step` represents; the weight of every mean step."""

OTHER_STEPS = "other steps"
"""Time by which the mean of all steps exceeds that of the timed ones: rare long steps were not timed."""

_OF_ASKED_STEPS = f"""
    SELECT * FROM phase WHERE false UNION ALL BY NAME
    SELECT rank, span, phase, sum(weight)::BIGINT AS steps,
        sum({TOGETHER}) / sum(weight) AS mean_ns,
        {quantile(0.5)} AS median_ns, {quantile(0.95)} AS p95_ns,
        max(dur_ns) AS max_ns, max(peak_bytes) AS peak_bytes,
        max(reserved_bytes) AS reserved_bytes
    FROM ({ranked("FROM phase_step", "rank, span, phase")}) GROUP BY rank, span, phase
"""

_ROUNDED = 1e-6
"""Share of a step by which the sum of phases may miss it: means are written with all their digits."""

_LONGER = f"""
    longer AS (
        SELECT rank, span, any_value(of.mean_ns) AS all_ns, sum(parts.mean_ns) AS timed_ns
        FROM times AS of JOIN times AS parts USING (rank, span)
        WHERE of.phase = 'step' AND parts.phase <> 'step'
            AND (rank, span) IN (SELECT (rank, span) FROM phase_step WHERE weight_ns IS NOT NULL)
        GROUP BY rank, span HAVING abs(any_value(of.mean_ns) - sum(parts.mean_ns)) > {_ROUNDED} * any_value(of.mean_ns) + 1
    ),
    beside AS (
        SELECT rank, span, part.phase, part.weight::DOUBLE AS weight, part.dur_ns::DOUBLE AS part_ns,
            of.dur_ns - avg(of.dur_ns) OVER (PARTITION BY rank, span, part.phase) AS from_mean_ns
        FROM phase_step AS part JOIN phase_step AS of USING (rank, span, step)
        WHERE part.phase <> 'step' AND of.phase = 'step'
    ),
    slopes AS (
        SELECT rank, span, phase,
            (sum(weight * part_ns * from_mean_ns) / sum(weight)
                - sum(weight * part_ns) / sum(weight) * sum(weight * from_mean_ns) / sum(weight))
            / nullif(sum(weight * from_mean_ns ** 2) / sum(weight) - (sum(weight * from_mean_ns) / sum(weight)) ** 2, 0)
            AS slope
        FROM beside GROUP BY ALL
    ),
    less AS (
        SELECT rank, span, phase, greatest(
            times.mean_ns - coalesce(slope, times.mean_ns / timed_ns) * (timed_ns - all_ns), 0) AS mean_ns, all_ns
        FROM times JOIN longer USING (rank, span) LEFT JOIN slopes USING (rank, span, phase)
        WHERE times.phase <> 'step' AND timed_ns > all_ns
    )
"""
"""SQL: corrects phases if timed steps are longer than all on average (a rare long one represents others, or timing
slows them), by as much as each phase changes with the step's length: the regression estimator of W. G. Cochran,
"Sampling Techniques", chapter 7. Negative results become 0; phases add up to the mean step."""


def times_of(scope: Scope) -> str:
    """SQL: rows like those of `phase`, of all counted steps or the requested ones; the one place that computes a run's
    mean step.

    Phases and `OTHER_STEPS` add up to it, and none is negative. If one recording has `OTHER_STEPS`, all have, so that
    means over ranks add up.
    """
    return f"""
        WITH times AS ({"SELECT * FROM phase" if scope.steps is None else _OF_ASKED_STEPS}), {_LONGER}
        SELECT times.* REPLACE (coalesce(
            less.mean_ns * all_ns / sum(less.mean_ns) OVER (PARTITION BY times.rank, times.span), times.mean_ns) AS mean_ns)
        FROM times LEFT JOIN less USING (rank, span, phase)
        UNION ALL BY NAME
        SELECT rank, span, '{OTHER_STEPS}' AS phase, steps, coalesce(greatest(all_ns - timed_ns, 0), 0) AS mean_ns
        FROM times LEFT JOIN longer USING (rank, span)
        WHERE phase = 'step' AND (SELECT bool_or(all_ns > timed_ns) FROM longer)
    """


def has_untraced_phases(scope: Scope) -> bool:
    """Whether there are steps with a trace, and phases of steps without one."""
    exists = scope.value(
        "SELECT EXISTS (SELECT 1 FROM step WHERE rule <> 'whole recording')"
        " AND EXISTS (SELECT 1 FROM phase ANTI JOIN step USING (rank, span))"
    )
    return bool(exists)


def order(column: str) -> str:
    """SQL: the position of a phase in a step; the complete step comes first."""
    names = ("step", *PHASES, OTHER_STEPS)
    places = " ".join(f"WHEN '{name}' THEN {place}" for place, name in enumerate(names))
    return f"CASE {column} {places} ELSE {len(names)} END"


def _mean_of(phase: str, together: str = "dur_ns * weight") -> str:
    of = f"FILTER (phase = '{phase}')"
    return f"sum({together}) {of} / sum(weight) {of}"


def by_steps(window: str) -> str:
    """SQL: a row per rank and window of stored steps, a column per phase; `window` is `step` or the window's number. A
    window's mean step covers all its steps."""
    step_ns = _mean_of("step", *(() if window == EACH_STEP else (TOGETHER,)))
    # Timed steps longer than the window's mean step would make the parts exceed it.
    of_all = f"least(1, {step_ns} / nullif({_mean_of('step')}, 0))"
    parts = ", ".join(f"round({_mean_of(name)} * {of_all})::BIGINT AS {name}_ns" for name in PHASES)
    return f"""
        SELECT
            rank, min(step) AS step,
            round({step_ns})::BIGINT AS total_ns, {parts},
            {step_ns} / nullif(any_value(median_ns), 0) AS over_median_ratio,
            max(memory_bytes) AS memory_bytes, max(peak_bytes) AS peak_bytes,
            max(reserved_bytes) AS reserved_bytes, span
        FROM (SELECT *, {window} AS shown FROM phase_step) JOIN (
            SELECT rank, span, {quantile(0.5)} AS median_ns
            FROM ({ranked("FROM phase_step WHERE phase = 'step'", "rank, span")}) GROUP BY rank, span
        ) USING (rank, span)
        GROUP BY rank, span, shown ORDER BY rank, span, step
    """


EACH_STEP = "step"
IN_WINDOWS = f"""(dense_rank() OVER (PARTITION BY rank, span ORDER BY step) - 1) * {WINDOWS}
    // count(*) FILTER (phase = 'step') OVER (PARTITION BY rank, span)"""
