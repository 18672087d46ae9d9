"""`broadcast-buffers`: DistributedDataParallel sends a module's buffers to all ranks in every step."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.base.units import count_text, plural
from stepscope.findings.declare import Finding, Threshold, of_time, rule, worth
from stepscope.findings.facts import Facts

_SHARE = worth("the host's time in broadcasting buffers", 0.01)
_OFTEN = Threshold("such broadcasts a step", 0.5, "count", "ours: what happens once is no habit")

_BROADCASTS = """
    WITH forward AS (
        SELECT rank, span, id, thread, start_ns, start_ns + dur_ns AS end_ns FROM host_event
        WHERE name = 'DistributedDataParallel.forward' AND NOT coalesce(recursive, false) AND {counted}
    ),
    called AS (
        SELECT forward.rank, forward.id AS forward_id, event.name, event.start_ns,
            event.start_ns + event.dur_ns AS end_ns, coalesce(event.device_ns, 0) AS device_ns,
            event.name IN ('aten::flatten_dense_tensors', 'aten::unflatten_dense_tensors', 'aten::copy_',
                'record_param_comms', 'nccl:broadcast', 'c10d::broadcast_') AS sends
        FROM (
            SELECT * FROM host_event WHERE kind = 'operator' OR role = 'communication'
        ) AS event ASOF JOIN forward ON event.rank = forward.rank AND event.span = forward.span
            AND event.thread = forward.thread AND event.start_ns >= forward.start_ns
        WHERE event.start_ns <= forward.end_ns
    ),
    reached AS (
        SELECT *, max(end_ns) FILTER (sends) OVER (
            PARTITION BY rank, forward_id ORDER BY start_ns, end_ns DESC
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS sent_ns,
        min(start_ns) FILTER (name = 'c10d::broadcast_') OVER (PARTITION BY rank, forward_id) AS first_ns
        FROM called
    ),
    outer_calls AS (
        SELECT *, min(start_ns) FILTER (NOT sends AND start_ns > first_ns) OVER (
            PARTITION BY rank, forward_id
        ) AS other_ns
        FROM reached WHERE first_ns IS NOT NULL AND (sent_ns IS NULL OR start_ns >= sent_ns)
    ),
    sent AS (
        SELECT rank, forward_id, max(end_ns) - min(start_ns) AS host_ns, sum(device_ns) AS device_ns,
            count(*) FILTER (name = 'aten::copy_') AS buffers,
            sum(end_ns - start_ns) FILTER (name = 'aten::unflatten_dense_tensors') AS unflatten_ns,
            sum(end_ns - start_ns) FILTER (name = 'aten::flatten_dense_tensors') AS flatten_ns
        FROM outer_calls WHERE sends AND (other_ns IS NULL OR start_ns < other_ns)
        GROUP BY rank, forward_id
    )
"""


@rule(
    "broadcast-buffers",
    "Buffers that DistributedDataParallel broadcasts from rank 0 at the start of each forward.",
    _SHARE,
    _OFTEN,
    trade_off="Ranks then keep running statistics of their own: rank 0's checkpoint is the same, evaluation on "
    "the others is not, and buffers that forward reads while it trains drift apart.",
    rests_on=("host-times",),
)
def broadcast_buffers(facts: Facts) -> Iterator[Finding]:
    """With `broadcast_buffers=True`, its default, DistributedDataParallel packs all buffers of the module
    (`aten::flatten_dense_tensors`), broadcasts them, unpacks them again and copies each into its place, before the
    module's forward starts. The host's time from the first of these calls to the last counts.

    At most this time and that of their device work can be saved, of the host's no more than the time in which no kernel
    computes; nothing is certain, because the host may be ahead of the device.
    """
    if not facts.has_called("DistributedDataParallel.forward"):
        return
    rows = facts.host(
        f"{_BROADCASTS} SELECT count(*) / {facts.steps} AS forwards_per_step, avg(buffers) AS buffers, "
        f"sum(host_ns) / {facts.steps} AS host_ns, coalesce(sum(unflatten_ns), 0) / {facts.steps} AS unflatten_ns, "
        f"coalesce(sum(flatten_ns), 0) / {facts.steps} AS flatten_ns, "
        f"sum(device_ns) / {facts.steps} AS device_ns FROM sent"
    )
    row = rows[0]
    if row["forwards_per_step"] < _OFTEN.value or facts.part_of_step(row["host_ns"]) <= _SHARE.value:
        return
    count = round(row["buffers"])
    buffers = f"{count_text(count)} {plural(count, 'buffer')}"
    yield of_time(
        title=f"DistributedDataParallel broadcasts {buffers} at the start of each "
        f"forward: {facts.amount(row['host_ns'])} on the host",
        metric="the host's time in broadcasting buffers, per step",
        time_ns=row["host_ns"],
        saving_ns=row["device_ns"] + facts.hidden(row["host_ns"]),
        confidence="high",
        evidence=(row,),
        advice="DistributedDataParallel(..., broadcast_buffers=False) where buffers are only BatchNorm's running "
        "statistics; SyncBatchNorm computes them alike on all ranks.",
        query=facts.to_repeat(f"{_BROADCASTS} SELECT sum(host_ns) / {facts.steps} FROM sent"),
    )
