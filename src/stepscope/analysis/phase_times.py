"""The times of a run's phases as SQL: over all steps, of asked steps, and step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepscope.answers.scope import Scope

PHASES = ("input_wait", "host_to_device", "forward", "backward", "optimizer", "residual")
"""The parts of a step, in the order in which it runs them."""

WINDOWS = 20
"""Windows of a run that `--by window` shows of each rank."""

_OF_ASKED_STEPS = """
    SELECT * FROM phase WHERE false UNION ALL BY NAME
    SELECT rank, span, phase, count(*) AS steps, avg(dur_ns) AS mean_ns,
        median(dur_ns)::DOUBLE AS median_ns, quantile_cont(dur_ns, 0.95)::DOUBLE AS p95_ns,
        max(dur_ns) AS largest_ns, max(peak_bytes) AS peak_bytes,
        max(reserved_bytes) AS reserved_bytes
    FROM phase_step GROUP BY rank, span, phase
"""


def times_of(scope: Scope) -> str:
    """Rows like those of the table `phase`: of all counted steps, or of the kept ones asked for."""
    return "SELECT * FROM phase" if scope.steps is None else _OF_ASKED_STEPS


def order(column: str) -> str:
    """SQL: where a phase stands in a step, the complete step first."""
    places = " ".join(f"WHEN '{name}' THEN {place}" for place, name in enumerate(("step", *PHASES)))
    return f"CASE {column} {places} ELSE {len(PHASES) + 1} END"


def by_steps(window: str) -> str:
    """SQL: a row for each rank and window of kept steps, a column for each phase.

    Args:
        window: what steps have in common that are shown as one: `step`, or a window's number.
    """
    parts = ", ".join(
        f"round(avg(dur_ns) FILTER (phase = '{name}'))::BIGINT AS {name}_ns" for name in PHASES
    )
    return f"""
        SELECT
            rank, min(step) AS step,
            round(avg(dur_ns) FILTER (phase = 'step'))::BIGINT AS total_ns, {parts},
            avg(dur_ns) FILTER (phase = 'step')
                / nullif(any_value(median_ns), 0) AS over_median_ratio,
            max(memory_bytes) AS memory_bytes, max(peak_bytes) AS peak_bytes,
            max(reserved_bytes) AS reserved_bytes, span
        FROM (
            SELECT *, {window} AS shown,
                median(dur_ns) FILTER (phase = 'step') OVER (PARTITION BY rank, span) AS median_ns
            FROM phase_step
        )
        GROUP BY rank, span, shown ORDER BY rank, span, step
    """


EACH_STEP = "step"
IN_WINDOWS = f"""(dense_rank() OVER (PARTITION BY rank, span ORDER BY step) - 1) * {WINDOWS}
    // count(*) FILTER (phase = 'step') OVER (PARTITION BY rank, span)"""
