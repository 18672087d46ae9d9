"""How much device work each host event launched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.formats.nesting import Forest, climb
from stepscope.link.device import Device
from stepscope.link.host import ANNOTATION, OPERATOR, RUNTIME, Host
from stepscope.schema.arrays import Int32s

NOT_MEASURED = -1
"""The value for an event that launched nothing."""


@dataclass(slots=True)
class DeviceTime:
    """Summed durations of device work by position (ns), NOT_MEASURED if there is none.

    `total` counts what was launched in an event or below it, `self_time` what no operator or range below it launched. A
    runtime call owns what it launched, and so does the Python frame that called it, besides the operator or range
    around them.
    """

    total: NDArray[np.int64]
    self_time: NDArray[np.int64]


def sum_device_time(host: Host, device: Device, launch: Int32s, operator: Int32s) -> DeviceTime:
    """Sums the durations of device work over the host events that launched it.

    Work without a known launch counts for its operator, if that is known.
    """
    origin = np.where(launch >= 0, launch, operator)
    linked = np.flatnonzero(device.work & (origin >= 0))
    return summed_up(
        host.nesting,
        origin[linked],
        device.dur[linked],
        is_call=host.kind == RUNTIME,
        is_range=(host.kind == OPERATOR) | (host.kind == ANNOTATION),
    )


def summed_up(
    events: Forest,
    origin: NDArray[Any],
    duration: NDArray[np.int64],
    *,
    is_call: NDArray[np.bool_],
    is_range: NDArray[np.bool_],
) -> DeviceTime:
    """Sums durations of device work (ns) over the host events that enclose its `origin`; calls and ranges are marked."""

    def up(at: NDArray[Any], chosen: NDArray[np.bool_]) -> Int32s:
        return climb(at.astype(np.int32), events.parent, lambda _, place: chosen[place])

    launched = np.zeros(len(is_call), dtype=np.int64)
    has = np.zeros(len(is_call), dtype=bool)
    np.add.at(launched, origin, duration)
    has[origin] = True
    self_time = np.where(has, launched, NOT_MEASURED)
    calls = np.flatnonzero(has & is_call)
    caller = up(events.parent[calls], ~is_call)
    _add(self_time, caller, launched[calls])
    deeper = np.flatnonzero(caller >= 0)
    deeper = deeper[~is_range[caller[deeper]]]
    _add(self_time, up(caller[deeper], is_range), launched[calls[deeper]])
    total = events.sum_up(launched)
    events.spread_up(has)
    total[~has] = NOT_MEASURED
    return DeviceTime(total, self_time)


def _add(sums: NDArray[np.int64], position: Int32s, values: NDArray[np.int64]) -> None:
    position, values = position[position >= 0], values[position >= 0]
    sums[position] = np.maximum(sums[position], 0)
    np.add.at(sums, position, values)
