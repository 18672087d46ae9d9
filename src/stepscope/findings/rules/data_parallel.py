"""Rules about how gradients and buffers are exchanged between ranks."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from stepscope.base.grouping import merge_rows
from stepscope.base.units import bytes_text, count_text, plural
from stepscope.costs import work
from stepscope.findings.declare import Finding, Threshold, of_time, rule, worth
from stepscope.findings.facts import Facts, Row, first

_DEVICES = Threshold("devices of a process", 1, "count", "TensorBoard profiler plugin: DataParallel on more than one")

_FORWARDS = """
    SELECT rank, count(*) AS calls FROM host_event WHERE name = 'DataParallel.forward'
    GROUP BY rank ORDER BY calls DESC, rank
"""


@rule("data-parallel", "nn.DataParallel over several devices.", _DEVICES)
def data_parallel(facts: Facts) -> Iterator[Finding]:
    """`DataParallel.forward` in a process that has work on more than one device. One recording does not show its cost:
    it copies the model in every step and runs Python for all devices in one process.
    """
    rows = facts.host(_FORWARDS)
    for row in rows[:1]:
        devices = sum(device["rank"] == row["rank"] for device in facts.devices)
        if devices <= _DEVICES.value:
            return
        yield Finding(
            title=f"DataParallel drives {devices} devices from one process",
            metric="calls of DataParallel.forward",
            value=row["calls"],
            unit="count",
            confidence="high",
            evidence=({**row, "devices": devices},),
            rank=row["rank"],
            advice="Use DistributedDataParallel with a process a device (torchrun)."
            if facts.trains
            else "Run a process for each device, each with the model and a part of the batches.",
            query=f"SELECT count(*) FROM host_event WHERE name = 'DataParallel.forward' AND rank = {row['rank']}",
        )


_BROADCAST_TIME = worth("the host's time in broadcasting buffers", 0.01)
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
    _BROADCAST_TIME,
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
    computes; the host may be ahead of the device.
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
    if row["forwards_per_step"] < _OFTEN.value or facts.part_of_step(row["host_ns"]) <= _BROADCAST_TIME.value:
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
        "statistics; SyncBatchNorm computes the same on all ranks.",
        query=facts.to_repeat(f"{_BROADCASTS} SELECT sum(host_ns) / {facts.steps} FROM sent"),
    )


_SIZE = Threshold(
    "size of an all-reduce", 2**20, "bytes", "DistributedDataParallel: the size of its first, smallest bucket"
)
_COUNT = Threshold("all-reduces below that size, a step", 50, "count", "ours: buckets of the largest models are fewer")
_SIZES = Threshold(
    "different sizes of them in a step", 3, "count", "ours: activations of tensor-parallel layers have one or two"
)
_SMALL_TIME = worth("their time on the device and in the host's calls", 0.01)
_BUCKET = 25 * 2**20
"""DistributedDataParallel's bucket_cap_mb (bytes)."""

_KERNELS = """
    FROM collective AS asked
    JOIN (SELECT rank, id, step, dur_ns, direction FROM device_event WHERE {counted}) AS work
        USING (rank, id)
    LEFT JOIN (SELECT rank, id, dur_ns FROM host_event WHERE {counted}) AS call
        ON call.rank = asked.rank AND call.id = asked.host_id
    WHERE operation = 'all_reduce' AND bytes IS NOT NULL AND direction IS DISTINCT FROM 'forward'
"""
_CALLS = """
    FROM (SELECT * FROM host_event WHERE name LIKE 'c10d::allreduce%' AND {counted}) AS call
    JOIN operator_input USING (rank, span, input_id)
    WHERE direction IS DISTINCT FROM 'forward'
"""


