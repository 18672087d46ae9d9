"""The graph under construction: nodes are moments, edges are dependencies."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from stepscope.analysis.recording import Array


class NodeKind(IntEnum):
    """What a node is the moment of."""

    HOST = 0  # a moment of a host thread
    WORK = 1  # the start of device work
    LAST_ARRIVAL = 2  # the last rank arrives at a collective
    COLLECTIVE_END = 3  # a rank has done its part in a collective


class EdgeKind(IntEnum):
    """Why a moment depends on an earlier one."""

    THREAD = 0  # program order of a thread
    WAKE = 1  # another thread woke this one
    LOADER = 2  # the loader prepares one batch after the other
    QUEUE = 3  # a launch waits until the stream's queue has room
    LAUNCH = 4  # work starts after its launch
    STREAM = 5  # work follows on its stream
    EVENT_WAIT = 6  # a stream waits for an event of another
    INFERRED_WAIT = 7  # work starts just after other work ended; no wait is recorded
    SYNC = 8  # a call returns when the device is done
    ARRIVAL = 9  # a rank arrives at a collective
    TRANSFER = 10  # a collective runs after the last arrival
    LOCAL = 11  # a collective takes its recorded duration: the clocks do not show who arrived last


_NODE = (np.int64, np.int64, np.int8, np.int32, np.int64)
_EDGE = (np.int64, np.int64, np.int64, np.bool_, np.int8)


def _no_rows(types: tuple[type, ...]) -> list[list[Array]]:
    return [[np.zeros(0, dtype) for dtype in types]]


@dataclass(slots=True)
class GraphBuilder:
    """Growing columns of nodes (time, duration, kind, recording, place) and edges (source, target, lag, over, kind)."""

    node_columns: list[list[Array]] = field(default_factory=lambda: _no_rows(_NODE))
    edge_columns: list[list[Array]] = field(default_factory=lambda: _no_rows(_EDGE))
    size: int = 0

    def nodes(self, kind: int, recording: int, times: Array, places: Array, durations: Array | int = 0) -> Array:
        """Adds nodes; `places` is a host moment's thread, else a row of the recording's work. Returns their numbers."""
        self.node_columns.append(_columns(len(times), _NODE, times, durations, kind, recording, places))
        self.size += len(times)
        return np.arange(self.size - len(times), self.size)

    def edges(self, kind: int, sources: Array, targets: Array, lags: Array | int, *, over: bool = False) -> None:
        """Adds edges: a target is at least `lags` after its source, or, with `over`, after the end of the source's
        work."""
        self.edge_columns.append(_columns(len(sources), _EDGE, sources, targets, lags, over, kind))


def _columns(count: int, types: tuple[type, ...], *values: Array | int) -> list[Array]:
    return [np.broadcast_to(np.asarray(value, dtype), count) for value, dtype in zip(values, types, strict=True)]
