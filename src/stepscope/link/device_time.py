"""How much device work each host event launched."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stepscope.link.device import Device
from stepscope.link.host import ANNOTATION, OPERATOR, RUNTIME, Host

Int32s = NDArray[np.int32]

NOT_MEASURED = -1
"""Stands for: launched nothing."""


@dataclass(slots=True)
class DeviceTime:
    """Summed durations of device work by position (ns), NOT_MEASURED where there is none.

    `total` counts what was launched in an event or below it, `own` what no operator or range below
    it launched. A runtime call owns what it launched, and so does the Python frame that called it,
    beside the operator or range around them.
    """

    total: NDArray[np.int64]
    own: NDArray[np.int64]


def sum_device_time(host: Host, device: Device, launch: Int32s, operator: Int32s) -> DeviceTime:
    """Sums the durations of device work over the host events that launched it.

    Work without a known launch counts for its operator, where that is known.
    """
    launched = np.zeros(len(host), dtype=np.int64)
    has = np.zeros(len(host), dtype=bool)
    origin = np.where(launch >= 0, launch, operator)
    linked = np.flatnonzero(device.work & (origin >= 0))
    np.add.at(launched, origin[linked], device.dur[linked])
    has[origin[linked]] = True
    place = np.flatnonzero(has)
    own = np.full(len(host), NOT_MEASURED, dtype=np.int64)
    own[place] = launched[place]
    calls = place[host.kind[place] == RUNTIME]
    caller = host.climb(host.nesting.parent[calls], host.kind != RUNTIME)
    _add(own, caller, launched[calls])
    is_range = (host.kind == OPERATOR) | (host.kind == ANNOTATION)
    deeper = np.flatnonzero(caller >= 0)
    deeper = deeper[~is_range[caller[deeper]]]
    _add(own, host.climb(caller[deeper], is_range), launched[calls[deeper]])
    total = host.nesting.sum_up(launched)
    host.nesting.spread_up(has)
    total[~has] = NOT_MEASURED
    return DeviceTime(total, own)


def _add(sums: NDArray[np.int64], position: Int32s, values: NDArray[np.int64]) -> None:
    position, values = position[position >= 0], values[position >= 0]
    sums[position] = np.maximum(sums[position], 0)
    np.add.at(sums, position, values)
