"""`durations`: the distribution of the durations of a name's single events."""

from __future__ import annotations

from stepscope.analysis.counted import COUNTED_STEPS
from stepscope.query.declare import Column, Parameter, by_form, question
from stepscope.query.rows import ArrowTable
from stepscope.query.scope import Scope
from stepscope.schema.device_work import WORK

_BINS = 20
"""The most bins; with few events the rule of Rice makes fewer."""
_EVENTS = {
    "operator": ("host_event", "kind = 'operator'"),
    "annotation": ("host_event", "kind = 'annotation' AND role IS DISTINCT FROM 'step'"),
    "runtime": ("host_event", "kind = 'runtime'"),
    "device": ("device_event", WORK),
}
"""The table of events, and the condition on them, by form."""
_CUT = "SELECT * FROM {unfiltered} AS event SEMI JOIN {table} USING (rank, id)"
"""The recorded durations of events that a window keeps: a cut must not make an event short."""
_STEPS = f"""
    SELECT rank, 'step' AS name, start_ns, end_ns - start_ns AS dur_ns
    FROM step SEMI JOIN ({COUNTED_STEPS}) USING (rank, span, step)
"""
_HISTOGRAM = f"""
    WITH event AS ({{events}}),
    timed AS (
        SELECT name, dur_ns, count(*) AS events, min((start_ns, rank)) AS first
        FROM event WHERE name = $event OR $event IS NULL GROUP BY name, dur_ns
    ),
    named AS (
        SELECT name, min(dur_ns) AS shortest, max(dur_ns) + 1 AS end_ns, greatest(min(dur_ns), 1) AS unit,
            least({_BINS}, ceil(2 * cbrt(sum(events))))::BIGINT AS bins, sum(events) AS everyone, sum(dur_ns * events) AS all_ns
        FROM timed GROUP BY name
    ),
    edged AS (
        SELECT name, everyone, all_ns, list_sort(list_distinct(list_concat([shortest, end_ns], list_transform(
            range(1, bins),
            lambda edge: greatest(shortest, least(end_ns, floor(unit * pow(end_ns / unit, edge / bins))::BIGINT))
        )))) AS edges
        FROM named
    ),
    bin AS (SELECT name, everyone, all_ns, unnest(edges[:-2]) AS from_ns, unnest(edges[2:]) AS to_ns FROM edged)
    SELECT timed.name, from_ns, to_ns, sum(events)::BIGINT AS count, sum(events) / everyone AS count_share_ratio,
        sum(dur_ns * events)::BIGINT AS total_ns, sum(dur_ns * events) / nullif(all_ns, 0) AS share_ratio,
        arg_max(first[2], dur_ns) AS rank, arg_max(first[1], dur_ns) AS start_ns, max(dur_ns) AS dur_ns
    FROM timed ASOF JOIN bin ON timed.name = bin.name AND timed.dur_ns >= bin.from_ns
    GROUP BY timed.name, from_ns, to_ns, everyone, all_ns ORDER BY all_ns DESC, timed.name, from_ns
"""


@question(
    "durations",
    "How are the durations of an operator, kernel, call or step distributed?",
    (
        Column("name", "text", "name of the operator, range, call, kernel, copy or fill", kernels=True),
        Column("from_ns", "int", "durations from here on", sums=True),
        Column("to_ns", "int", "and below", sums=True),
        Column("count", "int", "events of this duration", "count", sums=True),
        Column("count_share_ratio", "float", "fraction of all events of the name"),
        Column("total_ns", "int", "summed duration"),
        Column("share_ratio", "float", "fraction of the summed duration of the name"),
        Column("rank", "int", "rank of the longest of them, the first to start", visible=False),
        Column("start_ns", "int", "when it starts, since the run's start", visible=False, moment=True),
        Column("dur_ns", "int", "its duration", visible=False),
    ),
    group="operators and kernels",
    rests_on=("host-times", "devices", "device-work", "device-times", "steps"),
    about={"operator": "events", "annotation": "events", "runtime": "events", "device": "events", "step": "recording"},
    across_ranks=True,
    parameters=(
        by_form("of which events; `runtime`: calls to it and the driver; `device`: its work", *_EVENTS, "step"),
        Parameter("event", "text", "only events of exactly this name", picks=("name",)),
    ),
    fills="Record with torch.profiler.ProfilerActivity.CPU and CUDA (or XPU, ...).",
)
def durations(scope: Scope, by: str = "operator", event: str | None = None) -> ArrowTable:
    """A histogram for each name, of all requested ranks together, the names with the largest summed duration first.
    `kernels` and `operators` have their means; this shows whether a mean represents every call, or two kinds of calls
    and a slow first one.

    The range from the shortest to the longest duration of a name has 2∛n bins for n events (the rule of Rice), 20 at
    most, each wider than the one before by the same factor, so that a call that took a thousand times as long still
    leaves the others separate. Edges are integer nanoseconds: from `from_ns` on, and below `to_ns`. Empty bins are left
    out. With `--json`, or by `--columns`, each bin names its longest event, by rank, start and duration.

    An operator's duration is that on the host, including all that ran inside it; one inside another of its name is a
    separate call. Replays of a CUDA graph are no calls, and count only among kernels. Steps are those that count in
    means. With `--window` an event that extends beyond it counts in full: a cut does not make it short.
    """
    events = _STEPS
    if by != "step":
        table, kind = _EVENTS[by]
        source = (
            table if scope.part.window is None else f"({_CUT.format(unfiltered=scope.unfiltered(table), table=table)})"
        )
        events = f"SELECT rank, name, start_ns, dur_ns FROM {source} WHERE {kind}"
    return scope.sql(_HISTOGRAM.format(events=events), {"event": event})
