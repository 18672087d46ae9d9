"""Whether kernels, operators or steps become slower over the recording."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import TYPE_CHECKING

from stepscope.base.grouping import grouped
from stepscope.base.units import count_text, plural, ratio_text
from stepscope.query.declare import RANK, Column, Parameter, question
from stepscope.query.rows import ArrowTable, Row, answer_dicts, noted
from stepscope.query.scope import Scope
from stepscope.schema.device_work import KERNELS

if TYPE_CHECKING:
    from stepscope.analysis.trend import Trend

_COLUMNS = (
    RANK,
    Column("name", "text", "name of the kernel or operator; `all kernels` for all that compute", kernels=True),
    Column("trend", "text", "slower, faster, or steady", sums=True),
    Column("change_ratio", "float", "increase from start to end", sums=True),
    Column("low_ratio", "float", "lower end of its 95 % interval"),
    Column("high_ratio", "float", "upper end of its 95 % interval"),
    Column("median_ns", "float", "median duration"),
    Column("p95_ns", "float", "95th percentile of the durations", visible=False),
    Column("first_ns", "float", "median duration at the start, by the trend"),
    Column("last_ns", "float", "median duration at the end, by the trend"),
    Column("events", "int", "kernels, calls or steps", "count"),
    Column("outliers", "int", "events more than twice as long as the median of similar ones", "count"),
    Column("total_ns", "int", "summed duration", visible=False),
    Column("steps", "int", "steps behind the trend", "count", visible=False),
)
_EVENTS = {
    "kernel": f"""
        SELECT rank, step, name, start_ns, dur_ns, kind = 'computation' AS computes,
            hash(grid_x, grid_y, grid_z, block_x, block_y, block_z) AS shape
        FROM device_event WHERE {KERNELS}
    """,
    "operator": """
        SELECT rank, step, name, start_ns, dur_ns, false AS computes, hash(input_id) AS shape
        FROM host_event WHERE kind = 'operator' AND NOT recursive
    """,
    "step": """
        SELECT rank, step, 'step' AS name, start_ns, end_ns - start_ns AS dur_ns, false AS computes,
            hash(0) AS shape
        FROM step SEMI JOIN counted_step USING (rank, span, step)
    """,
}
_ENOUGH_RATIO = 0.02
"""A change below this share of the median does not count as drift."""
_ALL = "all kernels"

_VALUES = """
    WITH counted_step AS ({counted}), event AS ({events}),
    usual AS (
        SELECT rank, name, shape, median(dur_ns) AS usual_ns, sum(dur_ns)::BIGINT AS weight
        FROM event GROUP BY rank, name, shape HAVING median(dur_ns) > 0
    )
    SELECT rank, name, step, bool_or(computes) AS computes,
        median(dur_ns) / any_value(usual_ns) AS ratio, any_value(weight) AS weight,
        count(*) FILTER (dur_ns > 2 * usual_ns) AS outliers
    FROM event JOIN usual USING (rank, name, shape) WHERE step IS NOT NULL
    GROUP BY rank, name, shape, step
"""
_NAMES = """
    WITH counted_step AS ({counted}), event AS ({events})
    SELECT rank, name, bool_or(computes) AS computes, count(*) AS events, sum(dur_ns)::BIGINT AS total_ns,
        median(dur_ns)::DOUBLE AS median_ns, quantile_cont(dur_ns, 0.95)::DOUBLE AS p95_ns
    FROM event GROUP BY rank, name
