"""`allocations`: each allocation, with the times at which it was made and freed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from stepscope.analysis.memory import PLACE
from stepscope.query.declare import Column, Parameter, question
from stepscope.query.rows import ArrowTable, answer_dicts
from stepscope.query.scope import Scope

if TYPE_CHECKING:
    from stepscope.analysis.memory.requested import RequestedMemory

_COLUMNS = (
    *PLACE,
    Column("bytes", "int", "size", sums=True),
    Column("alloc_ns", "int", "when it was made; empty for before the recording", moment=True),
    Column("free_ns", "int", "when it was given back; empty for never", moment=True),
    Column("lifetime_ns", "int", "time between the two"),
    Column("category", "text", "what it is for", sums=True),
    Column("operator", "text", "operator that made it", sums=True),
    Column("module", "text", "module in which it was made"),
    Column("alloc_step", "int", "training step in which it was made", shown="varying"),
    Column("free_step", "int", "training step in which it was given back", shown="varying"),
    Column("stack", "text", "call stack that made it, innermost frame first"),
    Column("address", "int", "address", shown=False),
)


@question(
    "allocations",
    "Which allocations were made, for what, and how long did each live?",
    _COLUMNS,
    group="memory",
    rests_on=("memory", "steps"),
    about="time",
    parameters=(
        Parameter(
            "at_ns",
            "int",
            "only what is alive at this moment (ns since the run's start); by default all that is alive "
            "at some moment of what is asked for",
            picks=("alloc_ns", "free_ns"),
        ),
        Parameter("at_peak", "bool", "only what is alive when most is allocated", default=False),
        Parameter("operator", "text", "only those that this operator made"),
        Parameter("category", "text", "only those that are for this"),
    ),
    fills="Record with --memory or --snapshot, or with profile_memory=True.",
)
def allocations(
    scope: Scope,
    at_ns: int | None = None,
    at_peak: bool = False,
    operator: str | None = None,
    category: str | None = None,
) -> ArrowTable:
    """Each row is an allocation that is alive at some moment of the requested steps or stretch of time, the largest
    first. `memory` explains how its category is found, and what else was allocated: if only a trace was
    recorded, memory from before the recording that is not freed in it has no row.

    An allocation and its release are matched by address. If an event was lost, an allocation ends at
    the latest when its address is used again. In TensorBoard's plug-in this is the table of memory events.

    For a page: `at_ns` fills the table of what is alive at a chosen moment, `--window` that of a
    chosen range.
    """
    from stepscope.analysis.memory.requested import requested_memory
    from stepscope.analysis.recording import every_step

    with every_step(scope) as whole:
        rows = [
            row
            for one in requested_memory(scope, whole)
            for row in _rows(one, at_ns, at_peak=at_peak)
            if (operator is None or row["operator"] == operator) and (category is None or row["category"] == category)
        ]
    rows.sort(key=lambda row: -row["bytes"])
    return answer_dicts(_COLUMNS, rows)


def _rows(asked: RequestedMemory, at_ns: int | None, *, at_peak: bool) -> Iterator[dict[str, Any]]:
    import numpy as np

    from stepscope.analysis.memory.categories import CATEGORIES

    memory, states = asked
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
        made = int(memory.time_ns[taken]) if taken >= 0 else None
        released = int(memory.time_ns[given]) if given >= 0 else None
        address = int(memory.address[row])
        yield {
            **memory.place,
            "bytes": int(memory.bytes[row]),
            "alloc_ns": made,
            "free_ns": released,
            "lifetime_ns": None if made is None or released is None else released - made,
            "category": CATEGORIES[int(memory.category[row])],
            "operator": memory.operator.at(row),
            "module": memory.module.at(row),
            "alloc_step": None if made is None else memory.step_of(made),
            "free_step": None if released is None else memory.step_of(released),
            "stack": memory.stack.at(row),
            "address": None if address < 0 else address,
        }
