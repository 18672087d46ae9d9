"""The graph under construction: nodes are moments, edges are dependencies."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from stepscope.analysis.recording import Array

HOST, WORK, MEETING, LEAVING = range(4)
"""A node is a moment of a host thread, the start of device work, the arrival of the last rank at a collective, or the
end of a rank's part in it."""

(
    THREAD, HANDED, LOADER, QUEUE, LAUNCHED, STREAM, HELD, LIKELY, RETURNED, ARRIVED, TRANSFER, OWN,
) = range(12)  # fmt: skip
"""Why a moment follows another: the thread continued (THREAD), another thread was waited for (HANDED), the loader
prepares one batch after the other, the queue was full, work was launched, follows on its stream, waits for an event, or
starts where other work has just ended (LIKELY: no wait is recorded), a call returns when the device is done; a rank
arrives at a collective, the collective runs after the last arrival, or for a rank's own duration."""


@dataclass(slots=True)
class Net:
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
        """Adds nodes and returns their numbers.

        Args:
            recording: the number of the recording.
            times: when they were (ns).
            places: the thread of a moment of the host; else the row of the recording's work.
            durations: of work that starts there (ns).
        """
        count = len(times)
        self.times.append(np.asarray(times, np.int64))
        self.places.append(np.asarray(places, np.int64))
        self.durations.append(np.broadcast_to(np.asarray(durations, np.int64), count))
        self.kinds.append(np.full(count, kind, np.int8))
        self.recordings.append(np.full(count, recording, np.int32))
        self.size += count
        return np.arange(self.size - count, self.size)

    def edges(self, why: int, sources: Array, targets: Array, lags: Array | int, *, over: bool = False) -> None:
        """Adds edges: a target is at least `lags` after its source, or, with `over`, after the end of the work that
        starts there."""
        count = len(sources)
        self.sources.append(np.asarray(sources, np.int64))
        self.targets.append(np.asarray(targets, np.int64))
        self.lags.append(np.broadcast_to(np.asarray(lags, np.int64), count))
        self.overs.append(np.full(count, over, bool))
        self.whys.append(np.full(count, why, np.int8))
