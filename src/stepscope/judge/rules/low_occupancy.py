"""`low-occupancy`: kernels bound by memory that keep few threads resident."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.judge.declare import Finding, Threshold, rule
from stepscope.judge.facts import Facts, first
from stepscope.judge.groups import by_kernel, reproduce

_OCCUPANCY = Threshold(
    "estimated achieved occupancy",
    0.25,
    "ratio",
    "NVIDIA, CUDA C++ Best Practices Guide: low occupancy keeps latency of memory from being hidden; "
    "a quarter: ours",
)
_SHARE = Threshold(
    "such kernels, of the step", 0.10, "ratio", "ours: below it there is little to win"
)


@rule(
    "low-occupancy",
    "Kernels other than products that fill the device with blocks and keep few threads resident.",
    _OCCUPANCY,
    _SHARE,
    saves="kernel time",
    rests_on=("stream-order", "device-times"),
)
def low_occupancy(facts: Facts) -> Iterator[Finding]:
    """Kernels with at least one block per multiprocessor and an estimated occupancy below a quarter.
    Products do well with few threads and many registers and do not count; kernels with fewer blocks
    than multiprocessors are `small-grids`.

    At most half of their time can be saved; nothing is certain.
    """
    if not facts.enough_work:
        return
    low = [
        g
        for g in facts.groups
        if g.kind == "computation" and (g.low_occupancy_ns or 0) > 0 and not g.use.used
        if not g.is_product
    ]
    time_ns = sum(group.low_occupancy_ns or 0 for group in low) / facts.steps
    if facts.part_of_step(time_ns) <= _SHARE.value:
        return
    yield Finding(
        title=f"Kernels with an occupancy below 25 % take {facts.amount(time_ns)}",
        metric="time of kernels of low occupancy, per step",
        value=time_ns,
        unit="ns",
        saving_ns=(0, time_ns / 2),
        confidence="low",
        evidence=first(by_kernel(facts.steps, low, lost=lambda group: group.low_occupancy_ns)),
        advice="Look at their registers and shared memory in `stepscope kernels --by properties`; use "
        "other block sizes in own kernels, fused or newer ones of the library otherwise.",
        query=reproduce(
            facts.steps,
            facts.counted,
            low,
            "sum(dur_ns) FILTER (blocks_per_sm >= 1 AND occupancy_ratio < 0.25)",
        ),
    )
