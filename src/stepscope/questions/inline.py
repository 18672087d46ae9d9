"""`inline`: how long the labelled events of an iteration take, and how sure that is."""

from __future__ import annotations

from stepscope.analysis.job.inline_events import MEASURED
from stepscope.analysis.job.throughput import throughput_words
from stepscope.base.statistics import student_t
from stepscope.query.declare import SPAN, Column, by_form, question
from stepscope.query.rows import ArrowTable, noted
from stepscope.query.scope import Scope
from stepscope.query.script import script_of

_NONE = (
    "Nothing was measured inline; `stepscope phases` has what was timed of every step. Record it: "
    "`stepscope record --inline -- {script}`"
)
_NUMBERS = "SELECT DISTINCT effective_n FROM measured WHERE effective_n > 1"
_RAN_ON = """
    CASE WHEN kind = 'event' AND min(stream) OVER () < max(stream) OVER () OR max(device) OVER () > 0
    THEN CASE WHEN stream = -1 THEN 'host' ELSE
        CASE WHEN max(device) OVER () > 0 THEN 'device ' || device || ', ' ELSE '' END
        || 'stream ' || stream
    END END
"""
_COST = """
    SELECT rank, span, 'iteration' AS kind, (metadata->>'$.overhead.ratio')::DOUBLE AS overhead_ratio,
        (metadata->>'$.overhead.ratio_low')::DOUBLE AS overhead_low_ratio,
        (metadata->>'$.overhead.ratio_high')::DOUBLE AS overhead_high_ratio,
        try_cast(metadata->>'$.armed_every' AS INTEGER) AS armed_every,
        1 + json_array_length(metadata, '$.model_changes') AS models,
        CASE WHEN metadata->>'$.complete' = 'true' THEN try_cast(metadata->>'$.iterations_run' AS INTEGER) END AS complete_after,
        (
            SELECT max(try_cast(beside.metadata->>'$.steps' AS INTEGER)) FROM source AS beside
            WHERE beside.format = 'phases' AND beside.rank = source.rank
        ) AS iterations
    FROM source WHERE format = 'inline'
"""
_PER_RANK = f"""
    , bounded AS (
        SELECT
            measured.*,
            point * std_ns / sqrt(effective_n) AS half_ns,
            CASE WHEN half_ns < mean_ns THEN mean_ns - half_ns WHEN half_ns IS NOT NULL THEN 0e0 END AS ci95_low_ns,
            mean_ns + half_ns AS ci95_high_ns
        FROM measured LEFT JOIN (VALUES {{points}}) AS student(effective_n, point) USING (effective_n)
    )
    SELECT
        name AS label, rank, n, effective_n, mean_ns, median_ns, std_ns, relative_std_ratio, p5_ns, p95_ns,
        ci95_low_ns, ci95_high_ns,
        stable, start_offset_ns, share_ratio, {_RAN_ON} AS ran_on, start_index, end_index,
        inside, (
            SELECT arg_max(around.label, around.start_index) FROM bounded AS around
            WHERE around.rank = bounded.rank AND around.span = bounded.span
                AND around.device IS NOT DISTINCT FROM bounded.device
                AND around.stream IS NOT DISTINCT FROM bounded.stream
                AND around.start_index < bounded.start_index
                AND around.end_index > bounded.end_index
                AND around.ci95_high_ns < bounded.ci95_low_ns
        ) AS exceeds, occurrence, device, stream, clock, kind, span,
        models, complete_after, iterations, overhead_ratio, overhead_low_ratio, overhead_high_ratio, armed_every
    FROM bounded LEFT JOIN ({_COST}) AS cost USING (rank, span, kind)
    ORDER BY kind = 'event', rank, span, start_index, bounded.label, occurrence, device, stream
"""

# HugeCTR's notebook also counts a label once per device and stream on which it was measured.
_OVER_RANKS = """
    SELECT
        name AS label, occurrence, count(DISTINCT rank) AS ranks,
        avg(mean_ns) AS average_ns, max(mean_ns) AS max_ns,
        arg_max(rank, mean_ns) AS slowest_rank,
        avg(share_ratio) AS share_ratio, avg(start_offset_ns) AS start_offset_ns,
        bool_and(stable) AS stable, min(start_index) AS start_index, min(inside) AS inside, kind
    FROM measured
    GROUP BY kind, measured.label, occurrence, name
    ORDER BY kind = 'event', start_index, measured.label, occurrence
"""


