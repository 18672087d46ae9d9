"""`memory-near-limit`: the device's memory is almost full."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.base.units import bytes_text, ratio_text
from stepscope.findings.declare import Finding, Threshold, rule
from stepscope.findings.facts import Facts

_SHARE = Threshold(
    "allocated memory at its peak, of the device's", 0.90, "ratio", "TensorBoard profiler plugin: peak memory > 90 %"
)

_PEAK = """
    SELECT rank, device, max(total_allocated_bytes) / any_value(memory_bytes) AS share_ratio,
        max(total_allocated_bytes)::BIGINT AS peak_bytes, any_value(memory_bytes)::BIGINT AS memory_bytes
    FROM memory_event JOIN device USING (rank, device)
    WHERE device_kind <> 'cpu' AND memory_bytes > 0 AND total_allocated_bytes IS NOT NULL
    GROUP BY rank, device ORDER BY share_ratio DESC, rank, device
"""


@rule("memory-near-limit", "Devices whose memory is almost full at its peak.", _SHARE)
def memory_near_limit(facts: Facts) -> Iterator[Finding]:
    """Peak of the allocated memory over the device's memory; it needs profile_memory=True. It saves no
    time, but the next larger batch will fail, and an allocator without room returns memory and
    requests it again.
    """
    rows = facts.rows_of("memory_event", _PEAK)
    if not rows or rows[0]["share_ratio"] <= _SHARE.value:
        return
    worst = rows[0]
    yield Finding(
        title=f"Memory is almost full: {bytes_text(worst['peak_bytes'])} allocated at the peak, "
        f"{ratio_text(worst['share_ratio'])} of the device's",
        metric="allocated memory at its peak, of the device's",
        value=worst["share_ratio"],
        unit="ratio",
        confidence="high",
        evidence=tuple(rows[:8]),
        rank=worst["rank"],
        advice="Mixed precision, activation checkpoints, zero_grad(set_to_none=True), a sharded optimizer (ZeRO, FSDP)."
        if facts.trains
        else "torch.inference_mode(), smaller batches, weights in fewer bits, a model that is sharded over devices.",
        query=facts.to_repeat(f"SELECT share_ratio FROM ({_PEAK}) LIMIT 1"),
    )
