"""Kernels, copies, fills, waits and devices as canonical rows.

Tools differ in the names of some tables and columns, and in how they number memories: the caller passes these. A column
that a database does not have is NULL.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stepscope.formats import vocabulary
from stepscope.formats.bounded import INT32, integer
from stepscope.formats.cupti.columns import constant, distinct_rows, first_named, in_time, mapped, small
from stepscope.formats.demangle import demangled
from stepscope.formats.sqlite import Database, Only
from stepscope.formats.tables import ReadReport, canonical, from_rows

Row = dict[str, Any]

NAMELESS = "(kernel without a name)"
_NO_STREAM = (1 << 32) - 1
_SHARED = ("start", "end", "deviceId", "streamId", "contextId", "correlationId", "graphNodeId")
_COPY_KINDS = {
    1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD",
    9: "HtoH", 10: "PtoP",
}  # fmt: skip
_COPIED = ("name", "copy_kind", "memory_kind", "source_memory", "destination_memory")
_WAITS = {1: "Event Sync", 2: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync"}


class Recorded(NamedTuple):
    """The source of rows."""

    database: Database
    only: Only | None = None

    def events(
        self, table: str, category: str, columns: Sequence[str] = (), **types: str
    ) -> tuple[pa.Table, dict[str, Any]]:
        """The rows of a table, and the columns of everything that runs on a stream."""
        rows = self.database.columns(table, (*_SHARED, *columns), self.only, **types)
        stream = rows["streamId"].fill_null(-1)
        return rows, {
            "start": rows["start"],
            "end": rows["end"],
            "category": constant(category, rows.num_rows),
            "kind": constant(vocabulary.CATEGORIES[category].kind, rows.num_rows),
            "device": small(rows["deviceId"], self.database.wrong, table, "device"),
            "stream": pc.if_else(pc.equal(stream, _NO_STREAM), -1, stream),
            "correlation": rows["correlationId"],
            "context": rows["contextId"],
            "graph_node_id": without_zero(rows["graphNodeId"]),
        }

    def kernels(self, table: str, names: Sequence[str], devices: Iterable[Row]) -> pa.Table:
        """Kernels, each named by the first of the columns `names` that has a value."""
        sizes = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")
        fixed, dynamic = "staticSharedMemory", "dynamicSharedMemory"
        rows, result = self.events(
            table,
            "kernel",
            (*names, *sizes, "registersPerThread", fixed, dynamic, "graphId"),
            **dict.fromkeys(names, "name"),
        )
        spelled = rows[names[0]]
        if spelled.null_count:
            spelled = first_named([rows[text] for text in names], NAMELESS)
        result["name"] = name = mapped(spelled, lambda text: demangled(text) or NAMELESS)
        result["kind"] = mapped(name, lambda text: vocabulary.device_kind("computation", text))
        for column in sizes:
            result[f"{column[:-1]}_{column[-1].lower()}"] = small(rows[column], self.database.wrong, table, column)
        result["registers_per_thread"] = small(rows["registersPerThread"], self.database.wrong, table, "registers")
        total = pc.add(rows[fixed].fill_null(0), rows[dynamic].fill_null(0))
        stated = pc.or_(rows[fixed].is_valid(), rows[dynamic].is_valid())
        result["shared_memory_bytes"] = pc.if_else(stated, total, pa.scalar(None, pa.int64()))
        result["dynamic_shared_memory_bytes"] = rows[dynamic]
        result["graph_id"] = without_zero(rows["graphId"])
        return pa.table(result | _per_processor(result, {row["device"]: row for row in devices}))

    def copies(self, table: str, memories: Mapping[int, str], kinds: Mapping[int, str] = _COPY_KINDS) -> pa.Table:
        """Copies of memory; `memories` and `kinds` give the words for CUPTI's numbers."""
        columns = ("bytes", "copyKind", "srcKind", "dstKind")
        rows, result = self.events(table, "gpu_memcpy", columns)
        distinct, which = distinct_rows({name: rows[name] for name in columns[1:]})
        named = [
            copy_names(
                kinds.get(row["copyKind"], "unknown"), *(memories.get(row[end], "Unknown") for end in columns[2:])
            )
            for row in distinct
        ]
        place = pa.array(which)
        for column in _COPIED:
            result[column] = mapped(place, [row[column] for row in named].__getitem__)
        return pa.table(result | {"bytes": rows["bytes"]})

    def fills(self, table: str, memory: str, memories: Mapping[int, str]) -> pa.Table:
        """Fills of memory; the column `memory` has its kind."""
        rows, result = self.events(table, "gpu_memset", ("bytes", memory))
        words = rows[memory].fill_null(-1)
        result["name"] = mapped(words, lambda value: fill_name(memories.get(value)))
        result["destination_memory"] = mapped(rows[memory], lambda value: memories.get(value, "unknown").lower())
        return pa.table(result | {"bytes": rows["bytes"]})

    def waits(self, table: str, kind: str, device_of: Mapping[int, int]) -> pa.Table:
        """Waits of the host: their context is right, their device not always."""
        rows, result = self.events(table, "cuda_sync", (kind,))
        result["name"] = mapped(rows[kind].fill_null(0), lambda row: _WAITS.get(row, "Sync"))
        result["role"] = mapped(result["name"], lambda row: vocabulary.wait_role("sync", row))
        distinct, which = distinct_rows({name: result[name] for name in ("context", "device")})
        numbers = [device_of.get(row["context"], row["device"]) for row in distinct]
        result["device"] = pa.array(numbers, pa.int32()).take(pa.array(which))
        return pa.table(result)


