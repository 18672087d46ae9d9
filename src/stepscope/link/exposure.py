"""How long each collective ran while its device computed nothing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stepscope.link.intervals import covered, union
from stepscope.schema.arrays import Int64s


def exposed(
    start: Int64s,
    end: Int64s,
    device: NDArray[np.integer],
    busy_start: Int64s,
    busy_end: Int64s,
    busy_device: NDArray[np.integer],
) -> Int64s:
    """How long each collective ran while its device computed nothing (ns).

    If several run at once on a device, the time goes to the one that started first, so that the sum over a device's
    collectives is the time in which any of them ran and nothing computed.

    Args:
        start, end, device: of the collectives (ns, index).
        busy_start, busy_end, busy_device: of the kernels and fills that compute.
    """
    result = np.zeros(len(start), np.int64)
    for index in np.unique(device).tolist():
        rows = np.flatnonzero(device == index)
        rows = rows[np.argsort(start[rows], kind="stable")]
        before = np.concatenate([start[rows][:1], np.maximum.accumulate(end[rows])[:-1]])
        device_start = np.maximum(start[rows], before)
        device_end = np.maximum(end[rows], device_start)
        device_rows = busy_device == index
        hidden = covered(union(busy_start[device_rows], busy_end[device_rows]), device_start, device_end)
        result[rows] = device_end - device_start - hidden
    return result
