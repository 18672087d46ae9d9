"""SQL for statistics of sampled measurements, which stand for several each; the sampling rate may change in a run."""

from __future__ import annotations

_DURATION = "dur_ns"


def ranked(rows: str, group: str, column: str = _DURATION) -> str:
    """Rows with the number of measurements up to each, by a column without NULL, and the total number.

    Args:
        rows: the table; its rows have `stands_for`.
        group: columns that define the groups.
        column: the described column.
    """
    return f"""
        SELECT *, (sum(stands_for) OVER (same ORDER BY {column} ROWS UNBOUNDED PRECEDING))::DOUBLE AS {column}_ends,
            (sum(stands_for) OVER same)::DOUBLE AS {column}_weight
        {rows} WINDOW same AS (PARTITION BY {group})
    """


def quantile(share: float, column: str = _DURATION, of: str = "true") -> str:
    """A quantile of a group of `ranked` rows, each weighted by `stands_for`, defined as in `base.statistics.describe`.

    Args:
        share: which quantile.
        column: the described column.
        of: condition on the rows to use, which were ranked together.
    """
    place = f"{share}e0 * (max({column}_weight) FILTER ({of}) - 1)"
    low, high = (
        f"min({column}) FILTER ({of} AND {column}_ends > {edge}({share}e0 * ({column}_weight - 1)))"
        for edge in ("floor", "ceil")
    )
    return f"({low} + ({high} - {low}) * ({place} - floor({place})))::DOUBLE"
