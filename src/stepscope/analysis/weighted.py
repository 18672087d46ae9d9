"""Statistics as SQL of measurements that stand for several each: one in k was measured, and k changes in a run."""

from __future__ import annotations

_DURATION = "dur_ns"


def ranked(rows: str, group: str, column: str = _DURATION) -> str:
    """Rows with how many measurements there are up to each, by a column that has no NULL, and how many in all.

    Args:
        rows: from where; each has `stands_for`.
        group: columns of what is described together.
        column: what is described.
    """
    return f"""
        SELECT *, (sum(stands_for) OVER (same ORDER BY {column} ROWS UNBOUNDED PRECEDING))::DOUBLE AS {column}_ends,
            (sum(stands_for) OVER same)::DOUBLE AS {column}_weight
        {rows} WINDOW same AS (PARTITION BY {group})
    """


def quantile(share: float, column: str = _DURATION, of: str = "true") -> str:
    """A quantile of a group of `ranked` rows, each as often as it stands for, as `floor.statistics.describe` has it.

    Args:
        share: which quantile.
        column: of what.
        of: those that count, which were ranked together.
    """
    place = f"{share}e0 * (max({column}_weight) FILTER ({of}) - 1)"
    low, high = (
        f"min({column}) FILTER ({of} AND {column}_ends > {edge}({share}e0 * ({column}_weight - 1)))"
        for edge in ("floor", "ceil")
    )
    return f"({low} + ({high} - {low}) * ({place} - floor({place})))::DOUBLE"
