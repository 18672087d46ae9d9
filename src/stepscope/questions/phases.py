"""`phases`: what the host does in a step, over a whole run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.questions.declare import Column, question

if TYPE_CHECKING:
    import pyarrow as pa

    from stepscope.questions.scope import Scope

_ORDER = ("step", "input_wait", "host_to_device", "forward", "backward", "optimizer", "residual")


@question(
    "phases",
    "Which phase of the step takes the time, over the whole run?",
    (
        Column("rank", "int", "rank it was measured on"),
        Column("phase", "text", "phase, or step for the whole of it"),
        Column("steps", "int", "steps that were counted", "count"),
        Column("mean_ns", "float", "mean time on the host per step", "ns"),
        Column("share_ratio", "float", "its part of the mean step", "ratio"),
        Column("median_ns", "float", "median over the kept steps", "ns"),
        Column("p95_ns", "float", "95th percentile over the kept steps", "ns"),
        Column("largest_ns", "int", "longest of any step", "ns", shown=False),
        Column("device_mean_ns", "float", "mean time on the device per step", "ns", shown=False),
        Column("over_fastest_ratio", "float", "its mean over that of the rank with the least"),
        Column("peak_bytes", "int", "most memory in use", "bytes"),
        Column("peak_of", "text", "whose memory that is", shown=False),
        Column("verdict", "text", "what the recorder saw hold the rank back, and its evidence"),
        Column("next_step", "text", "what to try next", shown=False),
        Column("span", "int", "which of the rank's recordings it is", shown=False),
    ),
    drawing="stacked bars",
    fills="Record with stepscope record --phases -- train.py, or stepscope.inline.start() in the script.",
)
def phases(scope: Scope) -> pa.Table:
    """One row is a phase on a rank, after one row for the whole step with its peak memory and the
    verdict that the recorder came to. Each moment of the host belongs to one phase, the innermost
    that is open, or to the residual, so that their means add up to that of the step.

    Means and the longest are over all counted steps, medians and percentiles over evenly spaced
    steps that the recorder kept. A phase that nobody could hear has no row: it is not 0. With a
    device, the host's time is that of handing work out; `device_mean_ns` is what the device took.

    `over_fastest_ratio` compares ranks. An all-reduce inside backward makes all backwards equally
    long, whichever rank is late: look at forward and input wait for the rank that is.
    """
    order = " ".join(f"WHEN '{name}' THEN {place}" for place, name in enumerate(_ORDER))
    return scope.sql(
        f"""
        SELECT
            rank, phase, steps, mean_ns,
            mean_ns / nullif(max(mean_ns) FILTER (WHERE phase = 'step')
                OVER (PARTITION BY rank, span), 0) AS share_ratio,
            median_ns, p95_ns, largest_ns, device_mean_ns,
            mean_ns / nullif(min(mean_ns) OVER (PARTITION BY phase), 0) AS over_fastest_ratio,
            peak_bytes, peak_of, verdict, next_step, span
        FROM phase
        ORDER BY rank, span, CASE phase {order} ELSE {len(_ORDER)} END, phase
        """
    )
