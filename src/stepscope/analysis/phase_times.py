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

_OF_ASKED_STEPS = f"""
    SELECT * FROM phase WHERE false UNION ALL BY NAME
    SELECT rank, span, phase, sum(stands_for)::BIGINT AS steps,
        sum(dur_ns * stands_for) / sum(stands_for) AS mean_ns,
        {quantile(0.5)} AS median_ns, {quantile(0.95)} AS p95_ns,
        max(dur_ns) AS largest_ns, max(peak_bytes) AS peak_bytes,
        max(reserved_bytes) AS reserved_bytes
    FROM ({ranked("FROM phase_step", "rank, span, phase")}) GROUP BY rank, span, phase
"""

_FEW_LONG, _LED, _ENOUGH = 100, 1.1, 20
"""One step in so many, the longest, is left out where the mean of all is so much larger; with so many kept steps."""


def times_of(scope: Scope) -> str:
    """Rows like those of the table `phase`, of all counted steps or of the kept ones asked for, and how many steps are
    `left_out`: the one place that computes a run's mean step.

    Where the few longest steps alone lead the mean, `steps` and `mean_ns` are without them: a step of ten seconds,
    while something else had the machine, is no part of what the others wait for. `uneven-steps` is about such steps.
    """
    return f"""
        WITH {_led(scope)}
        SELECT times.* REPLACE (
                CASE WHEN led.left_out IS NULL THEN mean_ns
                    ELSE (mean_ns * steps - coalesce(long_ns, 0)) / (steps - led.left_out) END AS mean_ns,
                steps - coalesce(led.left_out, 0) AS steps
            ), coalesce(led.left_out, 0) AS left_out
        FROM times LEFT JOIN led USING (rank, span) LEFT JOIN long USING (rank, span, phase)
    """


def steps_of_means(scope: Scope) -> str:
    """The rows of `phase_step` of those kept steps that are in the means of `times_of`."""
    return f"""
        WITH {_led(scope)}
        SELECT phase_step.* FROM phase_step
        ANTI JOIN (SELECT * FROM longest SEMI JOIN led USING (rank, span)) USING (rank, span, step)
    """


def _led(scope: Scope) -> str:
    """Relations: all `times`, the `longest` kept steps, their `long` phases, and the recordings whose mean they `led`."""
    return f"""
        times AS ({"SELECT * FROM phase" if scope.steps is None else _OF_ASKED_STEPS}),
        longest AS (
            SELECT rank, span, step FROM phase_step WHERE phase = 'step'
            WINDOW same AS (PARTITION BY rank, span)
            QUALIFY count(*) OVER same >= {_ENOUGH} AND (row_number() OVER (same ORDER BY dur_ns DESC, step) = 1
                OR sum(stands_for) OVER (same ORDER BY dur_ns DESC, step) <= sum(stands_for) OVER same // {_FEW_LONG})
        ), long AS (
            SELECT rank, span, phase, sum(stands_for)::BIGINT AS left_out,
                sum(dur_ns * stands_for)::DOUBLE AS long_ns
            FROM phase_step SEMI JOIN longest USING (rank, span, step) GROUP BY rank, span, phase
        ), led AS (
            SELECT rank, span, left_out FROM times JOIN long USING (rank, span, phase)
            WHERE phase = 'step' AND steps > left_out AND mean_ns * steps > long_ns
                AND mean_ns > {_LED} * (mean_ns * steps - long_ns) / (steps - left_out)
        )"""


def beside_trace(scope: Scope) -> bool:
    """Whether there are steps of a trace, and phases of steps that were not traced."""
    found = scope.value(
        "SELECT EXISTS (SELECT 1 FROM step WHERE rule <> 'whole recording')"
        " AND EXISTS (SELECT 1 FROM phase ANTI JOIN step USING (rank, span))"
    )
    return bool(found)


def order(column: str) -> str:
    """SQL: where a phase stands in a step, the complete step first."""
    places = " ".join(f"WHEN '{name}' THEN {place}" for place, name in enumerate(("step", *PHASES)))
    return f"CASE {column} {places} ELSE {len(PHASES) + 1} END"


def _mean_of(phase: str) -> str:
    of = f"FILTER (phase = '{phase}')"
    return f"sum(dur_ns * stands_for) {of} / sum(stands_for) {of}"


def by_steps(window: str) -> str:
    """SQL: a row for each rank and window of kept steps, a column for each phase.

    Args:
        window: what steps have in common that are shown as one: `step`, or a window's number.
    """
    parts = ", ".join(f"round({_mean_of(name)})::BIGINT AS {name}_ns" for name in PHASES)
    return f"""
        SELECT
            rank, min(step) AS step,
            round({_mean_of("step")})::BIGINT AS total_ns, {parts},
            {_mean_of("step")} / nullif(any_value(median_ns), 0) AS over_median_ratio,
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
