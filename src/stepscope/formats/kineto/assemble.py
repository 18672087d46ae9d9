"""Puts the rows of all groups together into the tables of one recording.

Here categories and names get their kinds and roles, times become relative to the recording's first
event, and events that no clock can have measured are set right and counted: a duration that is
missing or negative (the event never ended), a kernel at time zero (CUPTI lost its time).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stepscope.formats import vocabulary
from stepscope.formats.container import Member
from stepscope.formats.kineto import metadata as trace_metadata
from stepscope.formats.kineto.collectives import collective_args
from stepscope.formats.kineto.pairs import pair
from stepscope.formats.kineto.rows import EventRows, codes
from stepscope.formats.kineto.tracks import Threads
from stepscope.formats.tables import (
    CALL_STACK,
    COUNTER,
    DEVICE,
    DEVICE_EVENT,
    FLOW,
    HOST_EVENT,
    INSTANT,
    MEMORY_EVENT,
    OPERATOR_INPUT,
    RankTables,
    ReadReport,
)

Ints = np.ndarray[Any, np.dtype[Any]]
Columns = dict[str, Any]

EPOCH_NS = 946_684_800_000_000_000
"""Times from the year 2000 on are taken for Unix time when the file names no base."""


def assemble(
    rows: EventRows, metadata: dict[str, Any], report: ReadReport, member: Member
) -> RankTables:
    """The tables of one recording, from the rows that were read and the file's own description."""
    threads = Threads(rows.names)
    facts = trace_metadata.facts(metadata, member.label)
    facts.resolution_ns = 1000 if rows.whole_us else 1
    host, device = rows.host.table(), rows.device.table()
    paired = _paired(rows, threads, report)
    if paired is not None:
        host = (
            paired
            if host is None
            else pa.concat_tables([host, paired], promote_options="default")
            .unify_dictionaries()
            .combine_chunks()
        )
    host_thread = threads.numbers(host["pid"], host["tid"]) if host is not None else None
    origin = _origin(host, device)
    base = _base_ns(metadata)
    if origin is not None and (base or origin >= EPOCH_NS):
        facts.start_epoch_ns = base + origin
    origin = origin or 0
    tables = RankTables(facts=facts, report=report)
    report.kept = len(rows.names)
    end_ns = _end(host, device, origin)
    if host is not None and host_thread is not None:
        tables.host_event = _host_table(host, host_thread, origin, end_ns, rows, report)
        report.kept += host.num_rows
        del host
    if device is not None:
        tables.device_event = _device_table(device, origin, end_ns, rows, report)
        report.kept += device.num_rows
        tables.stream = threads.streams(
            tables.device_event["device"].to_numpy(), tables.device_event["stream"].to_numpy()
        )
        del device
    tables.device = _devices(metadata, tables.device_event)
    _small_tables(tables, rows, threads, origin, report)
    tables.thread = threads.table()
    return tables


# -- time ----------------------------------------------------------------------------------------


DAY_NS = 86_400_000_000_000
"""Where all other times are later than this, an event at time 0 has lost its own."""


def _base_ns(metadata: dict[str, Any]) -> int:
    try:
        return int(metadata.get("baseTimeNanoseconds") or 0)
    except (TypeError, ValueError, OverflowError):
        return 0


def _origin(*tables: pa.Table | None) -> int | None:
    """The first time of any event (ns as the file counts), times that were lost left out."""
    found: list[int] = []
    for table in tables:
        if table is None or table.num_rows == 0:
            continue
        times = table["ts_ns"].to_numpy()
        at_zero = times == 0
        if at_zero.any():
            lasting = pc.greater(pc.fill_null(table["dur_ns"], 0), 0).to_numpy(zero_copy_only=False)
            others = times[~at_zero]
            lost = at_zero & ~lasting
            if len(others) and others.min() > DAY_NS:
                lost = at_zero
            times = times[~lost] if not lost.all() else times
        found.append(int(times.min()))
    return min(found) if found else None


def _end(host: pa.Table | None, device: pa.Table | None, origin: int) -> int:
    ends = [0]
    for table in (host, device):
        if table is not None and table.num_rows:
            lasting = pc.add(
                table["ts_ns"], pc.max_element_wise(pc.fill_null(table["dur_ns"], 0), 0)
            )
            ends.append(int(pc.max(lasting).as_py()) - origin)
    return max(ends)


