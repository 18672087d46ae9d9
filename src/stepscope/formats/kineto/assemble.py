"""Combines the rows of all groups into the tables of one recording.

Categories and names get their kinds and roles, and times become relative to the recording's first event. Events whose
times no clock can have measured are corrected and counted: a missing or negative duration (the event never ended), a
kernel at time zero (CUPTI lost its time).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stepscope.formats import vocabulary
from stepscope.formats.communication import listed_numbers
from stepscope.formats.container import Member
from stepscope.formats.counters.measured import Measured
from stepscope.formats.kineto import fields
from stepscope.formats.kineto import metadata as trace_metadata
from stepscope.formats.kineto.columns import (
    Columns,
    Ints,
    Words,
    codes,
    dictionary,
    place_of,
    recoded,
    text,
)
from stepscope.formats.kineto.rows import EventRows, truth
from stepscope.formats.kineto.threads import Threads, pair
from stepscope.formats.step_values import step_values
from stepscope.formats.tables import EPOCH_NS, READ, RankTables, ReadReport, canonical, from_rows


def assemble(rows: EventRows, metadata: dict[str, Any], report: ReadReport, member: Member) -> RankTables:
    """The tables of one recording, from the rows that were read and the file's own description."""
    threads = Threads(rows.names)
    facts = trace_metadata.facts(metadata, member.label)
    facts.resolution_ns = 1000 if rows.integer_us else 1
    paired = _paired(rows, threads, report)
    if paired is not None:
        rows.gathered["host"].add_table(paired)
    host = rows.gathered["host"].columns(*fields.SETS)
    device = _of_few_devices(rows.gathered["device"].columns("collective_id"), report)
    host_thread = threads.numbers(host["pid"], host["tid"]) if host else None
    origin = _origin(host, device)
    base = facts.start_epoch_ns or 0
    if origin is not None and (base or origin >= EPOCH_NS):
        facts.start_epoch_ns = base + origin
    origin = origin or 0
    tables = RankTables(facts=facts, report=report)
    report.read += len(rows.names)
    end_ns = _end(host, device, origin)
    if host is not None and host_thread is not None:
        tables.host_event = _host_table(host, host_thread, origin, end_ns, rows, report)
        report.read += tables.host_event.num_rows
    if device is not None:
        tables.device_event = _device_table(device, origin, end_ns, rows, report)
        report.read += tables.device_event.num_rows
        _add_kernel_metrics(tables)
        tables.stream = threads.streams(
            tables.device_event["device"].to_numpy(), tables.device_event["stream"].to_numpy()
        )
    tables.device = _devices(metadata, tables.device_event, report)
    _small_tables(tables, rows, threads, origin, report)
    ours = metadata.get("stepscope")
    if isinstance(ours, dict):
        tables.step_value = step_values(ours.get("values"), report, numbered="step")
    tables.thread = threads.table()
    return tables


def _of_few_devices(columns: Columns | None, report: ReadReport) -> Columns | None:
    """The rows of the devices with the lowest numbers, if there are more than a process sees; the others are lost."""
    if columns is None or pa.types.is_null(columns["device"].type):
        return columns
    extent = pc.min_max(columns["device"]).as_py()
    if extent["max"] - extent["min"] < trace_metadata.MAX_DEVICES:
        return columns
    numbers = pc.unique(columns["device"].drop_null()).sort()
    few = pc.is_in(columns["device"], numbers[: trace_metadata.MAX_DEVICES])
    few = pc.or_(few, columns["device"].is_null())
    if lost := pc.sum(pc.invert(few)).as_py():
        report.drop("too_many_devices", lost)
    table = pa.table(columns).filter(few).unify_dictionaries()
    return {name: table[name] for name in table.column_names}


# -- time ----------------------------------------------------------------------------------------

_NEVER_ENDED = (-1, -1000)  # Kineto's duration of an event that never ended: none, or -1 µs
_MAX_RANKS = 1 << 20

DAY_NS = 86_400_000_000_000  # if all other times are later than this, an event at time 0 has lost its time


