"""Markers, runtime and driver calls of a database of nvprof as canonical rows of host events."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stepscope.bundled.nvprof.kernel_metrics import cupti_names
from stepscope.formats.cupti.columns import LATEST_NS, distinct_rows, in_time, mapped, on_host, on_track
from stepscope.formats.nvtx.ranges import NONE, Ranges
from stepscope.formats.nvtx.rows import range_tables, role_of
from stepscope.formats.nvtx.texts import Texts
from stepscope.formats.sqlite import Database
from stepscope.formats.tables import READ, canonical
from stepscope.plugin import ReadReport
from stepscope.schema.arrays import Int32s, Int64s

_INSTANT, _START, _END = 1, 2, 4
_THREAD_OBJECT = 2
_NO_NAME = "-- null --"
"""nvprof's text for a domain that CUPTI did not name."""
CALLS = {"CUPTI_ACTIVITY_KIND_RUNTIME": "runtime", "CUPTI_ACTIVITY_KIND_DRIVER": "driver"}
"""Tables of calls, with their kind in `cupti_names`."""
MARKERS = ("CUPTI_ACTIVITY_KIND_MARKER", "timestamp")
OVERHEAD = "overhead"
_OVERHEADS = {1: "Driver Compiler", 1 << 16: "Buffer Flush", 2 << 16: "Instrumentation", 3 << 16: "Resource"}


@dataclass(slots=True)
class Threads:
    """Numbers threads by process and thread id, in order of appearance."""

    of: dict[tuple[int | None, int | str], int] = field(default_factory=dict)

    def number(self, pid: int | None, tid: int | str) -> int:
        """The number of a thread."""
        if isinstance(tid, int):
            tid &= 0xFFFFFFFF  # CUPTI writes the same id with and without a sign
        return self.of.setdefault((pid, tid), len(self.of))

    def of_object(self, kind: int | None, identity: Any) -> int:
        """The number of the thread that an activity names: process id, then thread id."""
        if kind == _THREAD_OBJECT and isinstance(identity, bytes) and len(identity) >= 12:
            pid, tid = struct.unpack("<iq", identity[:12])
            return self.number(pid, tid)
        return self.number(None, 0)


@dataclass(slots=True)
class HostRows:
    """Rows of the host, and what they refer to.

    Times are as recorded; every event has `start_ns` and `dur_ns`.

    Args:
        ranges: tables `host_event`, `operator_input` and `call_stack` of the markers.
        events: tables `host_event` of everything else.
        instant: table `instant`.
        threads: named threads.
    """

    ranges: dict[str, pa.Table]
    events: list[pa.Table]
    instant: pa.Table
    threads: Threads


def host_rows(database: Database, report: ReadReport, *, python_stack: bool = True) -> HostRows:
    """Everything that took time on a thread of the host."""
    threads = Threads()
    ranges, instant = _ranges(database, threads, report)
    tables = range_tables(ranges, python_stack=python_stack)
    del ranges
    parts = [_calls(database, table, kind, threads) for table, kind in CALLS.items()]
    parts.append(_overhead(database, threads))
    events = [canonical(in_time(part, report), "host_event") for part in parts]
    return HostRows(tables, events, instant, threads)


