"""Single allocations, each with the times at which it was made and freed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from stepscope.analysis.memory.categories import CATEGORIES
from stepscope.analysis.memory.requested import RequestedMemory


def allocation_rows(requested: RequestedMemory, at_ns: int | None, *, at_peak: bool) -> Iterator[dict[str, Any]]:
    """The allocations that are alive at a moment, at the peak, or at some moment of the requested states."""
    memory, states = requested
    if at_ns is not None:
        chosen = memory.alive(memory.state_at(at_ns))
    elif at_peak:
        chosen = memory.alive(memory.peak(states))
    else:
        # Those that start before the last state, and end after the first of the following ones.
        place = np.searchsorted(states, memory.start)
        following = np.append(states, len(memory.allocated) + 1)[place]
        chosen = np.flatnonzero(memory.end > following)
    for row in chosen.tolist():
        taken, given = int(memory.taken[row]), int(memory.given[row])
        alloc_ns = int(memory.time_ns[taken]) if taken >= 0 else None
        free_ns = int(memory.time_ns[given]) if given >= 0 else None
        address = int(memory.address[row])
        yield {
            **memory.place,
            "bytes": int(memory.bytes[row]),
            "alloc_ns": alloc_ns,
            "free_ns": free_ns,
            "lifetime_ns": None if alloc_ns is None or free_ns is None else free_ns - alloc_ns,
            "category": CATEGORIES[int(memory.category[row])],
            "operator": memory.operator.at(row),
            "module": memory.module.at(row),
            "alloc_step": None if alloc_ns is None else memory.step_of(alloc_ns),
            "free_step": None if free_ns is None else memory.step_of(free_ns),
            "stack": memory.stack.at(row),
            "address": None if address < 0 else address,
        }
