"""Kernels, graphs, copies, fills, waits and devices of an export as canonical rows."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from stepscope.formats.bounded import INT32, integer
from stepscope.formats.cupti.columns import constant, distinct_rows, mapped, mapped_rows
from stepscope.formats.cupti.device_rows import Recorded, device_of_context, device_row, on_streams
from stepscope.formats.nsys.export import (
    COPIES,
    FILLS,
    GRAPHS,
    KERNELS,
    PAGE_FAULTS,
    WAITS,
    enumeration,
    of_process,
    pid_of,
)
from stepscope.formats.sqlite import Database
from stepscope.formats.tables import ReadReport, canonical

Row = dict[str, Any]

_NAMES = ("demangledName", "shortName", "mangledName")
"""Exports differ in which of these they have; Nsight Systems does not repeat what a symbol says."""
_COPY_KINDS = {
    1: "HTOD", 2: "DTOH", 3: "HTOA", 4: "ATOH", 5: "ATOA", 6: "ATOD", 7: "DTOA", 8: "DTOD",
    9: "HTOH", 10: "PTOP", 11: "UVM_HTOD", 12: "UVM_DTOH", 13: "UVM_DTOD",
}  # fmt: skip
_MEMORY_KINDS = {
    0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed", 5: "Device Static",
    6: "Managed Static", 7: "Unknown",
}  # fmt: skip


def device_events(database: Database, process: int | None, report: ReadReport) -> pa.Table:
    """Everything that ran on a stream, with the times as recorded."""
    recorded = Recorded(database, of_process("globalPid", process))
    kinds = enumeration(database, "ENUM_CUDA_MEMCPY_OPER", _COPY_KINDS)
    memories = enumeration(database, "ENUM_CUDA_MEM_KIND", _MEMORY_KINDS, "label")
    directions = {number: _direction(word) for number, word in kinds.items()}
    parts = [
        recorded.kernels(KERNELS, _NAMES, devices(database, process)),
        _graphs(recorded),
        recorded.copies(COPIES, memories, directions),
        recorded.fills(FILLS, "memKind", memories),
        _page_faults(recorded),
    ]
    stated = (
        (context, device)
        for pid, context, device in database.rows(
            "TARGET_INFO_CUDA_CONTEXT_INFO", ("processId", "contextId", "deviceId")
        )
        if process is None or pid == pid_of(process)
    )
    device_of = device_of_context(stated, parts)
    parts.append(recorded.waits(WAITS, "syncType", device_of))
    table = on_streams(parts, device_of, report)
    priority = _priorities(database, process)
    if priority:
        distinct, rows = distinct_rows({name: table[name] for name in ("context", "stream")})
        priorities = [priority.get((place["context"], place["stream"])) for place in distinct]
        table = table.append_column("priority", pa.array(priorities, pa.int64()).take(pa.array(rows)))
    return canonical(table, "device_event")


def devices(database: Database, process: int | None, report: ReadReport | None = None) -> list[Row]:
    """The devices that the process could see, one row each."""
    columns = (
        "id", "name", "smCount", "totalMemory", "computeMajor", "computeMinor", "threadsPerWarp",
        "maxWarpsPerSm", "maxThreadsPerBlock", "maxRegistersPerSm", "maxShmemPerSm",
    )  # fmt: skip
    physical: dict[int, Row] = {}
    for table in ("TARGET_INFO_CUDA_GPU", "TARGET_INFO_GPU"):
        for number, name, sms, memory, *capabilities in database.rows(table, columns, name="text"):
            if integer(number, report, below=INT32) is not None:
                physical[number] = device_row(
                    name, sms, memory, (capabilities[0], capabilities[1]), *capabilities[2:], report=report
                )
    # A process calls the first device in CUDA_VISIBLE_DEVICES 0.
    seen = {
        cuda: gpu
        for gpu, cuda, pid in database.rows("TARGET_INFO_CUDA_DEVICE", ("gpuId", "cudaId", "pid"))
        if integer(cuda, report, below=INT32) is not None
        if process is None or pid is None or pid == pid_of(process)
    }
    numbers = seen or {number: number for number in physical}
    return [{"device": cuda} | physical[gpu] for cuda, gpu in sorted(numbers.items()) if gpu in physical]


def _graphs(recorded: Recorded) -> pa.Table:
    """One row for each launch of a graph whose nodes were not traced."""
    rows, columns = recorded.events(GRAPHS, "cuda_graph", ("graphId",))
    columns["graph_id"] = rows["graphId"]
    columns["name"] = mapped(
        rows["graphId"].fill_null(-1), lambda graph_id: "CUDA graph" if graph_id < 0 else f"CUDA graph {graph_id}"
    )
    return pa.table(columns)


def _direction(word: str) -> str:
    """`CUDA_MEMCPY_KIND_UVM_HTOD` → `HtoD`."""
    last = word.rpartition("_")[2]
    return f"{last[0]}to{last[3]}" if len(last) == 4 and last[1:3] == "TO" else "unknown"


_ACCESS = {1: "read", 2: "write", 3: "atomic", 4: "prefetch"}


def _page_faults(recorded: Recorded) -> pa.Table:
    """Faults of unified memory that a device raised; a row may stand for many faults of one page."""
    argument_columns = ("numberOfPageFaults", "faultAccessType")
    rows, columns = recorded.events(PAGE_FAULTS, "um_page_fault", argument_columns)
    words = enumeration(recorded.database, "ENUM_CUDA_UNIF_MEM_ACCESS_TYPE", _ACCESS, "label")

    def arguments(row: dict[str, int | None]) -> str:
        access = words.get(row["faultAccessType"] or 0, "unknown").lower()
        return json.dumps({"faults": row["numberOfPageFaults"], "access": access})

    columns["name"] = constant("GPU page fault", rows.num_rows)
    columns["other_args"] = mapped_rows({name: rows[name] for name in argument_columns}, arguments)
    return pa.table(columns)


def _priorities(database: Database, process: int | None) -> dict[tuple[int, int], int]:
    """Priority of each stream by context and number; the file has it without its sign."""
    columns = ("processId", "contextId", "streamId", "priority")
    return {
        (context, stream): priority - (1 << 32 if priority >= 1 << 31 else 0)
        for pid, context, stream, priority in database.rows("TARGET_INFO_CUDA_STREAM", columns)
        if (process is None or pid == pid_of(process)) and priority is not None and 0 <= priority < 1 << 32
    }
