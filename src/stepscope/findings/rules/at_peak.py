"""`activations-at-peak` and `optimizer-state-at-peak`: what uses most of the memory at the peak."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stepscope.analysis.memory.categories import ACTIVATIONS, CATEGORIES, OPTIMIZER_STATE
from stepscope.base.units import bytes_text, ratio_text
from stepscope.findings.declare import Finding, Threshold, rule
from stepscope.findings.facts import Facts

_ACTIVATIONS = Threshold(
    "activations at the peak, of what is allocated then", 0.50, "ratio", "ours: more than all else together"
)
_STATE = Threshold(
    "optimizer state at the peak, of what is allocated then",
    0.40,
    "ratio",
    "ours: Adam in 32 bits has half of what stays, 8 of 16 bytes a parameter (ZeRO, section 3.1)",
)
_FILLED = Threshold(
    "allocated memory at its peak, of the device's, where the device's is known",
    0.50,
    "ratio",
    "ours: on a device that is half empty nothing need be saved",
)
_SIZES = "SELECT rank, device, memory_bytes FROM device WHERE memory_bytes > 0"


@rule(
    "activations-at-peak",
    "Memory that is mostly activations at its peak.",
    _ACTIVATIONS,
    _FILLED,
    rests_on=("memory",),
    trade_off="Checkpointed layers compute their forward again in backward: up to a third more computation.",
)
def activations_at_peak(facts: Facts) -> Iterator[Finding]:
    """The share of allocations at a device's peak that were made in the forward pass and are alive when backward
    starts. `memory` explains how that is found; memory of unknown use counts against it. It saves no time.
    """
    yield from _share_at_peak(
        facts,
        ACTIVATIONS,
        _ACTIVATIONS,
        "Checkpoint layers (torch.utils.checkpoint), or smaller batches with gradient accumulation. "
        "`stepscope memory SRC --by operator` for what makes them.",
    )


@rule(
    "optimizer-state-at-peak",
    "Memory of which much is the optimizer's state at its peak.",
    _STATE,
    _FILLED,
    rests_on=("memory",),
    trade_off="Sharded state is communicated; state in fewer bits is less exact.",
)
def optimizer_state_at_peak(facts: Facts) -> Iterator[Finding]:
    """The share of allocations at a device's peak that the optimizer's step made and keeps; memory of
    unknown use counts against it. It saves no time.
    """
    yield from _share_at_peak(
        facts,
        OPTIMIZER_STATE,
        _STATE,
        "Shard it over ranks (ZeroRedundancyOptimizer, FSDP), or keep it in fewer bits. "
        "`stepscope memory SRC --by category` for the rest.",
    )


def _share_at_peak(facts: Facts, part: str, threshold: Threshold, advice: str) -> Iterator[Finding]:
    sizes = {(row["rank"], row["device"]): row["memory_bytes"] for row in facts.scope.sql(_SIZES).to_pylist()}
    rows: list[dict[str, Any]] = []
    for memory in facts.memories:
        state = memory.peak(memory.states_in(None))
        total = int(memory.allocated[state])
        size = sizes.get((memory.rank, memory.device))
        if memory.kind == "cpu" or not total or (size and total <= _FILLED.value * size):
            continue
        alive = memory.alive(state)
        of_part = alive[memory.category[alive] == CATEGORIES.index(part)]
        used = int(memory.bytes[of_part].sum())
        row: dict[str, Any] = {
            "rank": memory.rank, "device": memory.device, "bytes": used, "peak_bytes": total,
            "share_ratio": used / total, "at_ns": int(memory.at_ns[state]),
        }  # fmt: skip
        if row["share_ratio"] > threshold.value:
            rows.append(row)
    if not rows:
        return
    worst = max(rows, key=lambda row: row["share_ratio"])
    yield Finding(
        title=f"{part.capitalize()} are {ratio_text(worst['share_ratio'])} of memory at its peak: "
        f"{bytes_text(worst['bytes'])} of {bytes_text(worst['peak_bytes'])}"
        if part == ACTIVATIONS
        else f"The optimizer's state is {ratio_text(worst['share_ratio'])} of memory at its peak: "
        f"{bytes_text(worst['bytes'])} of {bytes_text(worst['peak_bytes'])}",
        metric=threshold.name,
        value=worst["share_ratio"],
        unit="ratio",
        evidence=tuple(rows[:8]),
        rank=worst["rank"],
        advice=advice,
        query="stepscope memory SRC --by category",
    )
