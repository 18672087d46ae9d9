"""Which steps means, intervals and comparisons are made of, and the words for those that are left out."""

from __future__ import annotations

from stepscope.answers.scope import Scope
from stepscope.answers.selection import numbers_text
from stepscope.floor.units import plural, time_text


def counted_steps(condition: str = "true") -> str:
    """SQL: rank, span and step of each step that a mean is made of.

    These are the complete ones. A first step that is slow (`step.slow_first`) is not among them, nor is
    the same step of other ranks: ranks are compared by the same steps. Where that leaves none of a
    recording, the slow step counts, and where none is complete, all do.

    Args:
        condition: SQL on the rows of `step` to choose from.
    """
    return f"""
        SELECT rank, span, step FROM (
            SELECT rank, span, step, CASE
                    WHEN NOT complete THEN 0
                    WHEN bool_or(slow_first) OVER (PARTITION BY span, step) THEN 1
                    ELSE 2
                END AS worth
            FROM step WHERE {condition}
        ) QUALIFY worth = max(worth) OVER (PARTITION BY rank, span)
    """


COUNTED_STEPS = counted_steps()
"""The same of all steps in scope."""


_LEFT_OUT = f"""
    WITH counted AS ({COUNTED_STEPS})
    SELECT list(DISTINCT step ORDER BY step) FILTER (complete) AS slow,
        max(end_ns - start_ns) FILTER (complete) AS slow_ns,
        (SELECT median(end_ns - start_ns) FROM step SEMI JOIN counted USING (rank, span, step)) AS usual_ns,
        list(DISTINCT step ORDER BY step) FILTER (NOT complete) AS cut
    FROM step ANTI JOIN counted USING (rank, span, step)
"""


def left_out_of_means(scope: Scope) -> str:
    """Which steps in scope are in no mean, and why, in a sentence; empty where all are."""
    (row,) = scope.sql(_LEFT_OUT).to_pylist()
    parts = []
    if row["slow"]:
        several = len(row["slow"]) > 1
        parts.append(
            f"{_steps(row['slow'])}, {'slow first ones' if several else 'a slow first one'} "
            f"({'up to ' if several else ''}{time_text(row['slow_ns'])}; the others' median is "
            f"{time_text(row['usual_ns'])})"
        )
    if row["cut"]:
        edge = "recording" if scope.part.window is None else "window"
        parts.append(f"{_steps(row['cut'])}, cut off by the {edge}")
    return f"Means leave out {' and '.join(parts)}." if parts else ""


def _steps(numbers: list[int]) -> str:
    return f"{plural(len(numbers), 'step')} {numbers_text(numbers)}"