def _times(table: pa.Table, origin: int, report: ReadReport) -> tuple[Ints, Ints, Ints]:
    """Relative starts, durations (-1 where the event never ended), and rows whose time was lost."""
    start = table["ts_ns"].to_numpy() - origin
    duration = pc.fill_null(table["dur_ns"], -1).to_numpy(zero_copy_only=False).copy()
    at_zero = start == -origin
    lost = np.flatnonzero(at_zero if origin > DAY_NS else at_zero & (duration <= 0))
    if origin <= 0:
        lost = lost[:0]
    if len(lost):
        report.note("zero_timestamp", count=len(lost))
        start[lost], duration[lost] = 0, 0
    negative = int((duration < -1).sum())
    unfinished = int((duration < 0).sum())
    if negative:
        report.note("negative_duration", count=negative)
    if unfinished > negative:
        report.note("unfinished", count=unfinished - negative)
    report.repaired += unfinished
    duration[duration < 0] = -1
    return start, duration, lost


def _close_unfinished(start: Ints, duration: Ints, track: Ints, end_ns: int) -> None:
    """Ends events that never ended with the innermost finished event around them, else with the recording."""
    open_rows = np.flatnonzero(duration < 0)
    if len(open_rows) == 0:
        return
    finished = duration >= 0
    for row in open_rows[:10_000].tolist():
        begin = start[row]
        around = finished & (track == track[row]) & (start <= begin) & (start + duration > begin)
        end = int((start + duration)[around].min()) if around.any() else end_ns
        duration[row] = max(0, end - begin)
    duration[duration < 0] = np.maximum(0, end_ns - start[duration < 0])


# -- host ----------------------------------------------------------------------------------------


def _host_table(
    host: pa.Table, thread: Ints, origin: int, end_ns: int, rows: EventRows, report: ReadReport
) -> pa.Table:
    start, duration, _lost = _times(host, origin, report)
    _close_unfinished(start, duration, thread, end_ns)
    categories, kinds, names = _words(host)

    def kind_of(category: int, name: int) -> str:
        return vocabulary.host_kind(kinds[category], names[name])

    kind, role = _by_word(
        host,
        kind_of,
        lambda category, name: vocabulary.host_role(kind_of(category, name), names[name]),
    )
    columns: Columns = {
        "category": _recoded(host["cat"], categories),
        "kind": kind,
        "role": role,
        "name": _text(host["name"], ""),
        "thread": thread,
        "start_ns": start,
        "dur_ns": duration,
        "input_id": _number(host["input_id"], rows.inputs),
        "stack_id": _number(host["stack_id"], rows.stacks),
        "collective_id": _number(host["collective_id"], rows.collectives),
        "module_hierarchy": _text(host["module_hierarchy"]),
        "other_args": _text(host["other_args"]),
    }
    for name in HOST_EVENT.names:
        if name not in columns:
            columns[name] = host[name]
    return _table(columns, HOST_EVENT)


def _paired(rows: EventRows, threads: Threads, report: ReadReport) -> pa.Table | None:
    """Begin and end rows as events with a duration; see `pairs`."""
    table = rows.begin_end.table()
    if table is None:
        return None
    time_ns = table["ts_ns"].to_numpy()
    phases, spelled = codes(table["ph"])
    begins = phases == (spelled.index("B") if "B" in spelled else -2)
    begin_rows, end_rows, unmatched = pair(
        threads.numbers(table["pid"], table["tid"]), time_ns, begins
    )
    if unmatched:
        report.note("unmatched_end", count=unmatched)
        report.dropped += unmatched
    open_rows = int((end_rows < 0).sum())
    if open_rows:
        report.note("unmatched_begin", count=open_rows)
    duration = np.where(end_rows >= 0, time_ns[end_rows] - time_ns[begin_rows], np.int64(-1))
    report.kept += int((end_rows >= 0).sum())
    taken = table.take(pa.array(begin_rows)).drop_columns(["ph"])
    return taken.append_column(
        "dur_ns",
        pc.if_else(pa.array(duration < 0), pa.scalar(None, pa.int64()), pa.array(duration)),
    )


# -- device --------------------------------------------------------------------------------------


