"""Columns and SQL for the durations of a row's events, shared by every table that has them."""

from __future__ import annotations

from stepscope.query.declare import Column

STATISTICS = """
    count(*) AS count,
    sum(dur_ns)::BIGINT AS total_ns,
    sum(dur_ns) / nullif(sum(sum(dur_ns)) OVER (), 0) AS share_ratio,
    avg(dur_ns) AS mean_ns,
    median(dur_ns) AS median_ns,
    min(dur_ns) AS min_ns,
    max(dur_ns) AS max_ns,
    sqrt(
        (sum(dur_ns::HUGEINT * dur_ns) - sum(dur_ns) * sum(dur_ns) // count(*)
            - (sum(dur_ns) * sum(dur_ns) % count(*)) / count(*))
        / nullif(count(*) - 1, 0)
    ) AS std_ns
"""
"""The columns of `statistics`, over grouped rows that have a `dur_ns`. The standard deviation is that of a
sample (divided by n - 1), as in pandas and `nsys stats`, and NULL for one event. Its sums are integers: those of
`stddev_samp` depend on how rows are distributed over threads."""


def statistics(what: str, *, detailed: bool = True) -> tuple[Column, ...]:
    """The columns of `STATISTICS` of the events, named in the plural."""
    return (
        Column("count", "int", f"number of {what}", "count"),
        Column("total_ns", "int", "summed duration", sums=True),
        Column("share_ratio", "float", f"its part of the summed duration of all {what}"),
        Column("mean_ns", "float", "mean duration"),
        Column("median_ns", "float", "median duration", visible=detailed),
        Column("min_ns", "int", "shortest duration"),
        Column("max_ns", "int", "longest duration"),
        Column("std_ns", "float", "sample standard deviation of the duration", visible=detailed),
    )
