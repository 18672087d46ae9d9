"""Corrects impossible durations of device events.

For a few rows of tens of thousands, some recorders write an end long after later work of the same stream has started
and ended (Hyperloom pull request 1116, TraceLens issue 669). A stream runs its work in order, so such a row is cut to
the start of the next event.

Work of one stream may overlap for good reasons, which must stay as it is: the next kernel may start before the last one
ends (programmatic dependent launch), the nodes of one graph replay share a launch, a copy between devices may run
beside a kernel, rows without a known stream mix several. So a row counts as overrun only if later events of other
launches are entirely within it: three of them, or one if the row is longer than a second; and only if at most one row
in ten of the stream does so, because otherwise the stream is not a real one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stepscope.formats.consecutive import run_starts
from stepscope.link.device import Device

_WITHIN = 3
_LOOK_AHEAD = 12
_LONG_NS = 1_000_000_000
_MAX_SHARE = 0.1


def clip_overruns(device: Device) -> NDArray[np.int64]:
    """Clips impossible durations of `device` in place.

    Returns:
        the recorded duration of each row that was clipped, -1 for all others.
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
