"""Assigns each moment of a step to exactly one device event, so that events add up to the step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.analysis.recording import COMMUNICATION, COMPUTATION, COPY, FILL, Array, Columns
from stepscope.link.intervals import Intervals, covered, overlapping, union
from stepscope.schema.arrays import Int64s

PRECEDENCE = (COMPUTATION, COPY, FILL, COMMUNICATION)
"""The order in which kinds of work take a moment, as in `breakdown`."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Events' shares of windows, a row per event and window with time in common: indices, and the ns assigned to the
    event."""

    row: Array
    window: Array
    ns: Int64s


def exclusive_shares(work: Columns, window_start: Array, window_end: Array) -> Shares:
    """Assigns every moment of a device's work to one event: the first kind in `PRECEDENCE`, then the earliest start.

    Sums by kind are those of the step's breakdown. Windows are in order and do not overlap (ns).
    """
    taken = Intervals(*np.zeros((2, 0), np.int64))
    shares: list[tuple[Array, Array, Int64s]] = []
    for kind in PRECEDENCE:
        rows = np.flatnonzero(work["work"] == kind)
        rows = rows[np.argsort(work["start_ns"][rows], kind="stable")]
        start, end = _not_yet_running(work["start_ns"][rows], work["end_ns"][rows])
        piece, window = overlapping(start, end, window_start, window_end)
        low = np.maximum(start[piece], window_start[window])
        high = np.minimum(end[piece], window_end[window])
        ns = high - low - covered(taken, low, high)
        shares.append((rows[piece], window, ns))
        taken = union(
            np.concatenate([taken.start, work["start_ns"][rows]]), np.concatenate([taken.end, work["end_ns"][rows]])
        )
    row, window, ns = (np.concatenate(parts) for parts in zip(*shares, strict=True))
    return Shares(row, window, ns)


def _not_yet_running(start: Array, end: Array) -> tuple[Array, Array]:
    """The part of each interval during which no earlier-started one runs; ordered by start."""
    if not len(start):
        return start, end
    reach = np.maximum.accumulate(end)
    low = start.copy()
    low[1:] = np.maximum(start[1:], reach[:-1])
    return low, np.maximum(end, low)
