"""`small-all-reduces`: gradients, or other tensors, that are exchanged one by one."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from stepscope.floor.units import bytes_text, count_text
from stepscope.judge.declare import Finding, Threshold, rule, worth
from stepscope.judge.facts import Facts, first

_SIZE = Threshold(
    "size of an all-reduce",
    2**20,
    "bytes",
    "torch.nn.parallel.DistributedDataParallel: 1 MiB is the size of its first, smallest bucket",
)
_COUNT = Threshold(
    "all-reduces below that size, a step",
    50,
    "count",
    "ours: buckets of the largest models are fewer",
)
_SIZES = Threshold(
    "different sizes of them",
    3,
    "count",
    "ours: a tensor-parallel layer exchanges activations of one or two sizes, which cannot wait for others",
)
_SHARE = worth("their time on the device and in the host's calls", 0.01)
_BUCKET = 25 * 2**20
"""DistributedDataParallel's bucket_cap_mb (bytes)."""

_SMALL = f"""
    FROM collective AS small
    JOIN (SELECT rank, id, dur_ns, direction FROM device_event WHERE {{counted}}) AS work USING (rank, id)
    LEFT JOIN (SELECT rank, id, dur_ns FROM host_event WHERE {{counted}}) AS call
        ON call.rank = small.rank AND call.id = small.host_id
    WHERE operation = 'all_reduce' AND bytes < {_SIZE.value:.0f} AND direction IS DISTINCT FROM 'forward'
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
    """An all-reduce of a few kilobytes takes its start on every rank and the network's latency, whatever its size.
    Counted are all-reduces of less than a mebibyte outside of forward, where the recording has their sizes (torch 2.1
    and later). What they carry is not recorded: gradients of parameters, or other tensors.

    At most the time of their kernels and of the host's calls for them can be saved; nothing is certain, since
    kernels may run beside others, and what they carry has to be exchanged all the same.
    """
    rows = facts.host(
        f"""
        SELECT bytes, count(*) / {facts.steps} AS calls_per_step, sum(work.dur_ns) / {facts.steps} AS
            time_ns, coalesce(sum(call.dur_ns), 0) / {facts.steps} AS host_ns
        {_SMALL} GROUP BY bytes ORDER BY calls_per_step DESC, bytes
        """
    )
    calls = sum(row["calls_per_step"] for row in rows)
    if calls < _COUNT.value or len(rows) < _SIZES.value:
        return
    time_ns = sum(row["time_ns"] + row["host_ns"] for row in rows)
    if facts.part_of_step(time_ns) <= _SHARE.value:
        return
    size = sum(row["bytes"] * row["calls_per_step"] for row in rows)
    buckets = ceil(size / _BUCKET)
    yield Finding(
        title=f"{count_text(round(calls))} all-reduces a {facts.per} carry less than 1 MiB each and "
        f"{bytes_text(round(size))} together, which is {buckets} bucket{'s' if buckets > 1 else ''} of "
        f"25 MiB: {facts.amount(time_ns)} in their kernels and the host's calls",
        metric="all-reduces of less than 1 MiB, per step",
        value=calls,
        unit="count",
        saving_ns=time_ns,
        confidence="medium",
        evidence=first(rows),
        advice="Where they are gradients, let DistributedDataParallel exchange them in buckets (bucket_cap_mb), "
        "or join them into one flat tensor for each element type before all_reduce; metrics likewise.",
        query=facts.to_repeat(f"SELECT count(*) / {facts.steps} {_SMALL}"),
    )