def on_streams(parts: Sequence[pa.Table], device_of: Mapping[int, int], report: ReadReport) -> pa.Table:
    """Everything that ran on a stream, with the times as recorded; rows without a time are counted. Work without a
    device gets that of its context."""
    table = pa.concat_tables(parts, promote_options="default")
    if table["device"].null_count:
        distinct, rows = distinct_rows({"context": table["context"]})
        devices = pa.array([device_of.get(row["context"], 0) for row in distinct], pa.int32())
        place = table.column_names.index("device")
        stated = pc.coalesce(table["device"], devices.take(pa.array(rows)))
        table = table.set_column(place, "device", stated)
    return in_time(table, report)


def device_of_context(stated: Iterable[tuple[int | None, int | None]], parts: Iterable[pa.Table]) -> dict[int, int]:
    """The device of each context, as the file states it and as its work shows."""
    devices = {
        context: number
        for context, device in stated
        if context is not None and (number := integer(device, below=INT32)) is not None
    }
    for part in parts:
        pairs = part.group_by(["context", "device"]).aggregate([])
        of_work = zip(pairs["context"].to_pylist(), pairs["device"].to_pylist(), strict=True)
        devices |= {context: device for context, device in of_work if device is not None}
    return devices


def copy_names(direction: str, source: str, target: str) -> Row:
    """A copy's name, and what follows from it."""
    name = f"Memcpy {direction} ({source} -> {target})"
    return {
        "name": name,
        "copy_kind": direction,
        "memory_kind": vocabulary.memory_kind(name),
        "source_memory": source.lower(),
        "destination_memory": target.lower(),
    }


def fill_name(target: str | None) -> str:
    """A fill's name, by its memory."""
    return "Memset" if target is None else f"Memset ({target})"


def without_zero(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Numbers with NULL for 0."""
    return pc.if_else(pc.equal(values, 0), pa.scalar(None, pa.int64()), values)


def _per_processor(result: Row, devices: Mapping[int, Row]) -> dict[str, pa.Array]:
    """Blocks and warps per multiprocessor, if the number of multiprocessors is known."""

    def of_device(key: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        distinct, rows = distinct_rows({"device": result["device"]})
        stated = [devices.get(row["device"], {}).get(key) or np.nan for row in distinct]
        return np.array(stated, float)[rows]

    def product(*axes: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        volume = np.ones(len(result["device"]))
        for axis in axes:
            volume *= result[axis].cast(pa.float64()).to_numpy()
        return volume

    blocks = product("grid_x", "grid_y", "grid_z") / of_device("sm_count")
    warps = blocks * np.ceil(product("block_x", "block_y", "block_z") / of_device("warp_size"))
    return {"blocks_per_sm": pa.array(blocks, from_pandas=True), "warps_per_sm": pa.array(warps, from_pandas=True)}


# -- devices -----------------------------------------------------------------------------------------


def device_row(
    name: str | None,
    sms: int | None,
    memory: int | None,
    version: tuple[int | None, int | None],
    warp: int | None,
    warps: int | None,
    threads: int | None,
    registers: int | None,
    shared: int | None,
    *,
    report: ReadReport | None,
) -> Row:
    """A row of table `device`, without number and use.

    Args:
        name: of its model.
        sms: multiprocessors.
        memory: bytes of it.
        version: compute capability.
        warp, warps: threads of a warp, and warps that a multiprocessor holds.
        threads: most of a block.
        registers, shared: of a multiprocessor; bytes of shared memory.
    """

    def small(value: int | None) -> int | None:
        return integer(value, report, below=INT32)

    return {
        "kind": "cuda",
        "name": name or None,
        "sm_count": small(sms) or None,
        "memory_bytes": memory,
        "compute_major": small(version[0]),
        "compute_minor": small(version[1]),
        "max_threads_per_sm": small(warp * warps if warp and warps else None),
        "max_threads_per_block": small(threads),
        "registers_per_sm": small(registers),
        "shared_memory_per_sm_bytes": shared,
        "warp_size": small(warp) or None,
    }


def streams(device_event: pa.Table) -> pa.Table:
    """Table `stream`, from the device events of a recording."""
    pairs = device_event.select(["device", "stream"]).group_by(["device", "stream"])
    return canonical(pairs.aggregate([]), "stream")


def used_devices(devices: Iterable[Row], device_event: pa.Table) -> pa.Table:
    """Table `device`: the known devices, and others that work ran on."""
    used = set(pc.unique(device_event["device"]).to_pylist())
    rows = [row | {"used": row["device"] in used} for row in devices]
    further = sorted(used - {row["device"] for row in rows})
    rows += [{"device": number, "kind": "cuda", "used": True} for number in further]
    return from_rows("device", rows)