def _ranges(database: Database, threads: Threads, report: ReadReport) -> tuple[Ranges, pa.Table]:
    """Pairs the start and end of each marker; also returns table `instant`.

    An end belongs to the start of its number that directly precedes it; a range that never ends, ends with its
    thread's last.
    """
    columns = ("flags", "timestamp", "id", "objectKind", "objectId", "name", "domain")
    table = database.columns(MARKERS[0], columns, objectId="blob", name="name", domain="name")
    time = table[MARKERS[1]]
    timed = pc.and_(pc.greater_equal(time, 0), pc.less(time, LATEST_NS)).fill_null(False)
    table = table.filter(pc.and_(timed, table["flags"].is_valid()))
    table = table.take(pa.array(np.argsort(table["timestamp"].to_numpy(), kind="stable")))
    moment = table["timestamp"].to_numpy()
    flags = table["flags"].to_numpy()
    ends = flags & _END != 0
    starts = ~ends & (flags & _START != 0)
    instant = ~ends & ~starts & (flags & _INSTANT != 0)

    number = table["id"].combine_chunks().dictionary_encode(null_encoding="encode").indices.to_numpy()
    paired = np.flatnonzero(starts | ends)
    paired = paired[np.argsort(number[paired], kind="stable")]
    before = np.roll(paired, 1)
    matched = ends[paired] & starts[before] & (number[before] == number[paired])
    matched[:1] = False
    unmatched = int(ends.sum()) - int(matched.sum())
    if unmatched:
        report.drop("unmatched_end", unmatched)
    end = np.full(len(moment), -1, np.int64)
    end[before[matched]] = moment[paired[matched]]

    used = ~ends
    place = pa.array(used)
    objects = _objects(table.filter(place), threads)
    thread = np.zeros(len(moment), np.int64)
    thread[used] = objects
    last = np.zeros(len(threads.of) or 1, np.int64)
    np.maximum.at(last, thread[used], np.maximum(moment, end)[used])
    unfinished = starts & (end < 0)
    if unfinished.any():
        report.repair("unfinished", int(unfinished.sum()))
        end[unfinished] = last[thread[unfinished]]

    texts = Texts()
    names = table["name"].cast(pa.string()).combine_chunks()
    read = texts.read(names.filter(pa.array(starts)))
    others, other = _domains(table["domain"].filter(pa.array(starts)))
    ranges = Ranges(
        thread[starts],
        moment[starts],
        end[starts],
        read.field("marker").to_numpy(),
        read.field("sequence").fill_null(NONE).to_numpy(),
        other,
        texts.markers,
        others,
    )
    count, on = int(instant.sum()), pa.array(thread[instant])

    def of_thread(spelled: list[str]) -> pa.Array:
        return pa.array(spelled, pa.string()).take(on)

    instants = {
        "time_ns": pa.array(moment[instant]),
        "category": pa.repeat(pa.scalar("user_annotation"), count),
        "name": names.filter(pa.array(instant)).fill_null(""),
        "pid": of_thread(["" if pid is None else str(pid) for pid, _ in threads.of]),
        "tid": of_thread([str(tid) for _, tid in threads.of]),
        "args": pa.nulls(count, pa.string()),
    }
    return ranges, pa.table(instants, schema=READ["instant"])


def _domains(names: pa.ChunkedArray) -> tuple[list[dict[str, str]], Int32s]:
    """What else is recorded for ranges, their domains, and its number for each range; -1 for nothing."""
    coded = names.cast(pa.string()).combine_chunks().dictionary_encode()
    others = [{"domain": name} for name in coded.dictionary.to_pylist()]
    number = coded.indices.fill_null(NONE).to_numpy(zero_copy_only=False).astype(np.int32)
    silent = np.array([other_domain["domain"] in ("", _NO_NAME) for other_domain in others] + [True])[number]
    return others, np.where(silent, NONE, number).astype(np.int32)


def _objects(table: pa.Table, threads: Threads) -> Int64s:
    """The number of the thread that each row names."""
    kind = table["objectKind"].fill_null(-1)
    identity = table["objectId"].combine_chunks().dictionary_encode(null_encoding="encode")
    width = max(len(identity.dictionary), 1)
    packed = pa.array(kind.to_numpy() * width + identity.indices.to_numpy()).dictionary_encode()
    numbers = [
        threads.of_object(code // width, identity.dictionary[code % width].as_py())
        for code in packed.dictionary.to_pylist()
    ]
    thread_numbers: Int64s
    thread_numbers = np.array(numbers, np.int64)[packed.indices.to_numpy()]
    return thread_numbers


def _calls(database: Database, table: str, kind: str, threads: Threads) -> pa.Table:
    columns = ("cbid", "start", "end", "processId", "threadId", "correlationId")
    rows = database.columns(table, columns)
    category, names = f"cuda_{kind}", cupti_names()
    name = mapped(rows["cbid"].fill_null(0), lambda value: names.get((kind, value), f"{category} call {value}"))
    distinct, which = distinct_rows({value: rows[value] for value in ("processId", "threadId")})
    number = [threads.number(value["processId"], value["threadId"] or 0) for value in distinct]
    return on_host(
        rows,
        category,
        "runtime",
        name=name,
        role=mapped(name, lambda value: role_of("runtime", value)),
        thread=pa.array(number, pa.int32()).take(pa.array(which)),
        correlation=rows["correlationId"],
    )


def _overhead(database: Database, threads: Threads) -> pa.Table:
    """CUPTI's own time, on a track of its own: it overlaps the calls that it slowed down."""
    rows = database.columns("CUPTI_ACTIVITY_KIND_OVERHEAD", ("overheadKind", "start", "end"))
    name = mapped(rows["overheadKind"].fill_null(0), lambda value: _OVERHEADS.get(value, "Overhead"))
    return on_track(rows, OVERHEAD, name, lambda track: threads.number(None, track))
