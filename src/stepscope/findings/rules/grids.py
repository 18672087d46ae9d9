"""Rules about kernels whose grid of blocks leaves a part of the device empty."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.findings.cures import joined, processors
from stepscope.findings.declare import Finding, Threshold, kernel_rule, of_time, worth
from stepscope.findings.facts import Facts, first
from stepscope.findings.groups import IDLE_SM_NS
from stepscope.findings.of_kernels import of_kernels

_EMPTY = worth("time of multiprocessors without a block", 0.05)
_OCCUPANCY = Threshold(
    "estimated achieved occupancy", 0.25, "ratio", "ours; CUDA C++ Best Practices Guide: low occupancy exposes latency"
)
_SLOW = worth("such kernels", 0.10)
_TAILS = worth("time lost in last waves", 0.05)
_WAVES = Threshold("full waves of a kernel", 10, "count", "ours: with more, the last wave costs little")

_BLOCKS = """
    WITH launched AS (
        SELECT work.name, work.dur_ns,
            grid_x::DOUBLE * coalesce(grid_y, 1) * coalesce(grid_z, 1) AS blocks, sm_count,
            least(
                max_threads_per_sm // (warp_size * ceil(
                    block_x::DOUBLE * coalesce(block_y, 1) * coalesce(block_z, 1) / warp_size)),
                registers_per_sm // (warp_size * ceil(
                    block_x::DOUBLE * coalesce(block_y, 1) * coalesce(block_z, 1) / warp_size)
                    * nullif(registers_per_thread, 0)),
                coalesce(shared_memory_per_sm_bytes // nullif(shared_memory_bytes, 0), 32),
                32
            ) AS resident
        FROM device_event AS work JOIN device USING (rank, device)
        WHERE work.kind = 'computation' AND {counted}
    ),
    waves AS (
        SELECT name, dur_ns, blocks / nullif(sm_count * resident, 0) AS waves FROM launched
        WHERE resident >= 1
    )
"""
_LOST = f"sum(dur_ns * (1 - waves / ceil(waves))) FILTER (waves > 1 AND waves < {_WAVES.value})"
_QUERY = f"""{_BLOCKS}
    SELECT name AS kernel, count(*) / {{steps}} AS calls_per_step, sum(dur_ns) / {{steps}} AS time_ns,
        avg(waves) AS mean_waves, {_LOST} / {{steps}} AS lost_ns
    FROM waves GROUP BY name HAVING lost_ns > 0 ORDER BY lost_ns DESC, name
"""


@kernel_rule(
    "small-grids",
    "Kernels that leave a part of the multiprocessors without work.",
    _EMPTY,
    trade_off="A larger batch needs more memory and changes convergence; kernels side by side share bandwidth.",
)
def small_grids(facts: Facts) -> Iterator[Finding]:
    """A kernel with fewer blocks than multiprocessors leaves the others empty: its duration times the share of
    multiprocessors without a block is lost, unless another stream fills it.

    At most this time can be saved, by a batch that fills the device.
    """
    yield from of_kernels(
        facts,
        lambda group: group.kind == "computation" and (group.idle_sm_ns or 0) > 0,
        _EMPTY,
        title=f"Kernels with fewer blocks than {processors(facts)} leave some idle: as much as a device idle for {{}}",
        metric="kernels' time times the part of multiprocessors without a block, per step",
        confidence="low",
        advice=f"Raise the batch size, stack small calls into one ({joined('torch.bmm' * facts.in_pytorch, 'grouped products')}), or run "
        "independent parts on streams of their own.",
        lost=(lambda group: group.idle_sm_ns, IDLE_SM_NS),
    )


@kernel_rule(
    "low-occupancy",
    "Kernels other than products that fill the device with blocks and keep few threads resident.",
    _OCCUPANCY,
    _SLOW,
    trade_off="Threads with fewer registers and less shared memory may go to memory more often.",
)
def low_occupancy(facts: Facts) -> Iterator[Finding]:
    """Kernels with at least one block per multiprocessor and an estimated occupancy below a quarter. Products are
    efficient with few threads and many registers and do not count; kernels with fewer blocks than multiprocessors are
    in `small-grids`, and those with a measured occupancy in `occupancy-limit`.

    At most their time can be saved.
    """
    yield from of_kernels(
        facts,
        lambda group: (
            group.kind == "computation"
            and (group.low_occupancy_ns or 0) > 0
            and not group.use.used
            and not group.is_product
            and not facts.has_counter(group.name, "achieved_occupancy")
        ),
        _SLOW,
        title="Kernels with an occupancy below 25 % take {}",
        metric="time of kernels of low occupancy, per step",
        confidence="low",
        advice="Look at their registers and shared memory in `stepscope kernels --by properties`; use "
        "other block sizes in your own kernels; otherwise fused kernels, or those of a newer library.",
        lost=(
            lambda group: group.low_occupancy_ns,
            "sum(dur_ns) FILTER (blocks_per_sm >= 1 AND occupancy_ratio < 0.25)",
        ),
    )


@kernel_rule(
    "tail-waves",
    "Kernels whose last wave of blocks is mostly empty.",
    _TAILS,
    _WAVES,
    trade_off="Other sizes are another model: a larger one takes more of everything else.",
)
def tail_waves(facts: Facts) -> Iterator[Finding]:
    """A device runs as many blocks at once as fit its multiprocessors, by their threads, registers and shared memory;
    the others wait for the next wave. With 1.1 waves a kernel takes the time of two. The loss is its duration times the
    empty share of its last wave, for kernels of more than one and fewer than ten waves; it needs grids, registers and
    the device's properties.

    At most that can be saved; blocks do not all take the same time.
    """
    if not facts.enough_work or not facts.devices:
        return
    rows = facts.host(_QUERY.replace("{steps}", str(facts.steps)))
    lost = sum(row["lost_ns"] for row in rows)
    if facts.part_of_step(lost) <= _TAILS.value:
        return
    yield of_time(
        title=f"Partly filled last waves of blocks lose {facts.amount(lost)}",
        metric="time lost in last waves, per step",
        time_ns=lost,
        confidence="low",
        evidence=first(rows),
        advice="Choose batch, sequence and feature sizes so that blocks fill their waves"
        + "; let torch.compile(mode='max-autotune') choose tiles." * facts.in_pytorch
        + "." * (not facts.in_pytorch),
        query=facts.to_repeat(f"{_BLOCKS} SELECT {_LOST} / {facts.steps} FROM waves"),
    )
