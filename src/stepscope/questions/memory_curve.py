"""`memory-curve`: allocated and reserved memory over time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from stepscope.analysis.memory import PLACE
from stepscope.query.declare import Column, Parameter, question
from stepscope.query.rows import ArrowTable, answer_dicts, noted
from stepscope.query.scope import Scope

if TYPE_CHECKING:
    from stepscope.analysis.memory.requested import RequestedMemory

_PARTS = {
    "parameters_bytes": "parameters",
    "gradients_bytes": "gradients",
    "optimizer_state_bytes": "optimizer state",
    "activations_bytes": "activations",
    "temporaries_bytes": "temporaries",
}

_COLUMNS = (
    *PLACE,
    Column("time_ns", "int", "when, since the run's start", moment=True),
    Column("step", "int", "training step", shown="varying"),
    Column("allocated_bytes", "int", "bytes in use from then on", sums=True),
    Column("reserved_bytes", "int", "bytes that the allocator holds from then on"),
    *(Column(name, "int", f"{part} in allocated_bytes", "bytes") for name, part in _PARTS.items()),
    Column("unknown_bytes", "int", "rest of allocated_bytes"),
    Column("events", "int", "allocations and releases that the row stands for", "count", shown=False),
)


@question(
    "memory-curve",
    "How did allocated and reserved memory change over time?",
    _COLUMNS,
    group="memory",
    rests_on=("memory", "steps"),
    about="time",
    parameters=(Parameter("points", "int", "rows of a device at most; 0 for a row an event", default=400),),
    fills="Record with --memory or --snapshot, or with profile_memory=True.",
)
def memory_curve(scope: Scope, points: int = 400) -> ArrowTable:
    """Each row is a moment of a device: the memory in use from then on, what the allocator held, and the categories
    (`memory` explains how they are found). The parts add up to `allocated_bytes`.

    If there are more events than `points`, time is cut into stretches of equal length, and of each the
    first moment, the lowest, the highest and the last are shown. Every row is a recorded moment, and
    the peak is always among them; `events` counts those that a row stands for, and `--points 0` shows
    all. `--window` shows a stretch in more detail. TensorBoard's plug-in thins the curve by
    largest triangles (LTTB, 10,240 points), which may miss the peak.

    For a page: a row holds until the next of the same rank, span, kind and device, so that the curve is a
    staircase. The first row of a device is the memory from before its first event.
    """
    from stepscope.analysis.memory.requested import requested_memory
    from stepscope.analysis.recording import every_step

    with every_step(scope) as whole:
        rows = [row for one in requested_memory(scope, whole) for row in _rows(one, points)]
    answer = answer_dicts(_COLUMNS, rows)
    thinned = sum(row["events"] for row in rows) > len(rows)
    note = "Thinned out: of each stretch of time the first, lowest, highest and last moment."
    return noted(answer, note) if thinned else answer


def _rows(asked: RequestedMemory, points: int) -> Iterator[dict[str, Any]]:
    import numpy as np

    from stepscope.analysis.memory.categories import CATEGORIES
    from stepscope.analysis.memory.lifetimes import alive_bytes

    memory, states = asked
    at = memory.at_ns if len(memory.time_ns) else np.zeros(1, np.int64)
    kept = thinned(at[states], memory.allocated[states], points)
    shown = states[kept]
    counts = np.diff(np.append(kept, len(states)))
    parts = {}
    for name, part in _PARTS.items():
        own = memory.category == CATEGORIES.index(part)
        alive = alive_bytes(memory.start[own], memory.end[own], memory.bytes[own], len(memory.allocated))
        parts[name] = alive[shown].tolist()
    reserved = None if memory.reserved is None else memory.reserved[shown].tolist()
    for row, (state, events) in enumerate(zip(shown.tolist(), counts.tolist(), strict=True)):
        own_parts = {name: values[row] for name, values in parts.items()}
        allocated = int(memory.allocated[state])
        yield {
            **memory.place,
            "time_ns": int(at[state]),
            "step": memory.step_of(int(at[state])),
            "allocated_bytes": allocated,
            "reserved_bytes": None if reserved is None else reserved[row],
            **own_parts,
            "unknown_bytes": allocated - sum(own_parts.values()),
            "events": events,
        }


def thinned(time_ns: Any, values: Any, points: int) -> Any:
    """Indices of the moments to show: for each stretch of time the first, lowest, highest and last.

    >>> import numpy as np
    >>> thinned(np.arange(8), np.array([1, 2, 9, 3, 4, 5, 0, 6]), 4).tolist()
    [0, 2, 6, 7]
    """
    import numpy as np

    from stepscope.formats.consecutive import run_starts

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
