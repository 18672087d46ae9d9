"""Markers, runtime and driver calls of a database of nvprof as canonical rows of host events."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

from stepscope.formats.nvprof import callbacks
from stepscope.formats.nvprof.device_rows import LATEST_NS
from stepscope.formats.nvtx.markers import Marker, parse_marker
from stepscope.formats.nvtx.ranges import Range
from stepscope.formats.nvtx.rows import RangeRows, role_of
from stepscope.formats.sqlite import Database
from stepscope.formats.tables import ReadReport

Row = dict[str, Any]

_INSTANT, _BEGIN, _END = 1, 2, 4
_THREAD_OBJECT = 2
OVERHEAD = "overhead"
_OVERHEADS = {
    1: "Driver Compiler",
    1 << 16: "Buffer Flush",
    2 << 16: "Instrumentation",
    3 << 16: "Resource",
}


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
    """Rows of the host, and what they point to.

    Times are as recorded; every event has `start_ns` and `dur_ns`.
    """

    events: list[Row] = field(default_factory=list)
    instants: list[Row] = field(default_factory=list)
    threads: Threads = field(default_factory=Threads)
    ranges: RangeRows = field(default_factory=RangeRows)


def host_rows(database: Database, report: ReadReport, *, python_stack: bool = True) -> HostRows:
    """Everything that took time on a thread of the host.

    Args:
        database: where it is read from.
        report: told what is damaged.
        python_stack: whether Python functions and call stacks are kept.
    """
    rows = HostRows()
    parsed: dict[int | None, Marker] = {}
    ranges = _ranges(database, report, rows, parsed)
    rows.events += rows.ranges.of(ranges, python_stack=python_stack)
    _add_calls(database, report, rows)
    _add_overhead(database, report, rows)
    return rows


def _ranges(
    database: Database, report: ReadReport, rows: HostRows, parsed: dict[int | None, Marker]
) -> list[Range]:
    """Pairs the begin and end of each marker; one that never ends, ends with its thread's last."""
    columns = ("flags", "timestamp", "id", "objectKind", "objectId", "name", "domain")
    listed = [
        row
        for row in database.rows("CUPTI_ACTIVITY_KIND_MARKER", columns, objectId="blob")
        if row[0] is not None and row[1] is not None and 0 <= row[1] < LATEST_NS
    ]
    listed.sort(key=lambda row: row[1])
    open_: dict[int | None, Range] = {}
    found: list[Range] = []
    last: dict[int, int] = {}
    for flags, time, number, kind, identity, name, domain in listed:
        if flags & _END:
            ended = open_.pop(number, None)
            if ended is None:
                report.note("unmatched_end")
                report.dropped += 1
                continue
            ended.end_ns = time
            last[ended.thread] = max(last.get(ended.thread, 0), time)
            continue
        thread = rows.threads.of_object(kind, identity)
        last[thread] = max(last.get(thread, 0), time)
        if name not in parsed:
            parsed[name] = parse_marker(database.string(name))
        marker = parsed[name]
        if flags & _BEGIN:
            named = database.string(domain)
            begun = Range(marker, thread, time, -1, others={"domain": named} if named else {})
            found.append(begun)
            open_[number] = begun
        elif flags & _INSTANT:
            rows.instants.append({"time_ns": time, "name": marker.name, "thread": thread})
    for one in found:
        if one.end_ns < 0:
            report.note("unfinished")
            report.repaired += 1
            one.end_ns = last[one.thread]
    return found


def _add_calls(database: Database, report: ReadReport, rows: HostRows) -> None:
    columns = ("cbid", "start", "end", "processId", "threadId", "correlationId")
    for table, category, names in (
        ("CUPTI_ACTIVITY_KIND_RUNTIME", "cuda_runtime", callbacks.RUNTIME),
        ("CUPTI_ACTIVITY_KIND_DRIVER", "cuda_driver", callbacks.DRIVER),
    ):
        for number, start, end, pid, tid, correlation in database.rows(table, columns):
            if not _in_order(start, end, report):
                continue
            name = names.get(number, f"{category} call {number}")
            row: Row = {"category": category, "kind": "runtime", "name": name}
            row |= {"role": role_of("runtime", name), "correlation": correlation}
            row |= {"start_ns": start, "dur_ns": end - start}
            rows.events.append(row | {"thread": rows.threads.number(pid, tid or 0)})


def _add_overhead(database: Database, report: ReadReport, rows: HostRows) -> None:
    """What CUPTI itself took, on a track of its own: it overlaps the calls that it slowed down."""
    columns = ("overheadKind", "start", "end")
    for kind, start, end in database.rows("CUPTI_ACTIVITY_KIND_OVERHEAD", columns):
        if not _in_order(start, end, report):
            continue
        rows.events.append(
            {
                "category": "overhead",
                "kind": "overhead",
                "name": _OVERHEADS.get(kind, "Overhead"),
                "thread": rows.threads.number(None, OVERHEAD),
                "start_ns": start,
                "dur_ns": end - start,
            }
        )


def _in_order(start: int | None, end: int | None, report: ReadReport) -> bool:
    if start is not None and end is not None and 0 <= start <= end < LATEST_NS:
        return True
    report.note("no_time")
    report.dropped += 1
    return False