def _device_table(
    device: pa.Table, origin: int, end_ns: int, rows: EventRows, report: ReadReport
) -> pa.Table:
    start, duration, lost = _times(device, origin, report)
    on = device["device"].to_numpy()
    stream = device["stream"].to_numpy()
    _close_unfinished(start, duration, on.astype(np.int64) * (1 << 32) + stream, end_ns)
    categories, kinds, names = _words(device)

    def kind_of(category: int, name: int) -> str:
        return vocabulary.device_kind(kinds[category], names[name])

    kind, copy_kind = _by_word(
        device,
        kind_of,
        lambda category, name: (
            vocabulary.copy_kind(names[name]) if kind_of(category, name) == "copy" else None
        ),
    )
    memory_kind, _ = _by_word(
        device,
        lambda category, name: (
            vocabulary.memory_kind(names[name]) if kind_of(category, name) == "copy" else None
        ),
        lambda _category, _name: None,
    )
    if len(lost):
        # Work whose time was lost keeps its launch but takes no part in any sum over time.
        kind_list = kind.to_pylist()
        for row in lost.tolist():
            kind_list[row] = "other"
        kind = pa.array(kind_list).dictionary_encode()
    columns: Columns = {
        "category": _recoded(device["cat"], categories),
        "kind": kind,
        "name": _text(device["name"], ""),
        "start_ns": start,
        "dur_ns": duration,
        "copy_kind": copy_kind,
        "memory_kind": memory_kind,
        "collective_id": _number(device["collective_id"], rows.collectives),
        "other_args": _text(device["other_args"]),
    }
    for name in DEVICE_EVENT.names:
        if name not in columns:
            columns[name] = device[name]
    return _table(columns, DEVICE_EVENT)


def _devices(metadata: dict[str, Any], events: pa.Table) -> pa.Table:
    rows = trace_metadata.devices(metadata)
    used = set(pc.unique(events["device"]).to_pylist()) if events.num_rows else set()
    for row in rows:
        row["used"] = row["device"] in used
    kind = rows[0]["kind"] if rows else "unknown"
    for number in sorted(used - {row["device"] for row in rows}):
        rows.append({"device": number, "kind": kind, "used": True})
    return pa.Table.from_pylist(rows, schema=DEVICE)


# -- words ---------------------------------------------------------------------------------------


def _words(table: pa.Table) -> tuple[list[str], list[str], list[str]]:
    """Today's category and kind of each raw category (the last entry is for none), and the names."""
    _, raw = codes(table["cat"])
    _, names = codes(table["name"])
    _, pids = codes(table["pid"])
    known = [vocabulary.category(category) for category in raw]
    categories = [
        found.name if found else spelled for found, spelled in zip(known, raw, strict=True)
    ]
    kinds = [found.kind if found else "other" for found in known]
    nameless = next(
        (found for pid in pids if (found := vocabulary.category(None, pid)) is not None), None
    )
    categories.append(nameless.name if nameless else "none")
    kinds.append(nameless.kind if nameless else "other")
    return categories, kinds, [*names, ""]


def _by_word(
    table: pa.Table,
    first: Callable[[int, int], str | None],
    second: Callable[[int, int], str | None],
) -> tuple[pa.DictionaryArray, pa.DictionaryArray]:
    """Two columns that depend on category and name, computed once per distinct pair."""
    category_codes, categories = codes(table["cat"])
    name_codes, names = codes(table["name"])
    width = len(names) + 1
    pairs = np.where(category_codes < 0, len(categories), category_codes).astype(np.int64) * width
    pairs += np.where(name_codes < 0, len(names), name_codes)
    seen = np.zeros((len(categories) + 1) * width, dtype=bool)
    seen[pairs] = True
    tables: list[Ints] = []
    values: list[dict[str, int]] = [{}, {}]
    for which, word in enumerate((first, second)):
        code = np.full(len(seen), -1, dtype=np.int32)
        for index in np.flatnonzero(seen).tolist():
            value = word(*divmod(index, width))
            if value is not None:
                code[index] = values[which].setdefault(value, len(values[which]))
        tables.append(code[pairs])
    return _dictionary(tables[0], list(values[0])), _dictionary(tables[1], list(values[1]))


def _dictionary(code: Ints, values: list[str]) -> pa.DictionaryArray:
    indices = pa.array(code, mask=code < 0)
    return pa.DictionaryArray.from_arrays(indices, pa.array(values, pa.string()))


def _recoded(column: pa.ChunkedArray, words: list[str]) -> pa.DictionaryArray:
    """A text column with each distinct value replaced; the last word is for nulls."""
    code, _ = codes(column)
    distinct = list(dict.fromkeys(words))
    table = np.array([distinct.index(word) for word in words], dtype=np.int32)
    return _dictionary(table[code], distinct)


