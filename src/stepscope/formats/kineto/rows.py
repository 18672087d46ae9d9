"""Takes the rows of the canonical tables out of the scanner's table `event`, group by group.

Texts that repeat become dictionaries at once and sets of inputs are told apart by a 64-bit hash, so
that what is kept per event is a few dozen bytes, whatever the file says about it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stepscope.formats import vocabulary
from stepscope.formats.kineto import fields
from stepscope.formats.kineto.scan import EventScanner
from stepscope.formats.tables import ReadReport

_HOST = ("cat", "name", "pid", "tid")


class EventRows:
    """Gathers rows from the groups that a scanner loads.

    Attributes:
        host, device, flow, memory, begin_end: columns, gathered group by group.
        names: rows of `M` events: (name, pid, tid, a_name, a_labels).
        instants: (ts_ns, cat, name, pid, tid, args).
        counters: (ts_ns, name, args).
        inputs, stacks, collectives: hash → the texts it stands for.
        whole_us: whether every time so far was in whole microseconds.
    """

    def __init__(
        self, scanner: EventScanner, report: ReadReport, *, python_stack: bool = True
    ) -> None:
        self._scanner = scanner
        self._report = report
        self._python_stack = python_stack
        self.host = Gathering()
        self.device = Gathering()
        self.flow = Gathering()
        self.memory = Gathering()
        self.begin_end = Gathering()
        self.names: list[tuple[Any, ...]] = []
        self.instants: list[tuple[Any, ...]] = []
        self.counters: list[tuple[Any, ...]] = []
        self.inputs: dict[int, tuple[Any, ...]] = {}
        self.stacks: dict[int, tuple[Any, ...]] = {}
        self.collectives: dict[int, tuple[Any, ...]] = {}
        self.whole_us = True

    def take(self) -> None:
        """Takes the rows of the group that the scanner holds."""
        phases = {row[0] for row in self._rows("SELECT DISTINCT ph FROM event")}
        categories = [
            (raw, pid_group)
            for raw, pid_group in self._rows(
                "SELECT DISTINCT cat, CASE WHEN cat IS NULL OR cat = '' THEN pid END FROM event "
                "WHERE ph IN ('X', 'B', 'E')"
            )
        ]
        host, device = self._sides(categories)
        if "X" in phases:
            self._count_timeless()
            self._take_events("ph = 'X' AND ts_ns IS NOT NULL", host, device)
        if phases & {"B", "E"}:
            self._take_begin_end(device)
        if phases & {"s", "t", "f"}:
            self._take_flows()
        if phases & {"i", "I", "R", "n", "b", "e", "N", "D", "O", "P"}:
            self._take_instants()
        if "C" in phases:
            self.counters += self._rows(
                "SELECT ts_ns, name, extras FROM event WHERE ph = 'C' AND ts_ns IS NOT NULL"
            )
        if "M" in phases:
            self.names += self._rows(
                f"SELECT name, pid, tid, {self._argument('name')}, {self._argument('labels')} "
                "FROM event WHERE ph = 'M'"
            )
        self._count_others(phases)
        if self.whole_us:
            self.whole_us = not self._rows("SELECT 1 FROM event WHERE whole = false LIMIT 1")

    # -- which side an event lies on ---------------------------------------------------------------

    def _sides(self, categories: list[tuple[Any, Any]]) -> tuple[str, str]:
        """SQL conditions for host and for device events."""
        device_raw: list[str] = []
        device_nameless = False
        for raw, pid in categories:
            known = vocabulary.category(raw, pid)
            if known is not None and known.side == "device":
                if raw:
                    device_raw.append(raw)
                else:
                    device_nameless = True
            elif known is None and raw:
                # An unknown category lies where its rows say that they ran.
                ran = self._rows(
                    f"SELECT count({self._argument('stream')}) * 2 > count(*), count(*) FROM event "
                    "WHERE cat = ?",
                    [raw],
                )[0]
                seen = self._report.unknown_categories
                seen[raw] = seen.get(raw, 0) + int(ran[1])
                if ran[0]:
                    device_raw.append(raw)
        condition = (
            "cat IN (" + ", ".join(_literal(raw) for raw in device_raw) + ")"
            if device_raw
            else "false"
        )
        if device_nameless:
            condition = f"({condition} OR ((cat IS NULL OR cat = '') AND pid = 'CUDA functions'))"
        host = f"NOT coalesce({condition}, false)"
        if not self._python_stack:
            frames = [raw for raw, pid in categories if _is_python(raw, pid)]
            host += "".join(f" AND cat IS DISTINCT FROM {_literal(raw)}" for raw in frames)
        return host, f"coalesce({condition}, false)"

    def _count_timeless(self) -> None:
        lost = self._rows("SELECT count(*) FROM event WHERE ph = 'X' AND ts_ns IS NULL")[0][0]
        if lost:
            self._report.dropped += lost
            self._report.note("no_time", count=lost)

    def _count_others(self, phases: set[Any]) -> None:
        for phase in phases - set("XBEstfiIRnbeNDOPCM"):
            lost = self._rows(
                "SELECT count(*) FROM event WHERE ph IS NOT DISTINCT FROM ?", [phase]
            )[0][0]
            self._report.dropped += lost
            self._report.note("no_phase" if phase is None else "unknown_phase", count=lost)

    # -- events with a duration --------------------------------------------------------------------

    def _take_events(self, condition: str, host: str, device: str) -> None:
        rows = self._arrow(
            f"SELECT {', '.join(_HOST)}, ts_ns, dur_ns, {self._host_columns()} FROM event "
            f"WHERE {condition} AND {host}"
        )
        if rows.num_rows:
            self.host.add(rows)
            self._take_texts(condition)
        rows = self._arrow(
            f"SELECT {', '.join(_HOST)}, ts_ns, dur_ns, {self._device_columns()} FROM event "
            f"WHERE {condition} AND {device}"
        )
        if rows.num_rows:
            self.device.add(rows)

    def _take_begin_end(self, device: str) -> None:
        del device  # B and E rows are written by host tools only
        rows = self._arrow(
            f"SELECT {', '.join(_HOST)}, ph, ts_ns, {self._host_columns()} FROM event "
            "WHERE ph IN ('B', 'E') AND ts_ns IS NOT NULL"
        )
        if rows.num_rows:
            self.begin_end.add(rows)
            self._take_texts("ph IN ('B', 'E')")

    def _host_columns(self) -> str:
        collective = self._hash(fields.COLLECTIVE, needs="Collective name", other="dtype")
        return ", ".join(
            (
                f"{self._argument('correlation')} AS correlation",
                f"{self._argument('External id')} AS external_id",
                f"{self._argument('Sequence number')} AS sequence_number",
                f"{self._argument('Fwd thread id')} AS forward_thread",
                f"TRY_CAST({self._argument('Python id')} AS INTEGER) AS python_id",
                f"TRY_CAST({self._argument('Python parent id')} AS INTEGER) AS python_parent_id",
                f"TRY_CAST({self._argument('Python module id')} AS INTEGER) AS python_module_id",
                f"{self._argument('Module Hierarchy')} AS module_hierarchy",
                f"{self._hash(fields.INPUTS)} AS input_id",
                f"{self._hash(('Call stack',))} AS stack_id",
                f"{collective} AS collective_id",
                "extras AS other_args",
            )
        )

    def _device_columns(self) -> str:
        def small(name: str) -> str:
            return f"TRY_CAST({self._argument(name)} AS INTEGER)"

        def axis(name: str, index: int) -> str:
            # Kineto writes a list of numbers; Inductor's operator rows have a text in the same field.
            numbers = f"TRY_CAST({self._argument(name)} AS BIGINT[])"
            return f"TRY_CAST({numbers}[{index}] AS INTEGER) AS {name}_{'xyz'[index - 1]}"

        queue = f"TRY_CAST({self._argument('sycl queue')} AS BIGINT), TRY_CAST({self._argument('l0 queue')} AS BIGINT)"
        return ", ".join(
            (
                f"coalesce(TRY_CAST({self._argument('device')} AS INTEGER), TRY_CAST(pid AS INTEGER), 0) AS device",
                f"coalesce({self._argument('stream')}, {queue}, "
                "TRY_CAST(regexp_extract(tid, '(-?[0-9]+)', 1) AS BIGINT), -1) AS stream",
                f"{self._argument('correlation')} AS correlation",
                f"{self._argument('External id')} AS external_id",
                *(axis("grid", index) for index in (1, 2, 3)),
                *(axis("block", index) for index in (1, 2, 3)),
                f"{small('registers per thread')} AS registers_per_thread",
                f"{self._argument('shared memory')} AS shared_memory_bytes",
                f"{self._argument('blocks per SM')} AS blocks_per_sm",
                f"{self._argument('warps per SM')} AS warps_per_sm",
                f"{self._argument('est. achieved occupancy %')} / 100.0 AS occupancy_ratio",
                f"{self._argument('bytes')} AS bytes",
                f"{self._argument('context')} AS context",
                f"{self._argument('graph id')} AS graph_id",
                f"{self._argument('graph node id')} AS graph_node_id",
                f"{self._hash(fields.COLLECTIVE, needs='Collective name', other='dtype')} AS collective_id",
                "extras AS other_args",
            )
        )

    def _take_texts(self, condition: str) -> None:
        """Keeps what each new hash of inputs, stack or collective arguments stands for."""
        collective = self._hash(fields.COLLECTIVE, needs="Collective name", other="dtype")
        for known, names, hashed, where in (
            (self.inputs, fields.INPUTS, self._hash(fields.INPUTS), condition),
            (self.stacks, ("Call stack",), self._hash(("Call stack",)), condition),
            (self.collectives, fields.COLLECTIVE, collective, "true"),
        ):
            if hashed == "NULL::UBIGINT":
                continue
            values = ", ".join(f"first({self._argument(name)})" for name in names)
            for row in self._rows(
                f"SELECT {hashed} AS hash, {values} FROM event WHERE {where} AND {hashed} IS NOT NULL GROUP BY 1"
            ):
                known.setdefault(row[0], row[1:])

    # -- the rest ------------------------------------------------------------------------------------

    def _take_flows(self) -> None:
        self.flow.add(
            self._arrow(
                "SELECT cat AS category, ph AS phase, id AS flow_id, ts_ns AS time_ns, pid, tid "
                "FROM event WHERE ph IN ('s', 't', 'f') AND id IS NOT NULL AND ts_ns IS NOT NULL"
            )
        )
        lost = self._rows(
            "SELECT count(*) FROM event WHERE ph IN ('s', 't', 'f') AND (id IS NULL OR ts_ns IS NULL)"
        )[0][0]
        if lost:
            self._report.dropped += lost
            self._report.note("no_time", count=lost)

    def _take_instants(self) -> None:
        memory = _literal(vocabulary.MEMORY_INSTANT)
        rows = self._arrow(
            f"SELECT ts_ns AS time_ns, pid, tid, {self._argument('Device Type')} AS device_type, "
            f"TRY_CAST({self._argument('Device Id')} AS INTEGER) AS device, {self._argument('Addr')} AS address, "
            f"{self._argument('bytes')} AS bytes, {self._argument('Total Allocated')} AS total_allocated_bytes, "
            f"{self._argument('Total Reserved')} AS total_reserved_bytes "
            f"FROM event WHERE ph = 'i' AND name = {memory} AND ts_ns IS NOT NULL AND {self._argument('bytes')} IS NOT NULL"
        )
        if rows.num_rows:
            self.memory.add(rows)
        self.instants += self._rows(
            "SELECT ts_ns, cat, coalesce(name, ''), coalesce(pid, ''), coalesce(tid, ''), extras FROM event "
            "WHERE ph IN ('i', 'I', 'R', 'n', 'b', 'e', 'N', 'D', 'O', 'P') AND ts_ns IS NOT NULL "
            f"AND NOT (ph = 'i' AND name IS NOT DISTINCT FROM {memory} AND {self._argument('bytes')} IS NOT NULL)"
        )

    # -- SQL -----------------------------------------------------------------------------------------

    def _argument(self, name: str) -> str:
        """SQL for an argument, or for a NULL of its type where the file has none of it."""
        kind = fields.ARGS[name]
        return f'"a_{name}"' if name in self._scanner.keys else f"NULL::{kind}"

    def _hash(self, names: tuple[str, ...], *, needs: str = "", other: str = "") -> str:
        present = [name for name in names if name in self._scanner.keys]
        wanted = [name for name in (needs, other) if name in present] if needs else present
        if not wanted:
            return "NULL::UBIGINT"
        arguments = ", ".join(self._argument(name) for name in names)
        absent = " AND ".join(f"{self._argument(name)} IS NULL" for name in wanted)
        return f"CASE WHEN {absent} THEN NULL ELSE hash({arguments}) END"

    def _arrow(self, query: str) -> pa.Table:
        return self._scanner.connection.sql(query).to_arrow_table()

    def _rows(self, query: str, parameters: list[Any] | None = None) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = self._scanner.connection.execute(
            query, parameters or []
        ).fetchall()
        return rows


class Gathering:
    """Rows of many groups, column by column, as small as they can be kept."""

    def __init__(self) -> None:
        self._columns: dict[str, list[pa.Array]] = {}
        self.num_rows = 0

    def add(self, table: pa.Table) -> None:
        """Adds a group's rows: texts and hashes as dictionaries of their distinct values."""
        self.num_rows += table.num_rows
        if table.num_rows == 0:
            return
        for name, column in zip(table.column_names, table.columns, strict=True):
            if pa.types.is_string(column.type) or pa.types.is_uint64(column.type):
                kept = pc.dictionary_encode(column).combine_chunks()
            else:
                kept = _tight(column)
            self._columns.setdefault(name, []).append(kept)

    def table(self) -> pa.Table | None:
        """All rows, with one dictionary per column; None when there are none. Empties itself."""
        if not self.num_rows:
            return None
        arrays = {}
        while self._columns:
            name = next(iter(self._columns))
            arrays[name] = (
                pa.chunked_array(self._columns.pop(name)).unify_dictionaries().combine_chunks()
            )
        self.num_rows = 0
        return pa.table(arrays)


def _tight(column: pa.ChunkedArray) -> pa.Array:
    """A copy without the room to grow that DuckDB leaves in its buffers: half of them is empty."""
    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], whole.type)
    middle = len(whole) // 2
    return pa.concat_arrays([whole.slice(0, middle), whole.slice(middle)])


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _is_python(raw: str | None, pid: str | None) -> bool:
    known = vocabulary.category(raw, pid)
    return known is not None and known.kind == "python"


def codes(column: pa.ChunkedArray) -> tuple[np.ndarray[Any, Any], list[Any]]:
    """Codes (int32, -1 for null) and the values that they stand for, of a dictionary column."""
    chunk = column.chunk(0) if column.num_chunks else column.combine_chunks()
    if isinstance(chunk, pa.ChunkedArray):
        chunk = chunk.combine_chunks()
    indices = pc.fill_null(chunk.indices, -1).to_numpy(zero_copy_only=False)
    return indices.astype(np.int32, copy=False), chunk.dictionary.to_pylist()
