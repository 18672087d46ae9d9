"""NVTX ranges and marks of an export as canonical rows of the host."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from stepscope.formats.nsys.export import (
    LATEST_NS,
    NVTX,
    enumeration,
    of_process,
    thread_ids,
)
from stepscope.formats.nsys.host_rows import Threads
from stepscope.formats.nvtx.markers import Marker, parse_marker
from stepscope.formats.nvtx.ranges import Range
from stepscope.formats.sqlite import Database
from stepscope.formats.tables import READ, ReadReport

Row = dict[str, Any]

_KINDS = {
    33: "NvtxCategory", 34: "NvtxMark", 59: "NvtxPushPopRange", 60: "NvtxStartEndRange",
    65: "NvtxtMark", 70: "NvtxtPushPopRange", 71: "NvtxtStartEndRange", 75: "NvtxDomainCreate",
}  # fmt: skip
_NAMELESS = "(range without a name)"


def nvtx_ranges(
    database: Database, process: int | None, threads: Threads, report: ReadReport
) -> tuple[list[Range], list[Row]]:
    """Ranges, not yet nested, and rows of table `instant`; times as recorded.

    A range that never ended ends with the last moment of its thread. What a program gave with a range
    (its payload) is not read.
    """
    ranges: list[Range] = []
    marks: list[Row] = []
    for table in NVTX:
        _read(database, table, process, threads, ranges, marks, report)
    last: dict[int, int] = {}
    for one in ranges:
        last[one.thread] = max(last.get(one.thread, 0), one.start_ns, one.end_ns)
    for one in ranges:
        if one.end_ns < 0:
            report.note("unfinished")
            report.repaired += 1
            one.end_ns = last[one.thread]
    return ranges, marks


def _read(
    database: Database,
    table: str,
    process: int | None,
    threads: Threads,
    ranges: list[Range],
    marks: list[Row],
    report: ReadReport,
) -> None:
    rows = database.columns(
        table,
        ("eventType", "start", "end", "text", "textId", "globalTid", "domainId", "category"),
        of_process("globalTid", process),
        text="text",
        textId="name",
    )
    if not rows.num_rows:
        return
    kinds = {
        number: word.removeprefix("Nvtx").removeprefix("t")
        for number, word in enumeration(database, "ENUM_NSYS_EVENT_TYPE", _KINDS).items()
        if word.startswith("Nvtx")
    }
    listed = list(zip(*(rows[name].to_pylist() for name in rows.column_names), strict=True))
    domains: dict[int, str] = {}
    categories: dict[tuple[int, int], str] = {}
    for kind, _, _, text, registered, _, domain, category in listed:
        if kinds.get(kind) == "DomainCreate":
            domains[domain] = text or registered or ""
        elif kinds.get(kind) == "Category":
            categories[domain, category] = text or registered or ""
    parsed: dict[str, Marker] = {}
    shared: dict[tuple[int, int], dict[str, str]] = {}
    numbers = threads.numbers(rows["globalTid"]).to_pylist()
    for (kind, start, end, text, registered, tid, domain, category), thread in zip(
        listed, numbers, strict=True
    ):
        word = "PushPopRange" if kind is None else kinds.get(kind, "")
        if word not in ("PushPopRange", "StartEndRange", "Mark"):
            continue
        if start is None or not 0 <= start < LATEST_NS:
            report.note("no_time")
            report.dropped += 1
            continue
        name = registered if text is None else text
        others = shared.get((domain, category))
        if others is None:
            named = {"domain": domains.get(domain), "category": categories.get((domain, category))}
            others = shared[domain, category] = {key: word for key, word in named.items() if word}
        if word == "Mark":
            marks.append(_mark(start, name or _NAMELESS, tid, others))
            continue
        if name is None:
            marker = Marker("range", _NAMELESS)
        elif (found := parsed.get(name)) is not None:
            marker = found
        else:
            marker = parsed[name] = parse_marker(name)
        if end is not None and not start <= end < LATEST_NS:
            report.note("negative_duration")
            report.repaired += 1
            end = start
        ranges.append(Range(marker, thread, start, -1 if end is None else end, others=others))


def _mark(time_ns: int, name: str, tid: int | None, others: dict[str, str]) -> Row:
    ((pid, thread),) = thread_ids(pa.array([tid], pa.int64()))
    return {
        "time_ns": time_ns,
        "category": "user_annotation",
        "name": name,
        "pid": "" if pid is None else str(pid),
        "tid": "" if thread is None else str(thread),
        "args": json.dumps(others) if others else None,
    }


def instants(marks: list[Row], origin: int) -> pa.Table:
    """Marks as table `instant`, with times from the recording's first event."""
    moved = [mark | {"time_ns": mark["time_ns"] - origin} for mark in marks]
    return pa.Table.from_pylist(moved, schema=READ["instant"])
