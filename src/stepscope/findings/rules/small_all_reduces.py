"""`small-all-reduces`: gradients, or other tensors, that are reduced one by one."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from stepscope.base.units import bytes_text, count_text, plural
from stepscope.costs import work
from stepscope.findings.declare import Finding, Threshold, rule, worth
from stepscope.findings.facts import Facts, Row, first
from stepscope.findings.merged_rows import merge_rows

_SIZE = Threshold(
    "size of an all-reduce",
    2**20,
    "bytes",
    "torch.nn.parallel.DistributedDataParallel: 1 MiB is the size of its first, smallest bucket",
)
_COUNT = Threshold("all-reduces below that size, a step", 50, "count", "ours: buckets of the largest models are fewer")
_SIZES = Threshold(
    "different sizes of them in a step",
    3,
    "count",
    "ours: a tensor-parallel layer exchanges activations of one or two sizes, which cannot wait for others",
)
_SHARE = worth("their time on the device and in the host's calls", 0.01)
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
    _SHARE,
    trade_off="A bucket leaves when its last gradient is there, and it is memory of its own unless "
    "gradient_as_bucket_view=True.",
    rests_on=("device-times",),
)
def small_all_reduces(facts: Facts) -> Iterator[Finding]:
    """An all-reduce of a few kilobytes costs its launch on every rank and the network's latency, whatever its size.
    The rule counts all-reduces of less than a mebibyte outside of forward, in training, if the recording has
    their sizes: those of kernels (torch 2.1 and later), or else the shapes of the host's calls (record_shapes=True),
    assuming float32. Their contents are not recorded: gradients of parameters, or other tensors.

    At most the time of their kernels and of the host's calls for them can be saved, of these no more than the time in
    which no kernel computes; nothing is certain, because kernels may run beside others, and their contents still have
    to be exchanged.
    """
    rows = [row for row in _all_reduces(facts) if row["bytes"] < _SIZE.value]
    calls = sum(row["calls"] for row in rows) / facts.steps
    if calls < _COUNT.value or _max_sizes(rows) < _SIZES.value or not facts.trains:
        return
    device_ns, host_ns = (sum(row[name] for row in rows) / facts.steps for name in ("time_ns", "host_ns"))
    time_ns = device_ns + host_ns
    if facts.part_of_step(time_ns) <= _SHARE.value:
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