def _origin(*events: Columns | None) -> int | None:
    """The earliest time of any event (ns as the file counts), ignoring lost times."""
    earliest: list[int] = []
    for columns in events:
        if columns is None:
            continue
        times = columns["ts_ns"].to_numpy().astype(np.int64, copy=False)
        at_zero = times == 0
        if at_zero.any():
            lasting = pc.greater(_filled(columns["dur_ns"], 0), 0).to_numpy(zero_copy_only=False)
            others = times[~at_zero]
            lost = at_zero & ~lasting
            if len(others) and others.min() > DAY_NS:
                lost = at_zero
            times = times[~lost] if not lost.all() else times
        earliest.append(int(times.min()))
    return min(earliest) if earliest else None


def _end(host: Columns | None, device: Columns | None, origin: int) -> int:
    ends = [0]
    for columns in (host, device):
        if columns is not None:
            lasting = pc.max_element_wise(_filled(columns["dur_ns"], 0), 0)
            start = columns["ts_ns"].cast(pa.int64())
            ends.append(int(pc.max(pc.add(start, lasting)).as_py()) - origin)
    return max(ends)


def _filled(column: pa.ChunkedArray, value: int) -> pa.ChunkedArray:
    if pa.types.is_null(column.type):
        column = column.cast(pa.int64())
    return pc.fill_null(column, value) if column.null_count else column


def _times(columns: Columns, origin: int, report: ReadReport) -> tuple[Ints, Ints, Ints]:
    """Relative starts, durations (-1 where the event never ended), and rows whose time was lost."""
    start = columns.pop("ts_ns").to_numpy().astype(np.int64) - origin
    duration = _filled(columns.pop("dur_ns"), -1).to_numpy().astype(np.int64)
    at_zero = start == -origin
    lost = np.flatnonzero(at_zero if origin > DAY_NS else at_zero & (duration <= 0))
    if origin <= 0:
        lost = lost[:0]
    if len(lost):
        report.note("zero_timestamp", count=len(lost))
        start[lost], duration[lost] = 0, 0
    open_rows = np.flatnonzero(duration < 0)
    if len(open_rows):
        negative = int((~np.isin(duration[open_rows], _NEVER_ENDED)).sum())
        if negative:
            report.note("negative_duration", count=negative)
        if len(open_rows) > negative:
            report.note("unfinished", count=len(open_rows) - negative)
        report.repaired += len(open_rows)
        duration[open_rows] = -1
    return start, duration, lost


def _close_unfinished(start: Ints, duration: Ints, track: Ints, end_ns: int) -> None:
    """Ends unfinished events with the innermost finished event around them, or else with the recording."""
    open_rows = np.flatnonzero(duration < 0)
    if len(open_rows) == 0:
        return
    end = start + duration
    around = (duration >= 0) & (start <= start[open_rows].max()) & (end > start[open_rows].min())
    rows = np.append(np.flatnonzero(around & np.isin(track, track[open_rows])), open_rows)
    rows = rows[np.lexsort((start[rows], track[rows]))]
    ends: list[int] = []
    last_track = None
    for row, of_track, at, ends_at in zip(
        *(values.tolist() for values in (rows, track[rows], start[rows], end[rows])), strict=True
    ):
        if of_track != last_track:
            ends, last_track = [], of_track
        if duration[row] >= 0:
            heappush(ends, ends_at)
            continue
        while ends and ends[0] <= at:
            heappop(ends)
        duration[row] = max(0, (ends[0] if ends else end_ns) - at)


# -- host ----------------------------------------------------------------------------------------


def _host_table(
    columns: Columns, thread: Ints, origin: int, end_ns: int, rows: EventRows, report: ReadReport
) -> pa.Table:
    start, duration, _lost = _times(columns, origin, report)
    _close_unfinished(start, duration, thread, end_ns)
    words = Words(columns)
    kind, role = words.each(
        vocabulary.host_kind, lambda kind, name: vocabulary.host_role(vocabulary.host_kind(kind, name), name)
    )
    columns.update(
        category=words.category(),
        kind=kind,
        role=role,
        name=text(columns.pop("name"), ""),
        thread=thread,
        start_ns=start,
        dur_ns=duration,
        **{name: place_of(columns.pop(name), sets) for name, sets in rows.sets.items()},
    )
    return canonical(pa.table(columns), "host_event")