@question(
    "inline",
    "How long do the measured events of an iteration take, and how sure is that?",
    (
        Column("label", "text", "event, with `#` and the occurrence if there are several; or `iteration`"),
        Column("rank", "int", "rank it was measured on"),
        Column("ranks", "int", "ranks it was measured on", "count"),
        Column("n", "int", "measurements; NULL where the file has only an average", "count"),
        Column("effective_n", "float", "effective sample size, in equally weighted measurements", visible=False),
        Column("average_ns", "float", "average over ranks of their means"),
        Column("max_ns", "float", "largest of the ranks' means"),
        Column("slowest_rank", "int", "rank with that mean"),
        Column("mean_ns", "float", "mean duration"),
        Column("median_ns", "float", "median duration"),
        Column("std_ns", "float", "standard deviation of the durations", visible=False),
        Column("relative_std_ratio", "float", "standard deviation over mean"),
        Column("p5_ns", "float", "5th percentile", visible=False),
        Column("p95_ns", "float", "95th percentile"),
        Column("ci95_low_ns", "float", "95 % interval of the mean, low end", visible=False),
        Column("ci95_high_ns", "float", "95 % interval of the mean, high end", visible=False),
        Column("stable", "bool", "the relative standard deviation is below 2 %"),
        Column(
            "start_offset_ns", "float", "median start in the iteration; the earliest if that is beyond the median one"
        ),
        Column("share_ratio", "float", "mean divided by the mean of complete iterations"),
        Column("ran_on", "text", "device and stream, where there are several", visible="varying"),
        Column("start_index", "int", "position of its start among all starts and ends", visible=False),
        Column("end_index", "int", "position of its end among them", visible=False),
        Column("inside", "text", "enclosing measured event on its stream", visible=False),
        Column("exceeds", "text", "shorter enclosing event: its iterations did different work", visible="varying"),
        Column("occurrence", "int", "which of the label's events in an iteration", visible=False),
        Column("device", "int", "index of the device", visible=False),
        Column("stream", "int", "stream; -1 for the host of a job with a device", visible=False),
        Column("clock", "text", "host, or the kind of the device", visible=False),
        Column("overhead_ratio", "float", "for iterations: overhead of measuring an event, median", visible=False),
        Column("overhead_low_ratio", "float", "95 % interval of that, low end", visible=False),
        Column("overhead_high_ratio", "float", "95 % interval of that, high end", visible=False),
        Column("armed_every", "int", "for iterations: final interval of the costliest event", "count", visible=False),
        Column("models", "int", "for iterations: models measured one after the other", "count", visible=False),
        Column("complete_after", "int", "for iterations: number until the plan was measured", "count", visible=False),
        Column("iterations", "int", "for iterations: those of the run, from its phases", "count", visible=False),
        Column("kind", "text", "event or iteration", visible=False),
        SPAN,
    ),
    group="steps",
    rests_on=(),
    about="recording",
    parameters=(by_form("each rank by itself, or the average and the maximum over ranks", "rank", "label"),),
    steps="all",
    drawing="measured",
    fills="Record it: `stepscope record --inline -- train.py`",
)
def inline(scope: Scope, by: str = "rank") -> ArrowTable:
    """Each row is an event (label, occurrence, device, stream) of a rank, in the order of execution, after one row for
    the complete iteration. With `--by label`, a row is a label over all ranks: the average of their means, and the
    largest, for which the other ranks wait.

    Complete iterations are those in which nothing was measured, if there are any. Their mean is that of all, timed or
    not: the total of those between two timed ones is known from the clock; if phases were recorded too, it is the mean
    step of the phases. The 95 % interval is Student's, of the mean, and assumes independent measurements; `stable`
    means that their standard deviation is below 2 % of the mean. Otherwise take the median, and more repetitions.
    Shares of nested events overlap: `inside` names the enclosing event. Each event was measured in other iterations
    than its neighbours, so shares of a step do not add up to exactly one. One that was measured in one of k iterations
    counts k times, in means, percentiles and intervals. If a recorder measured more than it stores, medians and
    percentiles are of evenly spaced measurements, everything else is of all. With few measurements neighbours may seem
    out of order.

    HugeCTR's own viewer shows only the averages.
    """
    words = throughput_words(scope)
    if not scope.value("SELECT count(*) FROM inline_timing"):
        phases = scope.value("SELECT count(*) FROM phase_step")
        words = f"{_NONE.format(script=script_of(scope))}\n{words}" if phases else ""
    if by == "label":
        return noted(scope.sql(f"WITH {MEASURED} {_OVER_RANKS}"), words)
    lacks = scope.has_none("inline_timing")
    numbers = [] if lacks else scope.sql(f"WITH {MEASURED} {_NUMBERS}").column("effective_n").to_pylist()
    points = ", ".join(f"({n!r}e0, {student_t(n - 1)})" for n in numbers) or "(NULL, NULL)"
    return noted(scope.sql(f"WITH {MEASURED} {_PER_RANK.format(points=points)}"), words)
