"""Kernels, copies, fills, waits and devices of a database of nvprof as canonical rows."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from stepscope.formats.bounded import INT32, integer
from stepscope.formats.cupti.columns import LATEST_NS
from stepscope.formats.cupti.device_rows import Recorded, device_of_context, device_row, on_streams
from stepscope.formats.sqlite import Database
from stepscope.formats.tables import canonical
from stepscope.plugin import ReadReport

Row = dict[str, Any]

_KIND = "CUPTI_ACTIVITY_KIND_"
KERNELS = (f"{_KIND}CONCURRENT_KERNEL", f"{_KIND}KERNEL")
_COPIES = (f"{_KIND}MEMCPY", f"{_KIND}MEMCPY2")
_MEMORY_KINDS = {
    1: "Pageable", 2: "Pinned", 3: "Device", 4: "Array", 5: "Managed", 6: "Device Static",
    7: "Managed Static",
}  # fmt: skip


def device_events(database: Database, report: ReadReport) -> pa.Table:
    """Everything that ran on a stream, with the times as recorded."""
    recorded = Recorded(database)
    listed_devices = devices(database)
    parts = [recorded.kernels(table, ("name",), listed_devices) for table in KERNELS]
    parts += [recorded.copies(table, _MEMORY_KINDS) for table in _COPIES]
    parts.append(recorded.fills(f"{_KIND}MEMSET", "memoryKind", _MEMORY_KINDS))
    stated = database.rows(f"{_KIND}CONTEXT", ("contextId", "deviceId"))
    device_of = device_of_context(stated, parts)
    parts.append(recorded.waits(f"{_KIND}SYNCHRONIZATION", "type", device_of))
    return canonical(on_streams(parts, device_of, report), "device_event")


def devices(database: Database, report: ReadReport | None = None) -> list[Row]:
    """The devices that the process could see, one row each."""
    columns = (
        "id", "name", "numMultiprocessors", "globalMemorySize", "computeCapabilityMajor",
        "computeCapabilityMinor", "numThreadsPerWarp", "maxWarpsPerMultiprocessor",
        "maxThreadsPerBlock", "maxRegistersPerMultiprocessor", "maxSharedMemoryPerMultiprocessor",
    )  # fmt: skip
    rows: dict[int, Row] = {}
    for number, name, sms, memory, *capabilities in database.rows(f"{_KIND}DEVICE", columns):
        if integer(number, report, below=INT32) is not None:
            stated = device_row(
                database.string(name), sms, memory, (capabilities[0], capabilities[1]), *capabilities[2:], report=report
            )
            rows[number] = {"device": number} | stated
    return [rows[number] for number in sorted(rows)]


_SERIES: dict[int, tuple[tuple[str, str, str, int], ...]] = {
    1: (("SM Clock", "clock", "Hz", 10**6), ("Memory Clock", "memory_clock", "Hz", 10**6)),
    2: (("Temperature", "temperature", "°C", 1),),
    3: (("Power", "power", "mW", 1),),
    4: (("Fan", "fan", "%", 1),),
}
"""By the kind of a sample the meaning of its first numbers, in order, under nvprof's names: kind, unit, scale.
Source: `CUpti_ActivityEnvironment`."""


def samples(database: Database) -> Iterator[Row]:
    """Rows of table `counter`, with the times as recorded: clocks, temperature, power and fans, which
    `nvprof --system-profiling on` samples.
    """
    columns = ("deviceId", "timestamp", "environmentKind", "data")
    for device, time, kind, data in database.rows(f"{_KIND}ENVIRONMENT", columns, data="blob"):
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
