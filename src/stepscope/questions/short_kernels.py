"""`short-kernels`: kernels that run for only a few microseconds, and how long they take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.analysis.attribution import LABELLED_WORK
from stepscope.analysis.kernels.traits import KERNELS
from stepscope.base.units import count_text, time_text
from stepscope.formats.evidence import LAUNCHED_WORK
from stepscope.query.declare import Column, Parameter, by_form, question
from stepscope.query.rows import noted

if TYPE_CHECKING:
    import pyarrow as pa

    from stepscope.query.scope import Scope

BELOW_NS = 10_000
BINS = 10
MOST_BINS = 10_000

_BY_NAME = """
    SELECT name, operator, {figures}, avg(dur_ns) AS mean_ns, min(dur_ns) AS min_ns,
        max(dur_ns) AS max_ns
    FROM kernel, everything WHERE dur_ns < $below_ns
    GROUP BY name, operator, all_count, all_ns
    ORDER BY count DESC, total_ns DESC, name, operator
"""
_HISTOGRAM = """
    SELECT edge.low AS from_ns, edge.high AS to_ns, {figures}
    FROM (
        SELECT ($below_ns::BIGINT * bin // $bins) AS low,
            ($below_ns::BIGINT * (bin + 1) // $bins) AS high
        FROM range($bins) AS bins(bin)
    ) AS edge CROSS JOIN everything
    LEFT JOIN kernel ON dur_ns >= low AND dur_ns < high
    WHERE low < high
    GROUP BY low, high, all_count, all_ns ORDER BY low
"""
_FIGURES = """
    count(dur_ns) AS count, count(dur_ns) / nullif(all_count, 0) AS count_ratio,
    coalesce(sum(dur_ns), 0)::BIGINT AS total_ns,
    coalesce(sum(dur_ns), 0) / nullif(all_ns, 0) AS share_ratio
"""
_FORMS = {"kernel": _BY_NAME, "histogram": _HISTOGRAM}


@question(
    "short-kernels",
    "Which kernels run for a few microseconds only, how many are there, and how long do they take?",
    (
        Column("name", "text", "name of the kernel", kernels=True),
        Column("operator", "text", "innermost operator that launched it"),
        Column("from_ns", "int", "shortest duration of the bin"),
        Column("to_ns", "int", "the bin's durations are shorter than this"),
        Column("count", "int", "short kernels", "count"),
        Column("count_ratio", "float", "their part of the number of all kernels"),
        Column("total_ns", "int", "their summed duration"),
        Column("share_ratio", "float", "its part of the summed duration of all kernels"),
        Column("mean_ns", "float", "mean duration"),
        Column("min_ns", "int", "shortest duration", shown=False),
        Column("max_ns", "int", "longest duration", shown=False),
    ),
    rests_on=LAUNCHED_WORK,
    about="events",
    parameters=(
        by_form("a row a `kernel` and operator, or a `histogram` of the durations of all short kernels", *_FORMS),
        Parameter(
            "below_ns", "int", "kernels that run for less than this are short (ns)", BELOW_NS, within=(1, 10**12)
        ),
        Parameter("bins", "int", "bins of the histogram, equally wide", BINS, within=(1, MOST_BINS)),
    ),
    needs="device",
    fills="Record with torch.profiler.ProfilerActivity.CPU and CUDA (or XPU, ...).",
)
def short_kernels(scope: Scope, by: str = "kernel", below_ns: int = BELOW_NS, bins: int = BINS) -> pa.Table:
    """Kernels shorter than `below_ns`, of all requested ranks together, the most frequent first: candidates for a fused
    kernel, `torch.compile` or a CUDA graph. Copies and fills are not kernels.

    The 10 µs are those of TraceLens' short-kernel study: about the host time of a launch.
    Both shares are relative to all kernels, including long ones. `--by histogram` counts the durations of the short
    kernels in bins of equal width, including empty ones. With `--window` a kernel that extends beyond it
    counts in full: a cut does not make it short.
    """
    duration, recorded = "dur_ns", ""
    if scope.part.window is not None:
        every = f"SELECT rank, id, dur_ns AS recorded_ns FROM {scope.every('device_event')}"
        duration, recorded = "recorded_ns", f"JOIN ({every}) USING (rank, id)"
    params = {"below_ns": below_ns} | ({"bins": max(1, bins)} if by == "histogram" else {})
    short = scope.sql(
        f"""
        WITH kernel AS (
            SELECT name, charged_to AS operator, {duration} AS dur_ns
            FROM ({LABELLED_WORK}) {recorded} WHERE {KERNELS}
        ),
        everything AS (SELECT count(*) AS all_count, sum(dur_ns) AS all_ns FROM kernel)
        {_FORMS[by].format(figures=_FIGURES)}
        """,
        params,
    )
    count = 0 if short.num_rows else scope.value(f"SELECT count(*) FROM device_event WHERE {KERNELS}")
    if not count:
        return short
    return noted(short, f"None of {count_text(count)} kernels runs for less than {time_text(below_ns)}.")
