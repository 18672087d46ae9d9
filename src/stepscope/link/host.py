"""The host events of a recording, nested, as arrays in the order of the nesting."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stepscope.formats.consecutive import run_starts
from stepscope.formats.nesting import Nesting, climb, nest
from stepscope.formats.scratch import spill
from stepscope.link.columns import codes, numbers, small_numbers, times

PYTHON, ANNOTATION, OPERATOR, OTHER, RUNTIME = range(5)
"""Kinds, outermost first: events with equal start and end nest in this order."""

KINDS = {
    "python": PYTHON,
    "annotation": ANNOTATION,
    "operator": OPERATOR,
    "other": OTHER,
    "overhead": OTHER,
    "runtime": RUNTIME,
}

(
    NO_ROLE,
    STEP,
    DATALOADER,
    COMMUNICATION,
    OPTIMIZER,
    ZERO_GRAD,
    BACKWARD,
    MODULE,
    LAUNCH,
    GRAPH_LAUNCH,
    COPY,
    FILL,
    SYNCHRONIZE,
    ALLOCATE,
    PROGRAM,
    CAPTURE_START,
    CAPTURE_END,
) = range(17)

ROLES = {
    "step": STEP,
    "dataloader": DATALOADER,
    "communication": COMMUNICATION,
    "optimizer": OPTIMIZER,
    "zero_grad": ZERO_GRAD,
    "backward": BACKWARD,
    "module": MODULE,
    "launch": LAUNCH,
    "graph_launch": GRAPH_LAUNCH,
    "copy": COPY,
    "fill": FILL,
    "synchronize": SYNCHRONIZE,
    "allocate": ALLOCATE,
    "program": PROGRAM,
    "capture_begin": CAPTURE_START,
    "capture_end": CAPTURE_END,
}

NOWHERE = -1
"""The position for no event."""


@dataclass(slots=True)
class Host:
    """Host events, nested. Arrays have one entry per position of `nesting`, not per row of the table.

    `start` and `end` are the recorded times (ns).
    """

    table: pa.Table
    nesting: Nesting
    kind: NDArray[np.int8]
    role: NDArray[np.int8]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    thread_start: NDArray[np.int64] = field(init=False)
    thread_number: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        """Finds where each thread starts."""
        thread = small_numbers(self.table, "thread", missing=0)[self.nesting.row]
        starts = np.flatnonzero(run_starts(thread))
        self.thread_start = np.append(starts, len(thread))
        self.thread_number = thread[starts].astype(np.int64)

    def __len__(self) -> int:
        """The number of events."""
        return len(self.nesting)

    def rows(self, positions: NDArray[np.int32]) -> NDArray[np.int32]:
        """The rows at these positions; -1 for nowhere."""
        if not len(self):
            return np.full(len(positions), NOWHERE, dtype=np.int32)
        return np.where(positions >= 0, self.nesting.row[positions], NOWHERE)

    def positions(self) -> NDArray[np.int32]:
        """The position of each row."""
        position = np.empty(len(self), dtype=np.int32)
        position[self.nesting.row] = np.arange(len(self), dtype=np.int32)
        return position

    def thread_of(self, positions: NDArray[np.int32]) -> NDArray[np.int64]:
        """The number of the thread at each position."""
        place = np.searchsorted(self.thread_start, positions, side="right") - 1
        return self.thread_number[place]

    def numbers(self, name: str, *, missing: int = 0) -> NDArray[np.int64]:
        """An integer column of the table, in the order of the positions."""
        return numbers(self.table, name, missing=missing)[self.nesting.row]

    def climb(self, positions: NDArray[np.int32], chosen: NDArray[np.bool_]) -> NDArray[np.int32]:
        """The nearest position at or above each one for which `wanted` is set, or -1."""
        return climb(positions.astype(np.int32), self.nesting.parent, lambda _, at: chosen[at])

    def operators_at(self, positions: NDArray[np.int32]) -> NDArray[np.int32]:
        """The innermost operator at or above each position, or -1."""
        return self.climb(positions, self.kind == OPERATOR)

    def innermost(self, thread: NDArray[np.int64], time: NDArray[np.int64]) -> NDArray[np.int32]:
        """Position of the innermost event of a thread at a time, or -1."""
        position = np.full(len(time), NOWHERE, dtype=np.int32)
        for number, low, high in zip(self.thread_number, self.thread_start[:-1], self.thread_start[1:], strict=True):
            rows = np.flatnonzero(thread == number)
            place = np.searchsorted(self.start[low:high], time[rows], side="right") - 1
            position[rows] = np.where(place >= 0, place + low, NOWHERE)
        return climb(position, self.nesting.parent, lambda which, at: self.end[at] >= time[which])


def nest_host(table: pa.Table, *, resolution_ns: int) -> Host:
    """Nests the host events of a recording."""
    # No name keeps the arguments alive: nesting frees them as it goes, which matters for millions of events.
    nesting = nest(
        small_numbers(table, "thread", missing=0),
        spill(times(table, "start_ns")),
        spill(times(table, "dur_ns")),
        codes(table, "kind", KINDS, missing=OTHER),
        resolution_ns=resolution_ns,
    )
    row = nesting.row
    start = times(table, "start_ns")[row]
    end = times(table, "dur_ns")[row]
    end += start
    kind = codes(table, "kind", KINDS, missing=OTHER)[row]
    role = codes(table, "role", ROLES, missing=NO_ROLE)[row]
    return Host(table, nesting, spill(kind), spill(role), spill(start), spill(end))
