"""Decides which steps enter means, intervals and comparisons, and describes those left out."""

from __future__ import annotations

from typing import Any

from stepscope.base.chosen_numbers import numbers_text
from stepscope.base.units import plural, time_text
from stepscope.query.rank_exclusion import ranks_text
from stepscope.query.scope import Scope


def counted_steps(condition: str = "true") -> str:
    """SQL: rank, span and step of each step that enters means, of the rows of `step` that satisfy a condition.

    These are complete and no warm-up on any rank, because ranks are compared over the same steps. If no such step is
    left in a recording, warm-up steps count; if none is complete, all do.
    """
    return f"""
        SELECT rank, span, step FROM (
            SELECT rank, span, step, CASE
                    WHEN NOT complete THEN 0
                    WHEN bool_or(is_warmup) OVER (PARTITION BY span, step) THEN 1
                    ELSE 2
                END AS worth
            FROM step WHERE {condition}
        ) QUALIFY worth = max(worth) OVER (PARTITION BY rank, span)
    """


COUNTED_STEPS = counted_steps()
"""The same for all steps in scope."""


_LEFT_OUT = f"""
    WITH counted AS ({COUNTED_STEPS}),
    left_out AS (
        SELECT complete, step, max(end_ns - start_ns) AS max_ns,
            CASE WHEN step IN (SELECT step FROM counted) THEN list(DISTINCT rank ORDER BY rank) ELSE [] END AS ranks
        FROM step ANTI JOIN counted USING (rank, span, step) GROUP BY complete, step
    )
    SELECT complete, ranks, list(step ORDER BY step) AS steps, max(max_ns) AS max_ns,
        (SELECT median(end_ns - start_ns) FROM step SEMI JOIN counted USING (rank, span, step)) AS usual_ns
    FROM left_out GROUP BY complete, ranks ORDER BY complete DESC, steps, ranks
"""
"""Steps that count on no rank, without a rank; steps that count on some, with the ranks on which they do not."""


_NONE_COMPLETE = """
    SELECT rank FROM (SELECT rank, span FROM step GROUP BY rank, span HAVING NOT bool_or(complete)) GROUP BY rank ORDER BY rank
"""


def left_out_of_means(scope: Scope) -> str:
    """Says which steps in scope are left out of means, why, and on which ranks if not on all; empty if none are."""
    rows = scope.sql(_LEFT_OUT).to_pylist()
    slow, cut = ([row for row in rows if row["complete"] is complete] for complete in (True, False))
    parts = []
    if slow:
        several = sum(len(row["steps"]) for row in slow) > 1
        longest = time_text(max(row["max_ns"] for row in slow))
        parts.append(
            f"{_steps(slow)}, {'slow first ones' if several else 'a slow first one'} "
            f"({'up to ' if several else ''}{longest}; the others' median is {time_text(slow[0]['usual_ns'])})"
        )
    if cut:
        parts.append(f"{_steps(cut)}, {how_in_part(scope)}")
    words = [f"Means leave out {' and '.join(parts)}."] if parts else []
    return " ".join(filter(None, [*words, none_complete(scope)]))


def none_complete(scope: Scope) -> str:
    """Says in a sentence that all means are of incomplete steps; empty if each recording has a complete step."""
    partial = [row["rank"] for row in scope.sql(_NONE_COMPLETE).to_pylist()]
    whose = "" if len(partial) == len(scope.ranks) else f" of {ranks_text(partial)}"
    return f"No step{whose} is complete: means are of steps {how_in_part(scope)}." if partial else ""


def how_in_part(scope: Scope) -> str:
    """Describes an incomplete step."""
    return "recorded in part" if scope.part.window is None else "cut off by the window"


def _steps(rows: list[dict[str, Any]]) -> str:
    return " and ".join(
        f"{plural(len(row['steps']), 'step')} {numbers_text(row['steps'])}"
        + (f" of {ranks_text(row['ranks'])}" if row["ranks"] else "")
        for row in rows
    )
