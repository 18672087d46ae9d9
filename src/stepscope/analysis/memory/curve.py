"""Allocated and reserved memory over time, thinned for drawing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from stepscope.analysis.memory import CURVE_PARTS
from stepscope.analysis.memory.categories import CATEGORIES
from stepscope.analysis.memory.lifetimes import alive_bytes
from stepscope.analysis.memory.requested import RequestedMemory
from stepscope.formats.consecutive import run_starts


def curve_rows(requested: RequestedMemory, points: int) -> Iterator[dict[str, Any]]:
    """The moments of a device, at most so many; 0 for all."""
    memory, states = requested
    at = memory.at_ns if len(memory.time_ns) else np.zeros(1, np.int64)
    chosen = thinned(at[states], memory.allocated[states], points)
    shown_states = states[chosen]
    counts = np.diff(np.append(chosen, len(states)))
    parts = {}
    for part in CURVE_PARTS:
        of_part = memory.category == CATEGORIES.index(part.replace("_", " "))
        alive = alive_bytes(memory.start[of_part], memory.end[of_part], memory.bytes[of_part], len(memory.allocated))
        parts[f"{part}_bytes"] = alive[shown_states].tolist()
    reserved = None if memory.reserved is None else memory.reserved[shown_states].tolist()
    for row, (state, events) in enumerate(zip(shown_states.tolist(), counts.tolist(), strict=True)):
        part_bytes = {name: values[row] for name, values in parts.items()}
        allocated = int(memory.allocated[state])
        yield {
            **memory.place,
            "time_ns": int(at[state]),
            "step": memory.step_of(int(at[state])),
            "allocated_bytes": allocated,
            "reserved_bytes": None if reserved is None else reserved[row],
            **part_bytes,
            "unknown_bytes": allocated - sum(part_bytes.values()),
            "events": events,
        }


def thinned(time_ns: Any, values: Any, points: int) -> Any:
    """Indices of the moments to show: for each stretch of time the first, lowest, highest and last.

    >>> import numpy as np
    >>> thinned(np.arange(8), np.array([1, 2, 9, 3, 4, 5, 0, 6]), 4).tolist()
    [0, 2, 6, 7]
    """
    if points <= 0 or len(values) <= points:
        return np.arange(len(values))
    stretches = max(points // 4, 1)
    span = max(int(time_ns[-1] - time_ns[0]), 0) + 1
    stretch = (time_ns - time_ns[0]) * stretches // span
    first = np.flatnonzero(run_starts(stretch))
    last = np.append(first[1:], len(values)) - 1
    by_value = np.lexsort((np.arange(len(values)), values, stretch))
    lowest = by_value[first]
    # The first of the highest ones: later ones of a stretch follow it in the order.
    by_height = np.lexsort((np.arange(len(values)), -values, stretch))
    highest = by_height[first]
    return np.unique(np.concatenate([first, lowest, highest, last]))
