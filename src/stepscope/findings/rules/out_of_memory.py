"""`out-of-memory`: the device had too little memory for an allocation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from stepscope.base.units import bytes_text
from stepscope.findings.declare import Finding, Threshold, rule
from stepscope.findings.facts import Facts

if TYPE_CHECKING:
    from stepscope.analysis.memory.out_of_memory import Failure

_IN_PIECES = Threshold(
    "memory that the allocator held and nobody used, of what was asked for",
    1.0,
    "ratio",
    "PyTorch, Understanding CUDA Memory Usage: in one piece it would have been enough",
)


@rule(
    "out-of-memory",
    "Allocations for which the device or the host had too little, of memory snapshots and of memory events in traces.",
    _IN_PIECES,
    rests_on=("memory",),
)
def out_of_memory(facts: Facts) -> Iterator[Finding]:
    """The last time that an allocation failed on a device, with the requested and the free memory. If the allocator
    held that much unused, but in no piece that was large enough, fragmentation explains the failure, and segments that
    can grow (`expandable_segments:True`) avoid it. Before it fails, the allocator returns entirely unused segments, so
    the remaining free memory lies between blocks in use. It saves no time.
    """
    if facts.scope.has_none("allocator_event"):
        return
    from stepscope.analysis.memory.out_of_memory import failures

    last: dict[tuple[int, int], Failure] = {}
    all_failures = failures(facts.scope, facts.memories)
    for failure in all_failures:
        last[failure.rank, failure.device] = failure
    for failure in last.values():
        yield _finding(failure, sum(other.rank == failure.rank for other in all_failures))


def _finding(failure: Failure, count: int) -> Finding:
    requested = failure.requested_bytes
    fragmented = (
        failure.max_free_block_bytes is not None
        and failure.free_bytes is not None
        and failure.free_bytes >= _IN_PIECES.value * requested
        and failure.max_free_block_bytes < requested
    )
    cached = device = ""
    if failure.free_bytes is not None:
        cached = f", {bytes_text(failure.free_bytes)} held by the allocator and unused"
    if failure.max_free_block_bytes is not None:
        cached += f", at most {bytes_text(failure.max_free_block_bytes)} in one piece"
    if failure.device_free_bytes is not None:
        device = f", {bytes_text(failure.device_free_bytes)} free on the device"
    title = "Out of memory"
    advice = (
        "`stepscope memory SRC --by category` for what was alive at the peak. Smaller batches, activation "
        "checkpoints, a sharded optimizer (ZeRO, FSDP)."
    )
    if fragmented and not failure.expandable:
        title = "Out of memory, by fragmentation"
        advice = (
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True before the job starts. "
            "`stepscope memory SRC --by pool` for where free memory lies."
        )
    return Finding(
        title=f"{title}: {bytes_text(requested)} asked for{device}{cached}",
        metric="bytes asked for when the device had too little",
        value=requested,
        unit="bytes",
        confidence="high",
        severity="high",
        evidence=(failure._asdict() | {"times": count},),
        rank=failure.rank,
        step=failure.step,
        advice=advice,
        query="stepscope memory SRC --by oom",
    )