def _paired(rows: EventRows, threads: Threads, report: ReadReport) -> pa.Table | None:
    """Start and end rows as events with a duration; a start without an end lasts to the end of the recording."""
    columns = rows.gathered["start_end"].columns()
    if columns is None:
        return None
    table = pa.table(columns)
    time_ns = table["ts_ns"].to_numpy().astype(np.int64)
    phases, spelled = codes(table["ph"])
    is_start = phases == (spelled.index("B") if "B" in spelled else -2)
    start_rows, end_rows, unmatched = pair(threads.numbers(table["pid"], table["tid"]), time_ns, is_start)
    if unmatched:
        report.drop("unmatched_end", unmatched)
    open_rows = int((end_rows < 0).sum())
    if open_rows:
        report.note("unmatched_begin", count=open_rows)
    duration = np.where(end_rows >= 0, time_ns[end_rows] - time_ns[start_rows], np.int64(-1))
    report.read += int((end_rows >= 0).sum())
    taken = table.take(pa.array(start_rows)).drop_columns(["ph"])
    return taken.append_column("dur_ns", pa.array(duration, mask=duration < 0))


# -- device --------------------------------------------------------------------------------------


def _device_table(columns: Columns, origin: int, end_ns: int, rows: EventRows, report: ReadReport) -> pa.Table:
    start, duration, lost = _times(columns, origin, report)
    track = columns["device"].to_numpy().astype(np.int64) * (1 << 32) + columns["stream"].to_numpy()
    _close_unfinished(start, duration, track, end_ns)
    words = Words(columns)
    if "occupancy_limit" in columns:
        columns["occupancy_limit"] = _limits(columns["occupancy_limit"])
    kind, role, copy_kind, memory_kind, source_memory, destination_memory = words.each(
        vocabulary.device_kind,
        vocabulary.wait_role,
        lambda kind, name: _of_copy(vocabulary.copy_kind, kind, name),
        lambda kind, name: _of_copy(vocabulary.memory_kind, kind, name),
        lambda kind, name: _of_copy(vocabulary.source_memory, kind, name),
        lambda kind, name: _of_copy(vocabulary.destination_memory, kind, name, "fill"),
    )
    if len(lost):
        # Work that lost its time keeps its launch but takes no part in any sum over time.
        kinds = [*kind.dictionary.to_pylist(), "other"]
        code = kind.indices.to_numpy(zero_copy_only=False).copy()
        code[lost] = len(kinds) - 1
        kind = recoded(code, kinds)
    columns.update(
        category=words.category(),
        kind=kind,
        role=role,
        name=text(columns.pop("name"), ""),
        start_ns=start,
        dur_ns=duration,
        copy_kind=copy_kind,
        memory_kind=memory_kind,
        source_memory=source_memory,
        destination_memory=destination_memory,
        collective_id=place_of(columns.pop("collective_id"), rows.sets["collective_id"]),
    )
    return canonical(pa.table(columns), "device_event")


def _limits(column: pa.ChunkedArray) -> Any:
    """What limits occupancy, in our words; a column without values stays as it is."""
    number, values = codes(column)
    if not values:
        return column
    words: dict[str | None, int] = {None: -1}
    place = [words.setdefault(vocabulary.occupancy_limit(value), len(words) - 1) for value in values]
    return dictionary(np.array([*place, -1], dtype=np.int32)[number], [word for word in words if word is not None])


def _add_kernel_metrics(tables: RankTables) -> None:
    """Adds what events with hardware metrics state to the tables of counters."""
    events = tables.device_event
    category, spelled = codes(events.column("category"))
    measured = Measured()
    for number, tool in enumerate(vocabulary.METRIC_TOOLS.get(name) for name in spelled):
        if tool is None:
            continue
        place = np.flatnonzero(category == number)
        stated = events.select(["name", "other_args"]).take(pa.array(place))
        for row, event in zip(place.tolist(), stated.to_pylist(), strict=True):
            launch = measured.launch(event["name"], tool, device_row=row)
            for metric, value in _series(event["other_args"]):
                measured.add(launch, metric, value)
    if measured.launches:
        for name, rows in measured.tables().items():
            setattr(tables, name, rows)


