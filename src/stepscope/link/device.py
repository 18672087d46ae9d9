"""The device events of a recording as arrays, in the order of the table, with impossible durations corrected."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stepscope.formats.consecutive import run_starts
from stepscope.link.columns import codes, numbers, small_numbers, times

NO_WORK, COMPUTATION, COMMUNICATION, COPY, FILL = range(5)

KINDS = {"computation": COMPUTATION, "communication": COMMUNICATION, "copy": COPY, "fill": FILL}


@dataclass(slots=True)
class Device:
    """Device events. Times in ns; `correlation` and `external_id` are 0 if a row has none."""

    table: pa.Table
    kind: NDArray[np.int8]
    device: NDArray[np.int32]
    stream: NDArray[np.int64]
    start: NDArray[np.int64]
    dur: NDArray[np.int64]
    correlation: NDArray[np.int64]
    external_id: NDArray[np.int64]

    def __len__(self) -> int:
        """The number of events."""
        return len(self.kind)

    @property
    def work(self) -> NDArray[np.bool_]:
        """Which rows are kernels, copies and fills."""
        return self.kind != NO_WORK


def read_device(table: pa.Table) -> Device:
    """The device events of a recording."""
    correlation = numbers(table, "correlation")
    external_id = numbers(table, "external_id")
    # Some versions write the correlation under both names. Then it does not identify an operator.
    both = (correlation > 0) & (external_id > 0)
    if both.any() and (correlation[both] == external_id[both]).all():
        external_id[both] = 0
    return Device(
        table=table,
        kind=codes(table, "kind", KINDS, missing=NO_WORK),
        device=small_numbers(table, "device"),
        stream=numbers(table, "stream", missing=-1),
        start=times(table, "start_ns"),
        dur=times(table, "dur_ns"),
        correlation=correlation,
        external_id=external_id,
    )


_WITHIN = 3
_LOOK_AHEAD = 12
_LONG_NS = 1_000_000_000
_MAX_SHARE = 0.1


def clip_overruns(device: Device) -> NDArray[np.int64]:
    """Clips impossible durations in place; returns the recorded duration of each clipped row, -1 for all others.

    Some recorders give a few of tens of thousands of rows an end long after later work of the same stream has started
    and ended (Hyperloom pull request 1116, TraceLens issue 669). Such a row is cut to the start of the next event.

    Work of one stream may overlap for good reasons: programmatic dependent launch, nodes of one graph replay, copies
    between devices, rows without a known stream. So a row is an overrun only if later events of other launches are
    entirely within it, three of them, or one if the row is longer than a second; and only if at most one row in ten of
    the stream is one, because otherwise the stream is not a real one.
    """
    raw = np.full(len(device), -1, dtype=np.int64)
    rows = np.flatnonzero(device.work & (device.stream >= 0) & (device.dur > 0))
    if len(rows) < 2:
        return raw
    rows = rows[np.lexsort((-device.dur[rows], device.start[rows], device.stream[rows], device.device[rows]))]
    start = device.start[rows]
    end = start + device.dur[rows]
    stream = np.cumsum(run_starts(device.stream[rows], device.device[rows])) - 1
    correlation = device.correlation[rows]
    within = np.zeros(len(rows), dtype=np.int64)
    following = np.full(len(rows), -1, dtype=np.int64)
    for ahead in range(1, min(_LOOK_AHEAD, len(rows) - 1) + 1):
        later = (stream[ahead:] == stream[:-ahead]) & (start[ahead:] > start[:-ahead])
        next_start = following[:-ahead]
        next_start[later & (next_start < 0)] = start[ahead:][later & (next_start < 0)]
        other = (correlation[ahead:] != correlation[:-ahead]) | (correlation[ahead:] == 0)
        within[:-ahead] += later & other & (end[ahead:] <= end[:-ahead])
    long = end - start >= _LONG_NS
    overrun = (following >= 0) & ((within >= _WITHIN) | (long & (within >= 1)))
    per_stream = np.bincount(stream)
    share = np.bincount(stream, weights=overrun) / per_stream
    overrun &= (share[stream] <= _MAX_SHARE) | long
    clipped = np.flatnonzero(overrun)
    raw[rows[clipped]] = device.dur[rows[clipped]]
    device.dur[rows[clipped]] = following[clipped] - start[clipped]
    return raw
