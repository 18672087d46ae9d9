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


@dataclass(slots=True)
class GraphBuilder:
    """Growing columns of nodes and edges."""

    times: list[Array] = field(default_factory=list)
    durations: list[Array] = field(default_factory=list)
    kinds: list[Array] = field(default_factory=list)
    recordings: list[Array] = field(default_factory=list)
    places: list[Array] = field(default_factory=list)
    sources: list[Array] = field(default_factory=list)
    targets: list[Array] = field(default_factory=list)
    lags: list[Array] = field(default_factory=list)
    overs: list[Array] = field(default_factory=list)
    whys: list[Array] = field(default_factory=list)
    size: int = 0

    def nodes(self, kind: int, recording: int, times: Array, places: Array, durations: Array | int = 0) -> Array:
        """Adds nodes; `places` is a host moment's thread, else a row of the recording's work. Returns their numbers."""
        count = len(times)
        self.times.append(np.asarray(times, np.int64))
        self.places.append(np.asarray(places, np.int64))
        self.durations.append(np.broadcast_to(np.asarray(durations, np.int64), count))
        self.kinds.append(np.full(count, kind, np.int8))
        self.recordings.append(np.full(count, recording, np.int32))
        self.size += count
        return np.arange(self.size - count, self.size)

    def edges(self, why: int, sources: Array, targets: Array, lags: Array | int, *, over: bool = False) -> None:
        """Adds edges: a target is at least `lags` after its source, or, with `over`, after the end of the source's
        work."""
        count = len(sources)
        self.sources.append(np.asarray(sources, np.int64))
        self.targets.append(np.asarray(targets, np.int64))
        self.lags.append(np.broadcast_to(np.asarray(lags, np.int64), count))
        self.overs.append(np.full(count, over, bool))
        self.whys.append(np.full(count, why, np.int8))
