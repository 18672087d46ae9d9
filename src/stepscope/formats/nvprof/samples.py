"""Clocks, temperature, power and fans of devices, which `nvprof --system-profiling on` samples."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from stepscope.formats.cupti.columns import LATEST_NS
from stepscope.formats.sqlite import Database

Row = dict[str, Any]

_TABLE = "CUPTI_ACTIVITY_KIND_ENVIRONMENT"
_SERIES: dict[int, tuple[tuple[str, str, str, int], ...]] = {
    1: (("SM Clock", "clock", "Hz", 10**6), ("Memory Clock", "memory_clock", "Hz", 10**6)),
    2: (("Temperature", "temperature", "°C", 1),),
    3: (("Power", "power", "mW", 1),),
    4: (("Fan", "fan", "%", 1),),
}
"""By the kind of a sample what its first numbers are, in order, as nvprof calls them: kind, unit, scale.
Source: `CUpti_ActivityEnvironment`."""


def samples(database: Database) -> Iterator[Row]:
    """Rows of table `counter`, with the times as recorded."""
    columns = ("deviceId", "timestamp", "environmentKind", "data")
    for device, time, kind, data in database.rows(_TABLE, columns, data="blob"):
        series = _SERIES.get(kind, ())
        if time is None or not 0 <= time < LATEST_NS or device is None or data is None:
            continue
        for (name, meant, unit, scale), at in zip(series, range(0, len(data) - 3, 4), strict=False):
            (value,) = struct.unpack_from("<I", data, at)
            yield {
                "track": "device metrics",
                "series": name,
                "kind": meant,
                "unit": unit,
                "pid": str(device),
                "time_ns": time,
                "value": float(value * scale),
            }
