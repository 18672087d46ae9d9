"""Free ranges of an allocator's segments at a moment: a snapshot's segments, with later changes undone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from stepscope.analysis.memory.replay import Memory
from stepscope.query.scope import Scope
from stepscope.schema.arrays import Int64s

_ROUNDED_TO = 512
"""The allocator gives multiples of this many bytes (CUDACachingAllocator, kMinBlockSize)."""

_SEGMENTS = """
    SELECT DISTINCT segment, segment_bytes FROM memory_block
    WHERE rank = ? AND span = ? AND device = ?
"""
_CHANGES = """
    SELECT address, bytes, kind IN ('segment_alloc', 'segment_map') AS taken FROM allocator_event
    WHERE rank = ? AND span = ? AND device = ? AND time_ns > ?
        AND kind IN ('segment_alloc', 'segment_map', 'segment_free', 'segment_unmap')
    ORDER BY time_ns DESC
"""


class Free(NamedTuple):
    """Free memory in the segments at a moment (bytes)."""

    total: int
    largest: int


def free_ranges(scope: Scope, memory: Memory, state: int) -> Free | None:
    """The free memory of the segments in a state; None without a snapshot.

    Allocations freed before the snapshot are rounded up as the allocator does; larger blocks count as slightly too
    free.
    """
    key = [memory.rank, memory.span, memory.device]
    segments = scope.sql(_SEGMENTS, key).to_pylist()
    if not segments or (memory.address < 0).all():
        return None
    segments_at_end = {(segment["segment"], segment["segment"] + segment["segment_bytes"]) for segment in segments}
    at_ns = int(memory.at_ns[state]) if len(memory.time_ns) else 0
    covered = _ranges(segments_at_end)
    for change in scope.sql(_CHANGES, [*key, at_ns]).to_pylist():
        place = change["address"], change["address"] + change["bytes"]
        # Back in time: what was allocated later was not there yet.
        if change["taken"]:
            covered = _without(covered, place)
        else:
            covered = _ranges([*map(tuple, covered.tolist()), place])
    alive = memory.alive(state)
    start = memory.address[alive]
    used = -(-memory.bytes[alive] // _ROUNDED_TO) * _ROUNDED_TO
    order = np.argsort(start)
    return _between(covered, start[order], (start + used)[order])


def _ranges(places: Iterable[tuple[int, int]]) -> Int64s:
    """Ranges in order. Segments that touch stay separate, because no block crosses them."""
    return np.array(sorted(places), dtype=np.int64).reshape(-1, 2)


def _without(ranges: Int64s, place: tuple[int, int]) -> Int64s:
    """The ranges without one that was not there yet."""
    left: list[tuple[int, int]] = []
    for start, end in ranges.tolist():
        if end <= place[0] or start >= place[1]:
            left.append((start, end))
            continue
        if start < place[0]:
            left.append((start, place[0]))
        if end > place[1]:
            left.append((place[1], end))
    return np.array(left, dtype=np.int64).reshape(-1, 2)


def _between(segments: Int64s, start: Int64s, end: Int64s) -> Free:
    total = largest = 0
    first = np.searchsorted(start, segments[:, 0])
    last = np.searchsorted(start, segments[:, 1])
    for (low, high), first_block, last_block in zip(segments.tolist(), first.tolist(), last.tolist(), strict=True):
        edges = np.concatenate([[low], np.minimum(end[first_block:last_block], high)])
        gaps = np.maximum(np.concatenate([start[first_block:last_block], [high]]) - edges, 0)
        total += int(gaps.sum())
        largest = max(largest, int(gaps.max()))
    return Free(total, largest)
