"""Allocations that failed because a device had too little memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stepscope.analysis.memory.free_ranges import free_ranges
from stepscope.analysis.memory.replay import Memory
from stepscope.query.scope import Scope

_FAILED = """
    SELECT e.rank, e.span, e.device_kind AS kind, e.device, e.time_ns AS at_ns, frames AS stack,
        bytes AS requested_bytes, device_free_bytes, total_allocated_bytes AS allocated_bytes,
        total_pending_bytes AS pending_bytes, total_reserved_bytes AS reserved_bytes
    FROM allocator_event AS e LEFT JOIN call_stack USING (rank, span, stack_id)
    WHERE e.kind = 'oom' ORDER BY e.rank, e.span, e.device, e.time_ns
"""
_EXPANDABLE = "SELECT DISTINCT rank, span FROM memory_block WHERE expandable"
_REPLAYED = 5_000_000
"""Events of the allocator and allocations that are looked at, over all failures: each is replayed by itself."""


class Failure(NamedTuple):
    """An allocation that failed, and what was held then (bytes)."""

    rank: int
    span: int
    kind: str
    device: int
    at_ns: int
    step: int | None
    stack: str | None
    requested_bytes: int
    device_free_bytes: int | None
    allocated_bytes: int | None
    pending_bytes: int | None
    """None in a trace, which does not contain it."""
    reserved_bytes: int | None
    free_bytes: int | None
    """Held by the allocator, and neither in use nor, as far as is known, pending."""
    max_free_block_bytes: int | None
    """In one piece; None if the places of blocks are unknown."""
    expandable: bool
    """Whether the allocator had segments that can grow."""


def failures(scope: Scope, memories: Sequence[Memory]) -> list[Failure]:
    """The failed allocations in the scope, in order of time by device; `memories` are those of its ranks.

    Where there are very many, free places are replayed for the first ones; of the others only totals are known.
    """
    of = {(row.rank, row.span, row.kind, row.device): row for row in memories}
    expandable = {(row["rank"], row["span"]) for row in scope.sql(_EXPANDABLE).to_pylist()}
    changes = scope.value("SELECT count(*) FROM allocator_event")
    left = _REPLAYED
    result = []
    for row in scope.sql(_FAILED).to_pylist():
        memory = of.get((row["rank"], row["span"], row["kind"], row["device"]))
        if memory is None:
            continue
        pending = row["pending_bytes"] or 0
        free = free_ranges(scope, memory, memory.state_at(row["at_ns"])) if left > 0 else None
        left -= changes + len(memory.start) + 1_000
        # The places of pending blocks are unknown: the replay counts them as free.
        totals = row["reserved_bytes"], row["allocated_bytes"]
        unused = free.total if free is not None else None if None in totals else totals[0] - totals[1]
        result.append(
            Failure(
                **row,
                step=memory.step_of(row["at_ns"]),
                free_bytes=None if unused is None else max(unused - pending, 0),
                max_free_block_bytes=None if free is None or pending else free.largest,
                expandable=(row["rank"], row["span"]) in expandable,
            )
        )
    return result
