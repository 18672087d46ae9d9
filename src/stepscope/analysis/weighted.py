"""SQL for statistics of weighted samples; the sampling rate may change in a run."""

from __future__ import annotations

_DURATION = "dur_ns"


def ranked(rows: str, group: str, column: str = _DURATION) -> str:
    """Rows of a table with weights, plus the cumulative and total weight by a column without NULL, per `group`."""
    return f"""
        SELECT *, (sum(weight) OVER (same ORDER BY {column} ROWS UNBOUNDED PRECEDING))::DOUBLE AS {column}_ends,
            (sum(weight) OVER same)::DOUBLE AS {column}_weight
        {rows} WINDOW same AS (PARTITION BY {group})
    """


def quantile(share: float, column: str = _DURATION, of: str = "true") -> str:
    """A weighted quantile of a group of `ranked` rows that satisfy `of`, as in `base.statistics.describe`."""
    place = f"{share}e0 * (max({column}_weight) FILTER ({of}) - 1)"
    low, high = (
        f"min({column}) FILTER ({of} AND {column}_ends > {edge}({share}e0 * ({column}_weight - 1)))"
        for edge in ("floor", "ceil")
    )
    return f"({low} + ({high} - {low}) * ({place} - floor({place})))::DOUBLE"
