"""Free ranges of an allocator's segments at a moment: a snapshot's segments, with later changes undone."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import pairwise
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
    ORDER BY time_ns
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
    places = []
    if memory.has_history:
        changes = scope.sql(_CHANGES, [*key, int(memory.at_ns[state])]).to_pylist()
        # Back in time: what was allocated later was not there yet.
        places = [(row["address"], row["address"] + row["bytes"], not row["taken"]) for row in changes]
    places += [(row["segment"], row["segment"] + row["segment_bytes"], True) for row in segments]
    covered = _covered(places)
    alive = memory.alive(state)
    start = memory.address[alive]
    used = -(-memory.bytes[alive] // _ROUNDED_TO) * _ROUNDED_TO
    order = np.argsort(start)
    return _between(covered, start[order], (start + used)[order])


def _covered(places: list[tuple[int, int, bool]]) -> Int64s:
    """The ranges that were there: of the places (start, end, there) around an address the first decides.

    Ranges that touch stay separate if different places decide, because no block crosses segments.
    """
    edges = sorted({edge for start, end, _ in places for edge in (start, end)})
    by_start = sorted(range(len(places)), key=lambda number: places[number][0], reverse=True)
    around: list[int] = []
    ranges: list[list[int]] = []
    last = None
    for low, high in pairwise(edges):
        while by_start and places[by_start[-1]][0] <= low:
            heappush(around, by_start.pop())
        while around and places[around[0]][1] <= low:
            heappop(around)
        if not around or not places[around[0]][2]:
            last = None
        elif around[0] == last:
            ranges[-1][1] = high
        else:
            last = around[0]
            ranges.append([low, high])
    return np.array(ranges, dtype=np.int64).reshape(-1, 2)


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