def _of_copy(of_name: Callable[[str], str | None], kind: str, name: str, *others: str) -> str | None:
    return of_name(name) if vocabulary.device_kind(kind, name) in ("copy", *others) else None


def _devices(metadata: dict[str, Any], events: pa.Table, report: ReadReport) -> pa.Table:
    rows = trace_metadata.devices(metadata)
    listed = metadata.get("deviceProperties")
    if isinstance(listed, list) and (lost := len(listed) - trace_metadata.MAX_DEVICES) > 0:
        report.note("too_many_devices", count=lost)
    used = set(pc.unique(events["device"]).to_pylist()) if events.num_rows else set()
    if len(rows) == len(used) == 1:
        # ROCm's tracer numbers processors among its agents too: the first GPU may be number 2 in events.
        rows[0]["device"] = next(iter(used))
    for row in rows:
        row["used"] = row["device"] in used
    kind = rows[0]["kind"] if rows else "unknown"
    for number in sorted(used - {row["device"] for row in rows}):
        rows.append({"device": number, "kind": kind, "used": True})
    return from_rows("device", rows)


# -- small tables --------------------------------------------------------------------------------


def _small_tables(tables: RankTables, rows: EventRows, threads: Threads, origin: int, report: ReadReport) -> None:
    tables.operator_input = _numbered(rows, "input_id")
    tables.kernel_source = _kernel_sources(rows)
    tables.call_stack = _numbered(rows, "stack_id")
    tables.collective_args = _collectives(rows)
    flow = rows.gathered["flow"].columns()
    if flow is not None:
        category, raw = codes(flow["category"])
        flow["category"] = recoded(category, [*map(_flow_category, raw), "none"])
        flow["time_ns"] = flow["time_ns"].to_numpy().astype(np.int64) - origin
        tables.flow = canonical(pa.table(flow), "flow")
        report.read += tables.flow.num_rows
    memory = _of_few_devices(rows.gathered["memory"].columns("device_type", "device"), report)
    if memory is not None:
        tables.memory_event = _memory_table(memory, threads, origin)
        report.read += tables.memory_event.num_rows
    report.read += len(rows.instants) + len(rows.counters)
    names = ("time_ns", "category", "name", "pid", "tid", "args")
    instants = [dict(zip(names, (at - origin, *others), strict=True)) for at, *others in rows.instants]
    tables.instant = from_rows("instant", instants)
    failed = [instant for instant in instants if instant["name"] == vocabulary.OUT_OF_MEMORY_INSTANT]
    tables.allocator_event = from_rows(
        "allocator_event", [_out_of_memory(instant["time_ns"], json.loads(instant["args"])) for instant in failed]
    )
    counters = [
        {
            "track": name or "",
            "series": series,
            **dict(zip(("kind", "unit"), vocabulary.counter_kind(series), strict=True)),
            "pid": pid,
            "time_ns": at - origin,
            "value": value,
        }
        for at, name, pid, args in rows.counters
        for series, value in _series(args)
    ]
    tables.counter = from_rows("counter", counters)


def _shared(rows: EventRows, column: str) -> tuple[dict[str, Sequence[Any]], int]:
    """The columns of the sets of arguments that a column of events refers to, and how many sets there are."""
    shared, sets = fields.SETS[column], rows.sets[column]
    names = [*(field.column.name for field in fields.FIELDS[shared.table]), *shared.further]
    values = zip(*sets.values(), strict=True) if sets else ((),) * len(names)
    return dict(zip(names, values, strict=True)), len(sets)


def _numbered(rows: EventRows, column: str) -> pa.Table:
    columns, count = _shared(rows, column)
    return _table(fields.SETS[column].table, {**columns, column: range(count)}, count)


