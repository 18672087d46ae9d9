"""Kernels, copies, fills, waits and devices of a database of nvprof as canonical rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from stepscope.formats import vocabulary
from stepscope.formats.demangle import demangled
from stepscope.formats.sqlite import Database
from stepscope.formats.tables import ReadReport

Row = dict[str, Any]

_KERNELS = ("CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL", "CUPTI_ACTIVITY_KIND_KERNEL")
_COPIES = ("CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMCPY2")

_COPY_KINDS = {
    1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD",
    9: "HtoH", 10: "PtoP",
}  # fmt: skip
_MEMORY_KINDS = {
    1: "Pageable", 2: "Pinned", 3: "Device", 4: "Array", 5: "Managed", 6: "Device Static",
    7: "Managed Static",
}  # fmt: skip
_WAITS = {1: "Event Sync", 2: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync"}

LATEST_NS = 1 << 62
NAMELESS = "(kernel without a name)"


def device_events(database: Database, report: ReadReport) -> list[Row]:
    """Everything that ran on a stream, with the times as recorded (`start_ns`, `dur_ns`)."""
    processors = {row["device"]: row for row in devices(database)}
    rows: list[Row] = []
    for table in _KERNELS:
        rows += _kernels(database, table, processors)
    for table in _COPIES:
        rows += _copies(database, table)
    rows += _fills(database)
    rows += _waits(database)
    kept = [row for row in rows if row["start_ns"] is not None]
    kept = [row for row in kept if 0 <= row["start_ns"] < LATEST_NS]
    lost = len(rows) - len(kept)
    if lost:
        report.note("no_time", count=lost)
        report.dropped += lost
    for row in kept:
        end = row.pop("end_ns")
        # A start without an end, or an end before it: nothing says how long it took.
        if end is None or not row["start_ns"] <= end < LATEST_NS:
            report.note("negative_duration")
            report.repaired += 1
            end = row["start_ns"]
        row["dur_ns"] = end - row["start_ns"]
    return kept


def devices(database: Database) -> list[Row]:
    """The devices that the process could see, one row each."""
    columns = (
        "id", "name", "numMultiprocessors", "globalMemorySize", "computeCapabilityMajor",
        "computeCapabilityMinor", "numThreadsPerWarp", "maxWarpsPerMultiprocessor",
        "maxThreadsPerBlock", "maxRegistersPerMultiprocessor", "maxSharedMemoryPerMultiprocessor",
    )  # fmt: skip
    found: dict[int, Row] = {}
    for row in database.rows("CUPTI_ACTIVITY_KIND_DEVICE", columns):
        number, name, sms, memory, major, minor, warp, warps, threads, registers, shared = row
        if _small(number) is None:
            continue
        resident = warp * warps if _small(warp) and _small(warps) else None
        found[number] = {
            "device": number,
            "kind": "cuda",
            "name": database.string(name) or None,
            "used": False,
            "sm_count": _small(sms),
            "memory_bytes": memory,
            "compute_major": _small(major),
            "compute_minor": _small(minor),
            "max_threads_per_sm": _small(resident),
            "max_threads_per_block": _small(threads),
            "registers_per_sm": _small(registers),
            "shared_memory_per_sm_bytes": shared,
            "warp_size": _small(warp),
        }
    return [found[number] for number in sorted(found)]


def _small(value: int | None) -> int | None:
    """A value that fits 32 bits and is not negative, else None."""
    return value if value is not None and 0 <= value < 1 << 31 else None


def _volume(sizes: list[int | None]) -> int | None:
    known = [size for size in sizes if size is not None]
    return math.prod(known) if len(known) == len(sizes) else None


def _events(
    database: Database, table: str, category: str, columns: tuple[str, ...] = ()
) -> Iterator[tuple[Row, list[Any]]]:
    """What all that runs on a stream has, and the values of further columns."""
    shared = ("start", "end", "deviceId", "streamId", "contextId", "correlationId")
    for values in database.rows(table, shared + columns):
        start, end, device, stream, context, correlation, *others = values
        row = {
            "category": category,
            "kind": vocabulary.CATEGORIES[category].kind,
            "start_ns": start,
            "end_ns": end,
            "device": _small(device) or 0,
            "stream": -1 if stream is None else stream,
            "correlation": correlation,
            "context": context,
        }
        yield row, others


def _kernels(database: Database, table: str, processors: dict[int, Row]) -> Iterator[Row]:
    columns = (
        "name", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ",
        "registersPerThread", "staticSharedMemory", "dynamicSharedMemory",
    )  # fmt: skip
    for row, (name, *launch) in _events(database, table, "kernel", columns):
        grid, block = [_small(v) for v in launch[:3]], [_small(v) for v in launch[3:6]]
        registers, fixed, dynamic = launch[6:]
        spelled = demangled(database.string(name)) or NAMELESS
        row |= {
            "kind": vocabulary.device_kind("computation", spelled),
            "name": spelled,
            "registers_per_thread": _small(registers),
            "shared_memory_bytes": None if fixed is None and dynamic is None
            else (fixed or 0) + (dynamic or 0),
            "dynamic_shared_memory_bytes": dynamic,
        }  # fmt: skip
        for axis, blocks, threads in zip("xyz", grid, block, strict=True):
            row[f"grid_{axis}"], row[f"block_{axis}"] = blocks, threads
        processor = processors.get(row["device"], {})
        blocks_per_grid, threads_per_block = _volume(grid), _volume(block)
        if processor.get("sm_count") and blocks_per_grid is not None:
            row["blocks_per_sm"] = blocks_per_grid / processor["sm_count"]
            if processor["warp_size"] and threads_per_block is not None:
                warps = -(-threads_per_block // processor["warp_size"])
                row["warps_per_sm"] = row["blocks_per_sm"] * warps
        yield row


def _copies(database: Database, table: str) -> Iterator[Row]:
    columns = ("bytes", "copyKind", "srcKind", "dstKind")
    for row, (size, kind, *ends) in _events(database, table, "gpu_memcpy", columns):
        source, target = (_MEMORY_KINDS.get(memory, "Unknown") for memory in ends)
        named = copy_names(_COPY_KINDS.get(kind, "unknown"), source, target)
        yield row | named | {"bytes": size}


def copy_names(direction: str, source: str, target: str) -> Row:
    """What a copy is called, and what follows from its name."""
    name = f"Memcpy {direction} ({source} -> {target})"
    return {
        "name": name,
        "copy_kind": direction,
        "memory_kind": vocabulary.memory_kind(name),
        "source_memory": source.lower(),
        "destination_memory": target.lower(),
    }


def fill_names(target: str) -> Row:
    """What a fill is called."""
    return {"name": f"Memset ({target})", "destination_memory": target.lower()}


def _fills(database: Database) -> Iterator[Row]:
    columns = ("bytes", "memoryKind")
    for row, (size, memory) in _events(
        database, "CUPTI_ACTIVITY_KIND_MEMSET", "gpu_memset", columns
    ):
        yield row | fill_names(_MEMORY_KINDS.get(memory, "Device")) | {"bytes": size}


def _waits(database: Database) -> Iterator[Row]:
    device_of = dict(database.rows("CUPTI_ACTIVITY_KIND_CONTEXT", ("contextId", "deviceId")))
    table = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
    for row, (kind,) in _events(database, table, "cuda_sync", ("type",)):
        device = _small(device_of.get(row["context"])) or 0
        name = _WAITS.get(kind, "Sync")
        yield row | {"name": name, "role": vocabulary.wait_role("sync", name), "device": device}