def _text(column: pa.ChunkedArray, default: str | None = None) -> pa.Array:
    if not pa.types.is_dictionary(column.type):
        return column.cast(pa.string()).dictionary_encode()
    if default is not None and column.null_count:
        return pc.fill_null(column.cast(pa.string()), default).dictionary_encode()
    return column


def _number(column: pa.ChunkedArray, known: dict[int, tuple[Any, ...]]) -> pa.Array:
    """Hashes as the number of what they stand for: its place among all that are known."""
    if not pa.types.is_dictionary(column.type):
        return pa.nulls(len(column), pa.int32())
    code, hashes = codes(column)
    place = {hashed: number for number, hashed in enumerate(known)}
    table = np.array([*(place[hashed] for hashed in hashes), -1], dtype=np.int32)
    numbers = table[code]
    return pa.array(numbers, mask=numbers < 0)


def _table(columns: Columns, schema: pa.Schema) -> pa.Table:
    arrays = []
    for name in schema.names:
        value, wanted = columns[name], schema.field(name).type
        array = pa.array(value) if isinstance(value, np.ndarray) else value
        arrays.append(array if array.type == wanted else array.cast(wanted))
    return pa.Table.from_arrays(arrays, schema=schema)


# -- small tables --------------------------------------------------------------------------------


def _small_tables(
    tables: RankTables, rows: EventRows, threads: Threads, origin: int, report: ReadReport
) -> None:
    tables.operator_input = _numbered(rows.inputs, OPERATOR_INPUT)
    tables.call_stack = _numbered(rows.stacks, CALL_STACK)
    tables.collective_args = collective_args(list(rows.collectives.values()))
    flow = rows.flow.table()
    if flow is not None:
        report.kept += flow.num_rows
        _, raw = codes(flow["category"])
        words = [_flow_category(category) for category in raw]
        columns: Columns = {name: flow[name] for name in FLOW.names}
        columns["category"] = _recoded(flow["category"], [*words, "none"])
        columns["time_ns"] = flow["time_ns"].to_numpy() - origin
        tables.flow = _table(columns, FLOW)
    memory = rows.memory.table()
    if memory is not None:
        report.kept += memory.num_rows
        tables.memory_event = _memory_table(memory, threads, origin)
    report.kept += len(rows.instants) + len(rows.counters)
    tables.instant = pa.Table.from_pylist(
        [
            {
                "time_ns": at - origin,
                "category": category,
                "name": name,
                "pid": pid,
                "tid": tid,
                "args": args,
            }
            for at, category, name, pid, tid, args in rows.instants
        ],
        schema=INSTANT,
    )
    tables.counter = pa.Table.from_pylist(
        [
            {"track": name or "", "series": series, "time_ns": at - origin, "value": value}
            for at, name, args in rows.counters
            for series, value in _series(args)
        ],
        schema=COUNTER,
    )


def _numbered(known: dict[int, tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    columns: list[Any] = [range(len(known)), *zip(*known.values(), strict=True)]
    if len(columns) == 1:
        return schema.empty_table()
    return pa.Table.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)],
        schema=schema,
    )


def _flow_category(raw: str) -> str:
    if raw.lower() in vocabulary.LAUNCH_FLOWS:
        return "launch"
    return "fwdbwd" if raw.lower() in vocabulary.BACKWARD_FLOWS else raw


def _series(args: str | None) -> list[tuple[str, float | None]]:
    try:
        values = json.loads(args or "{}")
    except (ValueError, RecursionError):
        return []
    return [
        (series, float(value) if isinstance(value, (int, float)) else None)
        for series, value in values.items()
    ]


def _memory_table(memory: pa.Table, threads: Threads, origin: int) -> pa.Table:
    columns: Columns = {
        name: memory[name] for name in MEMORY_EVENT.names if name in memory.column_names
    }
    columns["time_ns"] = memory["time_ns"].to_numpy() - origin
    columns["thread"] = threads.numbers(memory["pid"], memory["tid"])
    kinds = [
        vocabulary.DEVICE_TYPES.get(kind, "unknown") for kind in memory["device_type"].to_pylist()
    ]
    columns["device_kind"] = pa.array(kinds, pa.string())
    on_host = pa.array([kind == "cpu" for kind in kinds])
    columns["device"] = pc.if_else(on_host, pa.scalar(None, pa.int32()), memory["device"])
    return _table(columns, MEMORY_EVENT)