"""


@question(
    "drift",
    "Do kernels, operators or steps take longer and longer over the recording?",
    _COLUMNS,
    group="compare",
    rests_on=("host-times", "devices", "device-work", "device-times", "steps"),
    about="events",
    parameters=(Parameter("of", "text", "events to examine", "kernel", tuple(_EVENTS)),),
    fills="Record more steps.",
)
def drift(scope: Scope, of: str = "kernel") -> ArrowTable:
    """Whether durations change over the recording, as they do if a device lowers its clocks, a cache fills or a list
    grows. Rows with the largest change of time come first. `--name` selects kernels or operators.

    **Trend.** Kernels are compared with kernels of the same name and launch shape, operators with calls on the same
    inputs, so that other work at the end of the recording is no drift. For each step, the median duration of similar
    ones is divided by their median over the recording; a name's value in the step is the mean of these ratios, weighted
    by time. The slope through the values in order is that of Theil and Sen, the median of the slopes between all pairs,
    with Sen's 95 % interval. `change_ratio` is that slope from the first value to the last. It is `slower` or `faster`
    if the interval excludes 0 and the change is at least 2 %. Names recorded in fewer than 10 steps have no row.

    An interval of 95 % excludes 0 once in twenty rows by chance: with many names on many ranks, trust those with a wide
    margin, or that agree.

    `all kernels` combines all names that compute. If it drifts, and so do names with half of the time of all except the
    one with the largest change, the cause may be common to them, such as clocks, power or temperature (`stepscope
    counters` shows them if they were recorded). One kernel alone may have grown with its input. Communication kernels
    also wait, and are not in it.
    """
    from stepscope.analysis.counted import COUNTED_STEPS

    queries = {"counted": COUNTED_STEPS, "events": _EVENTS[of]}
    rows = list(_rows(scope, queries))
    rows.sort(key=_importance)
    listed = (row for row in rows if row["trend"] is not None)
    return noted(answer_dicts(_COLUMNS, listed), _note(rows, of))


def _importance(row: Row) -> tuple[bool, float, int, str]:
    drifts = row["trend"] in ("slower", "faster")
    changed = abs(row["change_ratio"] * row["total_ns"]) if drifts else 0.0
    return not drifts, -changed, -row["total_ns"], row["name"]


def _rows(scope: Scope, queries: Row) -> Iterator[Row]:
    values = scope.sql(_VALUES.format(**queries)).to_pylist()
    of_name = grouped(values, itemgetter("rank", "name"))
    together = grouped((value for value in values if value["computes"]), itemgetter("rank"))
    names = scope.sql(_NAMES.format(**queries)).to_pylist()
    for row in names:
        yield _row(row, of_name.get((row["rank"], row["name"]), []))
    kernels = {(row["rank"], row["name"]): row for row in names}
    for rank, of_rank in together.items():
        parts = [kernels[rank, name] for name in {value["name"] for value in of_rank}]
        if len(parts) > 1:
            sums = {name: sum(part[name] for part in parts) for name in ("events", "total_ns")}
            yield _row({"rank": rank, "name": _ALL, "computes": False, "median_ns": None, **sums}, of_rank)


def _row(row: Row, values: list[Row]) -> Row:
    from stepscope.analysis.trend import find_trend

    at = grouped(values, itemgetter("step"))
    ratios = [
        sum(value["ratio"] * value["weight"] for value in in_step) / sum(value["weight"] for value in in_step)
        for _, in_step in sorted(at.items())
    ]
    return {
        **row,
        **_in_words(find_trend(range(len(ratios)), ratios), row["median_ns"]),
        "steps": len(ratios),
        "outliers": sum(value["outliers"] for value in values),
    }


def _in_words(trend: Trend | None, median_ns: float | None) -> Row:
    if trend is None:
        return dict.fromkeys(("first_ns", "last_ns", "change_ratio", "low_ratio", "high_ratio", "trend"))
    word = "steady"
    if trend.sure and abs(trend.change) >= _ENOUGH_RATIO:
        word = "slower" if trend.change > 0 else "faster"
    return {
        "first_ns": None if median_ns is None else trend.first * median_ns,
        "last_ns": None if median_ns is None else trend.last * median_ns,
        "change_ratio": trend.change,
        "low_ratio": trend.low,
        "high_ratio": trend.high,
        "trend": word,
    }


def _together(rows: list[Row], all_kernels: Row) -> tuple[int, int]:
    """Time (ns) of a rank's kernels that drift as all do, and of those with a trend, each without the most changed one."""
    kernels = [row for row in rows if row["rank"] == all_kernels["rank"] and row["computes"] and row["trend"]]
    kernels.sort(key=lambda row: -abs(row["change_ratio"] * row["total_ns"]))
    same_trend = (row["total_ns"] for row in kernels[1:] if row["trend"] == all_kernels["trend"])
    return sum(same_trend), sum(row["total_ns"] for row in kernels[1:])


def _note(rows: list[Row], of: str) -> str:
    from stepscope.analysis.trend import ENOUGH

    short = {row["name"] for row in rows if row["trend"] is None}
    short -= {row["name"] for row in rows if row["trend"] is not None}
    if rows and all(row["trend"] is None for row in rows):
        return f"Too little was recorded to tell a trend: that takes {ENOUGH} steps."
    lines = []
    for row in rows:
        if row["name"] == _ALL and row["trend"] in ("slower", "faster"):
            low, high = (ratio_text(row[f"{end}_ratio"]) for end in ("low", "high"))
            same_trend_ns, total_ns = _together(rows, row)
            if not same_trend_ns or 2 * same_trend_ns < total_ns:
                continue
            lines.append(
                f"Kernels of rank {row['rank']} that compute become {row['trend']} together, by "
                f"{ratio_text(abs(row['change_ratio']))} over the recording (95 %: {low} to {high}), and not one alone: the cause "
                "may be common to them, such as its device's clocks."
            )
    lines = lines[:3]
    if short:
        lines.append(
            f"{count_text(len(short))} more {plural(len(short), of)} ran in fewer than {ENOUGH} steps, too few to tell a trend."
        )
    return "\n".join(lines)
