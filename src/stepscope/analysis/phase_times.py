"""The times of a run's phases as SQL: over all steps, of asked steps, and step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.analysis.weighted import quantile, ranked

if TYPE_CHECKING:
    from stepscope.answers.scope import Scope

PHASES = ("input_wait", "host_to_device", "forward", "backward", "optimizer", "residual")
"""The parts of a step, in the order in which it runs them."""

WINDOWS = 20
"""Windows of a run that `--by window` shows of each rank."""

TOGETHER = "coalesce(stands_for_ns, dur_ns * stands_for)"
"""SQL: what the steps took that a row of `phase_step` stands for. By what these are, the mean step, wherever one is shown:
of a run, of some of its steps, of a rank, and by seconds."""

OTHER_STEPS = "other steps"
"""By how much the mean of all steps is above that of those that were timed, whose phases are known: seldom steps that are
long and were not timed. Below nothing where timing itself makes those longer, or more of them than of the others are long."""

_OF_ASKED_STEPS = f"""
    SELECT * FROM phase WHERE false UNION ALL BY NAME
    SELECT rank, span, phase, sum(stands_for)::BIGINT AS steps,
        sum({TOGETHER}) / sum(stands_for) AS mean_ns,
        {quantile(0.5)} AS median_ns, {quantile(0.95)} AS p95_ns,
        max(dur_ns) AS largest_ns, max(peak_bytes) AS peak_bytes,
        max(reserved_bytes) AS reserved_bytes
    FROM ({ranked("FROM phase_step", "rank, span, phase")}) GROUP BY rank, span, phase
"""

_ROUNDED = 1e-6
"""Part of a step by which sums of phases may miss it: means are written with all their digits."""


def times_of(scope: Scope) -> str:
    """Rows like those of the table `phase`, of all counted steps or of the kept ones asked for: the one place that computes a
    run's mean step. The phases of a recording and its `OTHER_STEPS` add up to it.
    """
    return f"""
        WITH times AS ({"SELECT * FROM phase" if scope.steps is None else _OF_ASKED_STEPS})
        SELECT * FROM times UNION ALL BY NAME
        SELECT rank, span, '{OTHER_STEPS}' AS phase, of.steps, of.mean_ns - timed_ns AS mean_ns
        FROM times AS of JOIN (
            SELECT rank, span, sum(mean_ns) AS timed_ns FROM times WHERE phase <> 'step' GROUP BY ALL
        ) USING (rank, span)
        WHERE of.phase = 'step' AND abs(of.mean_ns - timed_ns) > {_ROUNDED} * of.mean_ns + 1
            AND (rank, span) IN (SELECT (rank, span) FROM phase_step WHERE stands_for_ns IS NOT NULL)
    """


def beside_trace(scope: Scope) -> bool:
    """Whether there are steps of a trace, and phases of steps that were not traced."""
    found = scope.value(
        "SELECT EXISTS (SELECT 1 FROM step WHERE rule <> 'whole recording')"
        " AND EXISTS (SELECT 1 FROM phase ANTI JOIN step USING (rank, span))"
    )
    return bool(found)


def order(column: str) -> str:
    """SQL: where a phase stands in a step, the complete step first."""
    names = ("step", *PHASES, OTHER_STEPS)
    places = " ".join(f"WHEN '{name}' THEN {place}" for place, name in enumerate(names))
    return f"CASE {column} {places} ELSE {len(names)} END"


def _mean_of(phase: str, together: str = "dur_ns * stands_for") -> str:
    of = f"FILTER (phase = '{phase}')"
    return f"sum({together}) {of} / sum(stands_for) {of}"


def by_steps(window: str) -> str:
    """SQL: a row for each rank and window of kept steps, a column for each phase.

    Args:
        window: what steps have in common that are shown as one: `step`, or a window's number. The mean step of a window
            is that of all its steps.
    """
    whole = _mean_of("step", *(() if window == EACH_STEP else (TOGETHER,)))
    parts = ", ".join(f"round({_mean_of(name)})::BIGINT AS {name}_ns" for name in PHASES)
    return f"""
        SELECT
            rank, min(step) AS step,
            round({whole})::BIGINT AS total_ns, {parts},
            {whole} / nullif(any_value(median_ns), 0) AS over_median_ratio,
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