def _table(name: str, columns: Mapping[str, Sequence[Any]], count: int) -> pa.Table:
    arrays = [pa.array(columns.get(field.name, [None] * count), field.type) for field in READ[name]]
    return pa.table(arrays, schema=READ[name])


def _collectives(rows: EventRows) -> pa.Table:
    columns, count = _shared(rows, "collective_id")
    spaced = zip(columns["Global rank start"], columns["Global rank stride"], columns["group_size"], strict=True)
    columns["group_ranks"] = [
        listed_numbers(ranks) or _spaced(*others) for ranks, others in zip(columns["group_ranks"], spaced, strict=True)
    ]
    for column in ("sent", "received"):
        columns[column] = [*map(listed_numbers, columns[column])]
    for field in fields.FIELDS["collective_args"]:
        name, kind = field.column.name, field.column.sql_type
        if kind in ("INTEGER", "BOOLEAN"):
            columns[name] = [*map(_small if kind == "INTEGER" else truth, columns[name])]
    columns["group_size"] = [size if size and size > 0 else None for size in columns["group_size"]]
    return _table("collective_args", columns, count)


def _spaced(start: int | None, stride: int | None, size: int | None) -> str | None:
    """The ranks of a group whose ranks are equally spaced; None if that is not stated."""
    if start is None or stride is None or size is None:
        return None
    if start < 0 or stride < 1 or not 1 < size <= _MAX_RANKS:
        return None
    return json.dumps([start + place * stride for place in range(size)])


def _kernel_sources(rows: EventRows) -> pa.Table:
    columns, count = _shared(rows, "kernel_source_id")
    launched = zip(columns["options"], columns["num_warps"], columns["num_stages"], strict=True)
    options = [
        ",".join(filter(None, (text, warps and f"num_warps={warps}", stages and f"num_stages={stages}")))
        for text, warps, stages in launched
    ]
    texts = {name: [value or None for value in values] for name, values in {**columns, "options": options}.items()}
    return _table("kernel_source", {**texts, "kernel_source_id": range(count)}, count)


def _small(value: int | None) -> int | None:
    return value if value is not None and -(2**31) <= value < 2**31 else None


def _flow_category(raw: str) -> str:
    if raw.lower() in vocabulary.LAUNCH_FLOWS:
        return "launch"
    return "fwdbwd" if raw.lower() in vocabulary.BACKWARD_FLOWS else raw


def _series(args: str | None) -> list[tuple[str, float | None]]:
    try:
        values = json.loads(args or "{}")
    except (ValueError, RecursionError):
        return []
    return [(series, float(value) if isinstance(value, (int, float)) else None) for series, value in values.items()]


def _out_of_memory(time_ns: int, stated: dict[str, Any]) -> dict[str, Any]:
    kind = vocabulary.DEVICE_TYPES.get(stated["Device Type"], "unknown")
    return {
        "time_ns": time_ns,
        "kind": vocabulary.OUT_OF_MEMORY,
        "device_kind": kind,
        "device": None if kind == "cpu" else _small(stated["Device Id"]),
        "bytes": stated["bytes"],
        "total_allocated_bytes": stated["Total Allocated"],
        # The host's allocator reserves nothing.
        "total_reserved_bytes": None if kind == "cpu" else stated["Total Reserved"],
    }


def _memory_table(memory: Columns, threads: Threads, origin: int) -> pa.Table:
    memory["time_ns"] = memory["time_ns"].to_numpy().astype(np.int64) - origin
    memory["thread"] = threads.numbers(memory.pop("pid"), memory.pop("tid"))
    types = memory.pop("device_type").to_pylist()
    kinds = [vocabulary.DEVICE_TYPES.get(kind, "unknown") for kind in types]
    memory["device_kind"] = pa.array(kinds, pa.string())
    on_host = pa.array([kind == "cpu" for kind in kinds])
    device = memory["device"].cast(pa.int32())
    memory["device"] = pc.if_else(on_host, pa.scalar(None, pa.int32()), device)
    return canonical(pa.table(memory), "memory_event")