@rule(
    "small-all-reduces",
    "Many small all-reduces a step, as one for each parameter.",
    _SIZE,
    _COUNT,
    _SIZES,
    _SMALL_TIME,
    trade_off="A bucket leaves when its last gradient is there, and it is memory of its own unless "
    "gradient_as_bucket_view=True.",
    rests_on=("device-times",),
)
def small_all_reduces(facts: Facts) -> Iterator[Finding]:
    """An all-reduce of a few kilobytes costs its launch on every rank and the network's latency, whatever its size. The
    rule counts all-reduces of less than a mebibyte outside of forward, in training, if the recording has their sizes:
    those of kernels (torch 2.1 and later), or else the shapes of the host's calls (record_shapes=True), assuming
    float32. Their contents are not recorded: gradients of parameters, or other tensors.

    At most the time of their kernels and of the host's calls for them can be saved, of these no more than the time in
    which no kernel computes; kernels may overlap others, and their contents still have to be exchanged.
    """
    rows = [row for row in _all_reduces(facts) if row["bytes"] < _SIZE.value]
    calls = sum(row["calls"] for row in rows) / facts.steps
    if calls < _COUNT.value or _max_sizes(rows) < _SIZES.value or not facts.trains:
        return
    device_ns, host_ns = (sum(row[name] for row in rows) / facts.steps for name in ("time_ns", "host_ns"))
    time_ns = device_ns + host_ns
    if facts.part_of_step(time_ns) <= _SMALL_TIME.value:
        return
    size = sum(row["bytes"] * row["calls"] for row in rows) / facts.steps
    buckets = ceil(size / _BUCKET)
    where = "their kernels and the host's calls" if facts.has_device else "the host's calls"
    yield Finding(
        title=f"{count_text(round(calls))} all-reduces a {facts.per} carry less than 1 MiB each and "
        f"{bytes_text(round(size))} together, which is {buckets} {plural(buckets, 'bucket')} of "
        f"25 MiB: {facts.amount(time_ns)} in {where}",
        metric="all-reduces of less than 1 MiB, per step",
        value=calls,
        unit="count",
        saving_ns=device_ns + facts.hidden(host_ns),
        evidence=first(_by_size(facts, rows)),
        advice="Where they are gradients, let DistributedDataParallel exchange them in buckets (bucket_cap_mb), "
        "or join them into one flat tensor for each element type before all_reduce; metrics likewise.",
    )


def _all_reduces(facts: Facts) -> list[Row]:
    """All-reduces outside of forward by recording, step and size: those of kernels, or the host's calls."""
    rows = facts.host(
        f"SELECT asked.rank, asked.span, step, bytes, count(*) AS calls, sum(work.dur_ns)::BIGINT AS time_ns, "
        f"coalesce(sum(call.dur_ns), 0)::BIGINT AS host_ns {_KERNELS} GROUP BY ALL"
    )
    if rows or facts.has_device:
        return rows
    rows = facts.host(
        f"SELECT rank, span, step, name, dims, count(*) AS calls, 0 AS time_ns, sum(dur_ns)::BIGINT AS host_ns "
        f"{_CALLS} GROUP BY ALL"
    )
    done = ((row, work(row.pop("name"), row.pop("dims"), list_dtype="float32")) for row in rows)
    return [{**row, "bytes": of.bytes_read} for row, of in done if of is not None and of.bytes_read]


def _max_sizes(rows: list[Row]) -> int:
    sizes: dict[tuple[int, ...], set[int]] = {}
    for row in rows:
        sizes.setdefault((row["rank"], row["span"], row["step"]), set()).add(row["bytes"])
    return max(map(len, sizes.values()))


def _by_size(facts: Facts, rows: list[Row]) -> list[Row]:
    of_size = (
        {
            "bytes": row["bytes"],
            "calls_per_step": row["calls"] / facts.steps,
            "time_ns": row["time_ns"] / facts.steps,
            "host_ns": row["host_ns"] / facts.steps,
        }
        for row in rows
    )
    by_size = merge_rows(of_size, "bytes", adding=("calls_per_step", "time_ns", "host_ns"))
    return sorted(by_size, key=lambda row: (-row["calls_per_step"], row["bytes"]))
