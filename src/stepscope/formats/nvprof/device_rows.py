"""Kernels, copies, fills, waits and devices of a database of nvprof as canonical rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from stepscope.formats.cupti.device_rows import (
    Recorded,
    device_of_context,
    device_row,
    on_streams,
    small_number,
)
from stepscope.formats.sqlite import Database
from stepscope.formats.tables import ReadReport, canonical

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
    known = devices(database)
    parts = [recorded.kernels(table, ("name",), known) for table in KERNELS]
    parts += [recorded.copies(table, _MEMORY_KINDS) for table in _COPIES]
    parts.append(recorded.fills(f"{_KIND}MEMSET", "memoryKind", _MEMORY_KINDS))
    stated = database.rows(f"{_KIND}CONTEXT", ("contextId", "deviceId"))
    device_of = device_of_context(stated, parts)
    parts.append(recorded.waits(f"{_KIND}SYNCHRONIZATION", "type", device_of))
    return canonical(on_streams(parts, report), "device_event")


def devices(database: Database) -> list[Row]:
    """The devices that the process could see, one row each."""
    columns = (
        "id", "name", "numMultiprocessors", "globalMemorySize", "computeCapabilityMajor",
        "computeCapabilityMinor", "numThreadsPerWarp", "maxWarpsPerMultiprocessor",
        "maxThreadsPerBlock", "maxRegistersPerMultiprocessor", "maxSharedMemoryPerMultiprocessor",
    )  # fmt: skip
    found: dict[int, Row] = {}
    for number, name, sms, memory, *rest in database.rows(f"{_KIND}DEVICE", columns):
        if small_number(number) is not None:
            stated = device_row(database.string(name), sms, memory, (rest[0], rest[1]), *rest[2:])
            found[number] = {"device": number} | stated
    return [found[number] for number in sorted(found)]
