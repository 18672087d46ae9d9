"""`data-parallel`: one process drives several devices through DataParallel."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.findings.declare import Finding, Threshold, rule
from stepscope.findings.facts import Facts

_DEVICES = Threshold("devices of a process", 1, "count", "TensorBoard profiler plugin: DataParallel on more than one")

_CALLS = """
    SELECT rank, count(*) AS calls FROM host_event WHERE name = 'DataParallel.forward'
    GROUP BY rank ORDER BY calls DESC, rank
"""


@rule("data-parallel", "nn.DataParallel over several devices.", _DEVICES)
def data_parallel(facts: Facts) -> Iterator[Finding]:
    """`DataParallel.forward` in a process that has work on more than one device. One recording does not show
    its cost: it copies the model in every step and runs Python for all devices in one process.
    """
    rows = facts.host(_CALLS)
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
