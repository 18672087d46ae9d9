"""Kernels, graphs, copies, fills, waits and devices of an export as canonical rows."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stepscope.formats import vocabulary
from stepscope.formats.demangle import demangled
from stepscope.formats.nsys.export import (
    COPIES,
    FILLS,
    GRAPHS,
    KERNELS,
    LATEST_NS,
    PAGE_FAULTS,
    WAITS,
    constant,
    distinct_rows,
    enumeration,
    first_named,
    mapped,
    mapped_rows,
    of_process,
    pid_of,
    small,
)
from stepscope.formats.sqlite import Database
from stepscope.formats.tables import ReadReport, canonical

Row = dict[str, Any]

_NO_STREAM = (1 << 32) - 1
_COPY_KINDS = {
    1: "HTOD", 2: "DTOH", 3: "HTOA", 4: "ATOH", 5: "ATOA", 6: "ATOD", 7: "DTOA", 8: "DTOD",
    9: "HTOH", 10: "PTOP", 11: "UVM_HTOD", 12: "UVM_DTOH", 13: "UVM_DTOD",
}  # fmt: skip
_MEMORY_KINDS = {
    0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed", 5: "Device Static",
    6: "Managed Static", 7: "Unknown",
}  # fmt: skip
_WAITS = {1: "Event Sync", 2: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync"}
_SHARED = ("start", "end", "deviceId", "streamId", "contextId", "correlationId", "graphNodeId")


def device_events(database: Database, process: int | None, report: ReadReport) -> pa.Table:
    """Everything that ran on a stream, with the times as recorded."""
    known = {row["device"]: row for row in devices(database, process)}
    parts = [
        _kernels(database, process, known),
        _graphs(database, process),
        _copies(database, process),
        _fills(database, process),
        _page_faults(database, process),
    ]
    parts.append(_waits(database, process, _device_of_context(database, process, parts)))
    table = in_time(pa.concat_tables(parts, promote_options="default"), report)
    priority = _priorities(database, process)
    if priority:
        distinct, rows = distinct_rows({name: table[name] for name in ("context", "stream")})
        found = [priority.get((one["context"], one["stream"])) for one in distinct]
        table = table.append_column("priority", pa.array(found, pa.int64()).take(pa.array(rows)))
    return canonical(table, "device_event")


def devices(database: Database, process: int | None) -> list[Row]:
    """The devices that the process could see, one row each."""
    columns = (
        "id", "name", "smCount", "totalMemory", "computeMajor", "computeMinor", "threadsPerWarp",
        "maxWarpsPerSm", "maxThreadsPerBlock", "maxRegistersPerSm", "maxShmemPerSm",
    )  # fmt: skip
    physical: dict[int, Row] = {}
    for table in ("TARGET_INFO_CUDA_GPU", "TARGET_INFO_GPU"):
        for row in database.rows(table, columns, name="text"):
            number, name, sms, memory, major, minor, warp, warps, threads, registers, shared = row
            if _small(number) is None:
                continue
            resident = warp * warps if _small(warp) and _small(warps) else None
            physical[number] = {
                "kind": "cuda",
                "name": name or None,
                "sm_count": _small(sms) or None,
                "memory_bytes": memory,
                "compute_major": _small(major),
                "compute_minor": _small(minor),
                "max_threads_per_sm": _small(resident),
                "max_threads_per_block": _small(threads),
                "registers_per_sm": _small(registers),
                "shared_memory_per_sm_bytes": shared,
                "warp_size": _small(warp) or None,
            }
    # The device that a process calls 0 is what CUDA_VISIBLE_DEVICES gave it first.
    seen = {
        cuda: gpu
        for gpu, cuda, pid in database.rows("TARGET_INFO_CUDA_DEVICE", ("gpuId", "cudaId", "pid"))
        if _small(cuda) is not None and (process is None or pid is None or pid == pid_of(process))
    }
    numbers = seen or {number: number for number in physical}
    return [
        {"device": cuda} | physical[gpu] for cuda, gpu in sorted(numbers.items()) if gpu in physical
    ]


def _small(value: int | None) -> int | None:
    """A value that fits 32 bits and is not negative, else None."""
    return value if value is not None and 0 <= value < 1 << 31 else None


def in_time(table: pa.Table, report: ReadReport) -> pa.Table:
    """Rows with a time, `start` and `end` as `start_ns` and `dur_ns`; what has none is counted."""
    start, end = table["start"], table["end"]
    timed = pc.and_(pc.greater_equal(start, 0), pc.less(start, LATEST_NS)).fill_null(False)
    lost = table.num_rows - (pc.sum(timed).as_py() or 0)
    if lost:
        report.note("no_time", count=lost)
        report.dropped += lost
        table = table.filter(timed)
        start, end = table["start"], table["end"]
    # A start without an end, or an end before it: nothing says how long it took.
    ended = pc.and_(pc.greater_equal(end, start), pc.less(end, LATEST_NS)).fill_null(False)
    cut = table.num_rows - (pc.sum(ended).as_py() or 0)
    if cut:
        report.note("negative_duration", count=cut)
        report.repaired += cut
        end = pc.if_else(ended, end, start)
    return (
        table.drop_columns(["start", "end"])
        .append_column("start_ns", start)
        .append_column("dur_ns", pc.subtract(end, start))
    )


def _events(
    database: Database,
    table: str,
    process: int | None,
    category: str,
    columns: tuple[str, ...],
    **types: str,
) -> tuple[pa.Table, dict[str, Any]]:
    """The rows of a table, and the columns that all that runs on a stream has."""
    rows = database.columns(table, (*_SHARED, *columns), of_process("globalPid", process), **types)
    stream = rows["streamId"].fill_null(-1)
    node = rows["graphNodeId"]
    made = {
        "start": rows["start"],
        "end": rows["end"],
        "category": constant(category, rows.num_rows),
        "kind": constant(vocabulary.CATEGORIES[category].kind, rows.num_rows),
        "device": small(rows["deviceId"]).fill_null(0),
        "stream": pc.if_else(pc.equal(stream, _NO_STREAM), -1, stream),
        "correlation": rows["correlationId"],
        "context": rows["contextId"],
        "graph_node_id": pc.if_else(pc.equal(node, 0), pa.scalar(None, pa.int64()), node),
    }
    return rows, made


def _kernels(database: Database, process: int | None, known: dict[int, Row]) -> pa.Table:
    sizes = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")
    names = ("demangledName", "shortName", "mangledName")
    rows, made = _events(
        database,
        KERNELS,
        process,
        "kernel",
        (
            *names,
            *sizes,
            "registersPerThread",
            "staticSharedMemory",
            "dynamicSharedMemory",
            "graphId",
        ),
        **dict.fromkeys(names, "name"),
    )
    # Exports differ in which of the names they have; what a symbol says, Nsight does not repeat.
    if rows[names[0]].null_count == 0:
        name = mapped(rows[names[0]], demangled)
    else:
        texts = first_named([rows[one] for one in names], "(kernel without a name)")
        name = mapped(texts, demangled)
    made["name"] = name
    made["kind"] = mapped(name, lambda one: vocabulary.device_kind("computation", one))
    for axis, column in zip(
        ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"), sizes, strict=True
    ):
        made[axis] = small(rows[column])
    made["registers_per_thread"] = small(rows["registersPerThread"])
    made["shared_memory_bytes"] = pc.add(
        rows["staticSharedMemory"].fill_null(0), rows["dynamicSharedMemory"].fill_null(0)
    )
    made["dynamic_shared_memory_bytes"] = rows["dynamicSharedMemory"]
    graph = rows["graphId"]
    made["graph_id"] = pc.if_else(pc.equal(graph, 0), pa.scalar(None, pa.int64()), graph)
    made |= _per_processor(made, known)
    return pa.table(made)


def _per_processor(made: dict[str, Any], known: dict[int, Row]) -> dict[str, pa.Array]:
    """Blocks and warps for each multiprocessor, where the number of these is known."""

    def of_device(key: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        distinct, rows = distinct_rows({"device": made["device"]})
        stated = [known.get(one["device"], {}).get(key) or np.nan for one in distinct]
        values: np.ndarray[Any, np.dtype[np.float64]] = np.array(stated, float)[rows]
        return values

    def product(*axes: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        volume = np.ones(len(made["device"]))
        for axis in axes:
            volume *= made[axis].cast(pa.float64()).to_numpy()
        return volume

    blocks = product("grid_x", "grid_y", "grid_z") / of_device("sm_count")
    warps = blocks * np.ceil(product("block_x", "block_y", "block_z") / of_device("warp_size"))
    return {
        "blocks_per_sm": pa.array(blocks, from_pandas=True),
        "warps_per_sm": pa.array(warps, from_pandas=True),
    }


def _graphs(database: Database, process: int | None) -> pa.Table:
    """One row for a launch of a graph whose nodes were not traced one by one."""
    rows, made = _events(database, GRAPHS, process, "cuda_graph", ("graphId",))
    made["graph_id"] = rows["graphId"]
    made["name"] = mapped(
        rows["graphId"].fill_null(-1), lambda one: "CUDA graph" if one < 0 else f"CUDA graph {one}"
    )
    return pa.table(made)


def _copies(database: Database, process: int | None) -> pa.Table:
    columns = ("bytes", "copyKind", "srcKind", "dstKind")
    rows, made = _events(database, COPIES, process, "gpu_memcpy", columns)
    kinds = enumeration(database, "ENUM_CUDA_MEMCPY_OPER", _COPY_KINDS)
    memories = enumeration(database, "ENUM_CUDA_MEM_KIND", _MEMORY_KINDS, "label")

    def text(row: dict[str, int | None]) -> str:
        kind, *places = (row[name] for name in columns[1:])
        between = ("Unknown" if one is None else memories.get(one, "Unknown") for one in places)
        return "\0".join((_direction("" if kind is None else kinds.get(kind, "")), *between))

    packed = mapped_rows({name: rows[name] for name in columns[1:]}, text)
    made["name"] = mapped(packed, _copy_name)
    made["bytes"] = rows["bytes"]
    made["copy_kind"] = mapped(packed, lambda one: one.partition("\0")[0])
    made["memory_kind"] = mapped(packed, lambda one: vocabulary.memory_kind(_copy_name(one)))
    made["source_memory"] = mapped(packed, lambda one: one.split("\0")[1].lower())
    made["destination_memory"] = mapped(packed, lambda one: one.split("\0")[2].lower())
    return pa.table(made)


def _direction(word: str) -> str:
    """`CUDA_MEMCPY_KIND_UVM_HTOD` → `HtoD`."""
    last = word.rpartition("_")[2]
    return f"{last[0]}to{last[3]}" if len(last) == 4 and last[1:3] == "TO" else "unknown"


def _copy_name(packed: str) -> str:
    direction, source, target = packed.split("\0")
    return f"Memcpy {direction} ({source} -> {target})"


def _fills(database: Database, process: int | None) -> pa.Table:
    rows, made = _events(database, FILLS, process, "gpu_memset", ("bytes", "memKind"))
    memories = enumeration(database, "ENUM_CUDA_MEM_KIND", _MEMORY_KINDS, "label")
    made["name"] = mapped(
        rows["memKind"].fill_null(-1),
        lambda one: f"Memset ({memories[one]})" if one in memories else "Memset",
    )
    made["destination_memory"] = mapped(
        rows["memKind"], lambda one: memories.get(one, "unknown").lower()
    )
    made["bytes"] = rows["bytes"]
    return pa.table(made)


_ACCESS = {1: "read", 2: "write", 3: "atomic", 4: "prefetch"}


def _page_faults(database: Database, process: int | None) -> pa.Table:
    """Faults of unified memory that a device raised; a row may stand for many of one page."""
    rows, made = _events(
        database, PAGE_FAULTS, process, "um_page_fault", ("numberOfPageFaults", "faultAccessType")
    )
    words = enumeration(database, "ENUM_CUDA_UNIF_MEM_ACCESS_TYPE", _ACCESS, "label")

    def arguments(row: dict[str, int | None]) -> str:
        access = words.get(row["faultAccessType"] or 0, "unknown").lower()
        return json.dumps({"faults": row["numberOfPageFaults"], "access": access})

    made["name"] = constant("GPU page fault", rows.num_rows)
    asked = ("numberOfPageFaults", "faultAccessType")
    made["other_args"] = mapped_rows({name: rows[name] for name in asked}, arguments)
    return pa.table(made)


def _waits(database: Database, process: int | None, device_of: dict[int, int]) -> pa.Table:
    """Waits name their context rightly, and 0 for every device."""
    rows, made = _events(database, WAITS, process, "cuda_sync", ("syncType",))
    made["name"] = mapped(rows["syncType"].fill_null(0), lambda one: _WAITS.get(one, "Sync"))
    made["role"] = mapped(made["name"], lambda one: vocabulary.wait_role("sync", one))
    distinct, which = distinct_rows({name: made[name] for name in ("context", "device")})
    found = [device_of.get(one["context"], one["device"]) for one in distinct]
    made["device"] = pa.array(found, pa.int32()).take(pa.array(which))
    return pa.table(made)


def _device_of_context(
    database: Database, process: int | None, parts: list[pa.Table]
) -> dict[int, int]:
    """The device of each context, as the file states it and as its work shows."""
    columns = ("processId", "contextId", "deviceId")
    found = {
        context: device
        for pid, context, device in database.rows("TARGET_INFO_CUDA_CONTEXT_INFO", columns)
        if (process is None or pid == pid_of(process)) and _small(device) is not None
    }
    for part in parts:
        pairs = part.group_by(["context", "device"]).aggregate([])
        found |= dict(zip(pairs["context"].to_pylist(), pairs["device"].to_pylist(), strict=True))
    return found


def _priorities(database: Database, process: int | None) -> dict[tuple[int, int], int]:
    """Priority of each stream by context and number; the file has it without its sign."""
    columns = ("processId", "contextId", "streamId", "priority")
    return {
        (context, stream): priority - (1 << 32 if priority >= 1 << 31 else 0)
        for pid, context, stream, priority in database.rows("TARGET_INFO_CUDA_STREAM", columns)
        if (process is None or pid == pid_of(process))
        and priority is not None
        and 0 <= priority < 1 << 32
    }
