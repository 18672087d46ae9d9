"""`tail-waves`: kernels whose last wave of blocks leaves most of the device empty."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.judge.declare import Finding, Threshold, rule
from stepscope.judge.facts import Facts, first

_SHARE = Threshold(
    "time lost in last waves, of the step", 0.05, "ratio", "ours: below it there is little to win"
)
_WAVES = Threshold(
    "full waves of a kernel",
    10,
    "count",
    "ours: after more than ten, blocks end at times of their own and the last wave costs little",
)

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


@rule(
    "tail-waves",
    "Kernels of a little more than a whole number of waves of blocks.",
    _SHARE,
    _WAVES,
    saves="kernel time",
    rests_on=("stream-order", "device-times"),
)
def tail_waves(facts: Facts) -> Iterator[Finding]:
    """A device takes as many blocks at once as its multiprocessors hold, by their threads, registers
    and shared memory; what is over waits for the next wave. With 1.1 waves a kernel takes the time of
    two. Lost is its duration times the empty part of its last wave, for kernels of more than one and
    fewer than ten waves; it needs grids, registers and the device's properties.

    At most that can be saved; nothing is certain, since blocks do not all take the same time.
    """
    if not facts.enough_work or not facts.devices:
        return
    rows = facts.host(_QUERY.replace("{steps}", str(facts.steps)))
    lost = sum(row["lost_ns"] for row in rows)
    if facts.part_of_step(lost) <= _SHARE.value:
        return
    yield Finding(
        title=f"Last waves of blocks that fill little of the device lose {facts.amount(lost)}",
        metric="time lost in last waves, per step",
        value=lost,
        unit="ns",
        saving_ns=(0, lost),
        confidence="low",
        evidence=first(rows),
        advice="Choose batch, sequence and feature sizes so that blocks fill whole waves; let "
        "torch.compile(mode='max-autotune') choose tiles.",
        query=" ".join(
            f"{_BLOCKS} SELECT {_LOST} / {facts.steps} FROM waves".replace(
                "{counted}", facts.counted
            ).split()
        ),
    )
