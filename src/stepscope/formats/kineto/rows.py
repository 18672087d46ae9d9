"""Takes the rows of the canonical tables out of the groups of events that a scanner loads.

Texts that repeat become dictionaries at once and sets of inputs are told apart by a 64-bit hash, so
that what is kept per event is a few dozen bytes, whatever the file says about it.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stepscope.floor.quoting import sql_literal
from stepscope.formats import vocabulary
from stepscope.formats.kineto import fields
from stepscope.formats.kineto.scan import EventScanner, LoadedGroup
from stepscope.formats.tables import ReadReport

_HOST = ("cat", "name", "pid", "tid")
_NOTHING = re.compile(r"(?:TRY_CAST\()*(?:CASE WHEN isfinite\()?NULL::")
_FLOWS = frozenset("stf")
_INSTANTS = frozenset("iIRnbeNDOP")


class EventRows:
    """Gathers rows from the groups that a scanner loads.

    Attributes:
        host, device, flow, memory, begin_end: columns, gathered group by group.
        names: rows of `M` events: (name, pid, tid, a_name).
        instants: (ts_ns, cat, name, pid, tid, args).
        counters: (ts_ns, name, pid, args).
        sets: for each of `fields.SETS`, hash → the arguments that it stands for.
        whole_us: whether every time so far was in whole microseconds.
        report: what was dropped, and which categories nobody knows.
    """

    def __init__(self, scanner: EventScanner, *, python_stack: bool = True) -> None:
        self._connection = scanner.connection.cursor()
        self._table = ""
        self._keys: frozenset[str] = frozenset()
        self._arrow_ready = False
        self.report = ReadReport()
        self._python_stack = python_stack
        self.host = Gathering()
        self.device = Gathering()
        self.flow = Gathering()
        self.memory = Gathering()
        self.begin_end = Gathering()
        self.names: list[tuple[Any, ...]] = []
        self.instants: list[tuple[Any, ...]] = []
        self.counters: list[tuple[Any, ...]] = []
        self.sets: dict[str, dict[int, tuple[Any, ...]]] = {column: {} for column in fields.SETS}
        self.whole_us = True

    def take(self, group: LoadedGroup) -> None:
        """Takes the rows of a group. May run while the scanner loads the next one."""
        self._table, self._keys = group.table, group.keys
        if not self._arrow_ready:
            # Arrow looks for pandas, and imports it, at its first conversion: better here, beside
            # the loading of the next group, than when everything waits for it.
            self._arrow_ready = bool(pa.array([0]).to_numpy().size)
        kinds = self._kinds()
        if any(category == vocabulary.EXPORTED_TRACKS for _, category, *_ in kinds):
            own = sql_literal(vocabulary.EXPORTED_TRACKS)
            self._rows(f"DELETE FROM event WHERE cat = {own}")
            kinds = self._kinds()
        events: dict[Any, int] = {}
        for phase, _, _, count, *_ in kinds:
            events[phase] = events.get(phase, 0) + count
        phases = set(events)
        endless = self._count_timeless(kinds)
        self._count_others(events)
        host, device = self._sides([kind for kind in kinds if kind[0] in ("X", "B", "E")])
        if "X" in phases:
            possible = f" AND dur_ns IS DISTINCT FROM {fields.IMPOSSIBLE_NS}" if endless else ""
            self._take_events(f"ph = 'X' AND ts_ns IS NOT NULL{possible}", host, device)
        if phases & {"B", "E"}:
            self._take_begin_end()
        if phases & _FLOWS:
            self._take_flows()
        if phases & _INSTANTS:
            self._take_instants(with_memory="bytes" in self._keys)
        if "C" in phases:
            self.counters += self._rows(
                "SELECT ts_ns, name, pid, extras FROM event WHERE ph = 'C' AND ts_ns IS NOT NULL"
            )
        if "M" in phases:
            self.names += self._rows(
                f"SELECT name, pid, tid, {self._argument('name')} FROM event WHERE ph = 'M'"
            )
        self.whole_us = self.whole_us and not any(whole is False for *_, whole, _ in kinds)

    def _kinds(self) -> list[tuple[Any, ...]]:
        """How many events of each phase and category there are, and what they have."""
        return self._rows(
            "SELECT ph, cat, CASE WHEN cat IS NULL OR cat = '' THEN pid END, count(*), count(ts_ns), "
            f"count({self._argument('stream')}), count(id), bool_and(whole), "
            f"count(*) FILTER (WHERE dur_ns = {fields.IMPOSSIBLE_NS}) FROM event GROUP BY ALL"
        )

    @property
    def empty(self) -> bool:
        """Whether no row was taken so far."""
        gathered = (self.host, self.device, self.flow, self.memory, self.begin_end)
        listed = (self.names, self.instants, self.counters)
        return not any(one.num_rows for one in gathered) and not any(listed)

    def close(self) -> None:
        """Ends its use of the scanner's connection."""
        self._connection.close()

    # -- which side an event lies on ---------------------------------------------------------------

    def _sides(self, kinds: list[tuple[Any, ...]]) -> tuple[str, str]:
        """SQL conditions for host and for device events."""
        device: list[str] = []
        frames: list[str] = []
        for _, raw, pid, count, _, with_stream, *_ in kinds:
            known = vocabulary.category(raw, pid)
            if known is None and raw:
                seen = self.report.unknown_categories
                seen[raw] = seen.get(raw, 0) + count
            # An unknown category lies where its rows say that they ran.
            on_device = with_stream * 2 > count if known is None else known.side == "device"
            if on_device and raw:
                device.append(f"cat = {sql_literal(raw)}")
            elif on_device:
                device.append(f"((cat IS NULL OR cat = '') AND pid = {sql_literal(pid or '')})")
            if known is not None and known.kind == "python" and raw:
                frames.append(f" AND cat IS DISTINCT FROM {sql_literal(raw)}")
        condition = " OR ".join(dict.fromkeys(device)) or "false"
        host = f"NOT coalesce({condition}, false)"
        if not self._python_stack:
            host += "".join(dict.fromkeys(frames))
        return host, f"coalesce({condition}, false)"

    def _count_timeless(self, kinds: list[tuple[Any, ...]]) -> int:
        """Counts what has no time; gives how many events have a duration that is none."""
        timed = _FLOWS | _INSTANTS | {"X", "B", "E", "C"}
        lost = sum(count - times for phase, _, _, count, times, *_ in kinds if phase in timed)
        if lost:
            self.report.dropped += lost
            self.report.note("no_time", count=lost)
        endless: int = sum(impossible for phase, *_, impossible in kinds if phase == "X")
        if endless:
            self.report.dropped += endless
            self.report.note("impossible_duration", count=endless)
        ends = [(times, ids) for phase, _, _, _, times, _, ids, *_ in kinds if phase in _FLOWS]
        nameless = sum(max(0, times - ids) for times, ids in ends)
        if nameless:
            self.report.dropped += nameless
            self.report.note("no_id", count=nameless)
        return endless

    def _count_others(self, events: dict[Any, int]) -> None:
        for phase, count in events.items():
            if phase in _FLOWS | _INSTANTS | {"X", "B", "E", "C", "M"}:
                continue
            # Some writers end their list with `{}`, which is no loss.
            empty = self._count_empty() if phase is None else 0
            if empty:
                self.report.note("empty_event", count=empty)
            if count > empty:
                self.report.dropped += count - empty
                self.report.note(
                    "no_phase" if phase is None else "unknown_phase", count=count - empty
                )

    def _count_empty(self) -> int:
        found = self._rows(
            "SELECT count(*) FROM event WHERE ph IS NULL AND cat IS NULL AND name IS NULL "
            "AND pid IS NULL AND tid IS NULL AND ts_ns IS NULL"
        )
        return int(found[0][0])

    # -- events with a duration --------------------------------------------------------------------

    def _take_events(self, condition: str, host: str, device: str) -> None:
        rows = self._arrow(
            f"SELECT {', '.join(_HOST)}, ts_ns, dur_ns, {self._host_columns()} FROM event "
            f"WHERE {condition} AND {host}"
        )
        self.host.add(rows)
        self._take_texts(rows)
        rows = self._arrow(
            f"SELECT {', '.join(_HOST)}, ts_ns, dur_ns, {self._device_columns()} FROM event "
            f"WHERE {condition} AND {device}"
        )
        self.device.add(rows)
        self._take_texts(rows)

    def _take_begin_end(self) -> None:
        rows = self._arrow(
            f"SELECT {', '.join(_HOST)}, ph, ts_ns, {self._host_columns()} FROM event "
            "WHERE ph IN ('B', 'E') AND ts_ns IS NOT NULL"
        )
        self.begin_end.add(rows)
        self._take_texts(rows)

    def _host_columns(self) -> str:
        return _present(
            (
                f"{self._argument('correlation')} AS correlation",
                f"{self._argument('External id')} AS external_id",
                f"{self._argument('Sequence number')} AS sequence_number",
                f"{self._argument('Fwd thread id')} AS forward_thread",
                f"TRY_CAST({self._argument('Python id')} AS INTEGER) AS python_id",
                f"TRY_CAST({self._argument('Python parent id')} AS INTEGER) AS python_parent_id",
                f"TRY_CAST({self._argument('Python module id')} AS INTEGER) AS python_module_id",
                f"{self._argument('Module Hierarchy')} AS module_hierarchy",
                f"{self._argument('kernel')} AS launched_kernel",
                *(f"{self._hash(column)} AS {column}" for column in fields.SETS),
                "extras AS other_args",
            )
        )

    def _device_columns(self) -> str:
        def small(name: str) -> str:
            return f"TRY_CAST({self._argument(name)} AS INTEGER)"

        def finite(name: str) -> str:
            value = self._argument(name)
            return f"CASE WHEN isfinite({value}) THEN {value} END"

        def limit(name: str) -> str:
            estimate = f"TRY_CAST({self._argument(name)} AS JSON)"
            return f"json_extract_string({estimate}, '$.limitingFactors') AS occupancy_limit"

        def axis(name: str, index: int) -> str:
            # Kineto writes a list of numbers; Inductor's operator rows have a text in the same field.
            numbers = f"TRY_CAST({self._argument(name)} AS BIGINT[])"
            return f"TRY_CAST({numbers}[{index}] AS INTEGER) AS {name}_{'xyz'[index - 1]}"

        # CUPTI's number for no stream, -1, was written without its sign for some time.
        stream = self._argument("stream")
        stream = f"CASE WHEN {stream} = {(1 << 32) - 1} THEN -1 ELSE {stream} END"
        queue = f"TRY_CAST({self._argument('sycl queue')} AS BIGINT), TRY_CAST({self._argument('l0 queue')} AS BIGINT)"
        return _present(
            (
                f"coalesce(TRY_CAST({self._argument('device')} AS INTEGER), TRY_CAST(pid AS INTEGER), 0) AS device",
                f"coalesce({stream}, {queue}, "
                "TRY_CAST(regexp_extract(tid, '(-?[0-9]+)', 1) AS BIGINT), -1) AS stream",
                f"{self._argument('correlation')} AS correlation",
                f"{self._argument('External id')} AS external_id",
                *(axis("grid", index) for index in (1, 2, 3)),
                *(axis("block", index) for index in (1, 2, 3)),
                f"{small('registers per thread')} AS registers_per_thread",
                f"{self._argument('shared memory')} AS shared_memory_bytes",
                f"{finite('blocks per SM')} AS blocks_per_sm",
                f"{finite('warps per SM')} AS warps_per_sm",
                f"{finite('est. achieved occupancy %')} / 100.0 AS occupancy_ratio",
                limit("occupancy") if "occupancy" in self._keys else "NULL::VARCHAR",
                f"{self._argument('bytes')} AS bytes",
                f"{self._argument('context')} AS context",
                f"{small('priority')} AS priority",
                f"{self._argument('wait_on_stream')} AS wait_on_stream",
                f"{self._argument('wait_on_cuda_event_record_corr_id')} AS wait_on_correlation",
                f"{self._argument('graph id')} AS graph_id",
                f"{self._argument('graph node id')} AS graph_node_id",
                f"{self._hash('collective_id')} AS collective_id",
                "extras AS other_args",
            )
        )

    def _take_texts(self, rows: pa.Table) -> None:
        """Keeps what each new hash of inputs, stack or collective arguments stands for."""
        for column, known in self.sets.items():
            if column not in rows.column_names:
                continue
            hashes = set(pc.unique(rows.column(column)).to_pylist())
            if hashes <= known.keys() | {None}:
                continue  # a step repeats: what a later group holds, an earlier one mostly had
            hashed = self._hash(column)
            values = ", ".join(f"first({self._argument(name)})" for name in fields.SETS[column][0])
            for row in self._rows(
                f"SELECT {hashed} AS hash, {values} FROM event WHERE ph IN ('X', 'B', 'E') "
                f"AND {hashed} IS NOT NULL GROUP BY 1 ORDER BY min(rowid)"
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

    def _take_instants(self, *, with_memory: bool) -> None:
        is_memory = "false"
        if with_memory:
            is_memory = (
                f"(ph = 'i' AND name IS NOT DISTINCT FROM {sql_literal(vocabulary.MEMORY_INSTANT)} "
                f"AND {self._argument('bytes')} IS NOT NULL)"
            )
            self.memory.add(
                self._arrow(
                    "SELECT ts_ns AS time_ns, pid, tid, "
                    f"{self._argument('Device Type')} AS device_type, "
                    f"TRY_CAST({self._argument('Device Id')} AS INTEGER) AS device, "
                    f"{self._argument('Addr')} AS address, {self._argument('bytes')} AS bytes, "
                    f"{self._argument('Total Allocated')} AS total_allocated_bytes, "
                    f"{self._argument('Total Reserved')} AS total_reserved_bytes "
                    f"FROM event WHERE {is_memory} AND ts_ns IS NOT NULL"
                )
            )
        # What is known of other events is all that this one states.
        stated = ", ".join(f"'{name}', {self._argument(name)}" for name in fields.OUT_OF_MEMORY)
        args = (
            f"CASE WHEN name = {sql_literal(vocabulary.OUT_OF_MEMORY_INSTANT)} "
            f"THEN json_object({stated})::VARCHAR ELSE extras END"
        )
        phases = ", ".join(sql_literal(phase) for phase in sorted(_INSTANTS))
        self.instants += self._rows(
            "SELECT ts_ns, cat, coalesce(name, ''), coalesce(pid, ''), coalesce(tid, ''), "
            f"{args} FROM event WHERE ph IN ({phases}) AND ts_ns IS NOT NULL AND NOT {is_memory}"
        )

    # -- SQL -----------------------------------------------------------------------------------------

    def _argument(self, name: str) -> str:
        """SQL for an argument, or for a NULL of its type where no event so far had it."""
        return f'"a_{name}"' if name in self._keys else f"NULL::{fields.ARGS[name]}"

    def _hash(self, column: str) -> str:
        names, needs = fields.SETS[column]
        needed = [self._argument(name) for name in needs if name in self._keys]
        if not needed:
            return "NULL::UBIGINT"
        absent = " AND ".join(f"{value} IS NULL" for value in needed)
        arguments = ", ".join(self._argument(name) for name in names)
        return f"CASE WHEN {absent} THEN NULL ELSE hash({arguments}) END"

    def _arrow(self, query: str) -> pa.Table:
        return self._connection.sql(self._of_group(query)).to_arrow_table()

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = self._connection.execute(self._of_group(query)).fetchall()
        return rows

    def _of_group(self, query: str) -> str:
        return query.replace(" FROM event", f" FROM {self._table}", 1)


class Gathering:
    """Rows of many groups, column by column, as small as they can be kept."""

    def __init__(self) -> None:
        self._columns: dict[str, list[pa.Array]] = {}
        self.num_rows = 0

    def add(self, table: pa.Table) -> None:
        """Adds a group's rows: texts and hashes as dictionaries, columns without a value as nothing."""
        before, rows = self.num_rows, table.num_rows
        if rows == 0:
            return
        self.num_rows += rows
        for name in set(self._columns) - set(table.column_names):
            self._columns[name].append(pa.nulls(rows))
        for name, column in zip(table.column_names, table.columns, strict=True):
            if column.null_count == table.num_rows:
                kept = pa.nulls(table.num_rows)
            elif pa.types.is_string(column.type) or pa.types.is_uint64(column.type):
                kept = pc.dictionary_encode(column).combine_chunks()
            else:
                kept = _narrow(_tight(column))
            parts = self._columns.setdefault(name, [pa.nulls(before)] if before else [])
            parts.append(kept)

    def columns(self, *names: str) -> dict[str, pa.ChunkedArray] | None:
        """The columns, with one dictionary each; None when there are no rows. Empties itself.

        A column without any value has Arrow's null type.

        Args:
            names: columns that are wanted also when no group had them.
        """
        if not self.num_rows:
            return None
        found = {}
        while self._columns:
            name = next(iter(self._columns))
            parts = self._columns.pop(name)
            kinds = {part.type for part in parts if not pa.types.is_null(part.type)}
            if kinds:
                # Integers that fitted into 32 bits in one group and not in another.
                kind = max(kinds, key=lambda one: one.bit_width if pa.types.is_integer(one) else 0)
                parts = [_as_kind(part, kind) for part in parts]
            whole = pa.chunked_array(parts)
            found[name] = (
                whole.unify_dictionaries() if pa.types.is_dictionary(whole.type) else whole
            )
        for name in names:
            found.setdefault(name, pa.chunked_array([pa.nulls(self.num_rows)]))
        self.num_rows = 0
        return found


def _as_kind(part: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_null(part.type):
        return _nulls(len(part), kind)
    return part if part.type == kind else part.cast(kind)


def _nulls(rows: int, kind: pa.DataType) -> pa.Array:
    if not pa.types.is_dictionary(kind):
        return pa.nulls(rows, kind)
    return pa.DictionaryArray.from_arrays(
        pa.nulls(rows, kind.index_type), pa.array([], kind.value_type)
    )


def _present(columns: tuple[str, ...]) -> str:
    """The columns that can have a value: those made of nothing but NULL are left out."""
    return ", ".join(column for column in columns if not _NOTHING.match(column))


def _tight(column: pa.ChunkedArray) -> pa.Array:
    """A copy without the room to grow that DuckDB leaves in its buffers: half of them is empty."""
    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], whole.type)
    middle = len(whole) // 2
    return pa.concat_arrays([whole.slice(0, middle), whole.slice(middle)])


def _narrow(column: pa.Array) -> pa.Array:
    """The column in 32 bits where its values fit: most ids and durations do."""
    if not pa.types.is_int64(column.type):
        return column
    extent = pc.min_max(column)
    if extent["min"].as_py() < -(2**31) or extent["max"].as_py() >= 2**31:
        return column
    return column.cast(pa.int32())


def codes(column: pa.ChunkedArray) -> tuple[np.ndarray[Any, np.dtype[np.int32]], list[Any]]:
    """Codes (int32, -1 for null) of a dictionary column, and the values that they stand for."""
    if not pa.types.is_dictionary(column.type):
        return np.full(len(column), -1, dtype=np.int32), []
    numbers = np.empty(len(column), dtype=np.int32)
    at = 0
    for chunk in column.chunks:
        numbers[at : at + len(chunk)] = chunk.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        at += len(chunk)
    values: list[Any] = column.chunk(0).dictionary.to_pylist() if column.num_chunks else []
    return numbers, values
