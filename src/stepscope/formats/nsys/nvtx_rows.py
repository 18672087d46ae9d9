"""NVTX ranges and marks of an export as columns of ranges, and as rows of table `instant`."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stepscope.formats.nsys.export import (
    CPU_PAGE_FAULTS,
    LATEST_NS,
    NVTX,
    constant,
    enumeration,
    mapped,
    mapped_rows,
    of_process,
    pid_of,
    thread_ids,
)
from stepscope.formats.nsys.host_rows import Threads
from stepscope.formats.nvtx.ranges import NONE, Int32s, Int64s, Ranges
from stepscope.formats.nvtx.texts import NAMELESS, Texts
from stepscope.formats.sqlite import Database
from stepscope.formats.tables import READ, ReadReport

_KINDS = {
    33: "NvtxCategory", 34: "NvtxMark", 59: "NvtxPushPopRange", 60: "NvtxStartEndRange",
    65: "NvtxtMark", 70: "NvtxtPushPopRange", 71: "NvtxtStartEndRange", 75: "NvtxDomainCreate",
}  # fmt: skip
_RANGES = ("PushPopRange", "StartEndRange")


def nvtx_ranges(
    database: Database, process: int | None, threads: Threads, report: ReadReport
) -> tuple[Ranges, pa.Table]:
    """Ranges, not yet nested, and table `instant`; times as recorded.

    A range that never ended ends with the last moment of its thread. What a program gave with a range
    (its payload) is not read.
    """
    texts = Texts()
    others = _Others()
    read = [_read(database, table, process, texts, others, threads, report) for table in NVTX]
    thread, start, end, marker, sequence, other = (
        np.concatenate(parts) for parts in zip(*(ranges for ranges, _ in read), strict=True)
    )
    ranges = Ranges(thread, start, end, marker, sequence, other, texts.markers, others.listed)
    return ranges, pa.concat_tables([marks for _, marks in read])


def _read(
    database: Database,
    table: str,
    process: int | None,
    texts: Texts,
    others: _Others,
    threads: Threads,
    report: ReadReport,
) -> tuple[tuple[Int64s, Int64s, Int64s, Int32s, Int64s, Int32s], pa.Table]:
    """The columns of `Ranges`, and table `instant`."""
    rows = database.columns(
        table,
        ("eventType", "start", "end", "text", "textId", "globalTid", "domainId", "category"),
        of_process("globalTid", process),
        text="text",
        textId="name",
    )
    kinds = {
        number: word.removeprefix("Nvtx").removeprefix("t")
        for number, word in enumeration(database, "ENUM_NSYS_EVENT_TYPE", _KINDS).items()
        if word.startswith("Nvtx")
    }
    kind = rows["eventType"]

    def which(*words: str) -> pa.ChunkedArray:
        found = [number for number, word in kinds.items() if word in words]
        return pc.is_in(kind, pa.array(found, pa.int64()))

    others.name(rows.filter(which("DomainCreate")), rows.filter(which("Category")))
    is_range = pc.or_(which(*_RANGES), kind.is_null())
    used = pc.or_(is_range, which("Mark"))
    start = rows["start"]
    timed = pc.and_(pc.greater_equal(start, 0), pc.less(start, LATEST_NS)).fill_null(False)
    lost = pc.sum(pc.and_not(used, timed)).as_py()
    if lost:
        report.note("no_time", count=lost)
        report.dropped += lost
    ranges = rows.filter(pc.and_(is_range, timed))
    marks = rows.filter(pc.and_(pc.and_not(used, is_range), timed))
    thread = threads.numbers(ranges["globalTid"]).to_numpy()
    end = _ended(thread, ranges, report)
    marker, sequence = _texts(ranges, texts)
    other = others.numbers(ranges)
    return (
        (thread, ranges["start"].to_numpy(), end, marker, sequence, other),
        _instants(marks, others),
    )


def cpu_page_faults(database: Database, process: int | None) -> pa.Table:
    """Faults of unified memory that the host raised, as table `instant`: they took no time of their own."""
    rows = database.columns(
        CPU_PAGE_FAULTS,
        ("start", "CpuInstruction", "module"),
        of_process("globalPid", process),
        CpuInstruction="name",
        module="name",
    )
    start = rows["start"]
    timed = pc.and_(pc.greater_equal(start, 0), pc.less(start, LATEST_NS)).fill_null(False)
    rows = rows.filter(timed)
    stated = {"function": rows["CpuInstruction"], "library": rows["module"]}

    def each(text: str) -> pa.Array:
        return constant(text, rows.num_rows).cast(pa.string())

    return pa.table(
        {
            "time_ns": rows["start"],
            "category": each("um_page_fault"),
            "name": each("CPU page fault"),
            "pid": each("" if process is None else str(pid_of(process))),
            "tid": each(""),
            "args": mapped_rows(
                {name: column.cast(pa.string()) for name, column in stated.items()}, json.dumps
            ).cast(pa.string()),
        },
        schema=READ["instant"],
    )


def _names(rows: pa.Table) -> pa.ChunkedArray:
    """The text of each row: one of its own comes before a registered one."""
    return pc.coalesce(rows["text"], rows["textId"].cast(pa.string()))


def _texts(rows: pa.Table, texts: Texts) -> tuple[Int32s, Int64s]:
    """Number of the marker, and autograd's number, of each row."""
    marker = np.empty(rows.num_rows, np.int32)
    sequence = np.empty(rows.num_rows, np.int64)
    at = 0
    for chunk in _names(rows).chunks:
        read = texts.read(chunk)
        marker[at : at + len(chunk)] = read.field("marker").to_numpy()
        sequence[at : at + len(chunk)] = read.field("sequence").fill_null(NONE).to_numpy()
        at += len(chunk)
    return marker, sequence


def _ended(thread: Int64s, rows: pa.Table, report: ReadReport) -> Int64s:
    """The end of each range; what never ended, ends with its thread's last moment."""
    start = rows["start"].to_numpy()
    open_ = rows["end"].is_null().to_numpy()
    end: Int64s = rows["end"].fill_null(0).to_numpy().copy()
    damaged = ~open_ & ~((start <= end) & (end < LATEST_NS))
    if damaged.any():
        report.note("negative_duration", count=int(damaged.sum()))
        report.repaired += int(damaged.sum())
        end[damaged] = start[damaged]
    if open_.any():
        report.note("unfinished", count=int(open_.sum()))
        report.repaired += int(open_.sum())
        last = np.zeros(int(thread.max()) + 1, np.int64)
        np.maximum.at(last, thread, np.where(open_, start, end))
        end[open_] = last[thread[open_]]
    return end


class _Others:
    """What else was recorded of an event: the names of its domain and category.

    Attributes:
        listed: what was recorded of some event, by number.
    """

    def __init__(self) -> None:
        self.listed: list[dict[str, str]] = []
        self._domains: dict[int | None, str] = {}
        self._categories: dict[tuple[int | None, int | None], str] = {}

    def name(self, domains: pa.Table, categories: pa.Table) -> None:
        """Takes the names that events give to domains and categories."""
        numbers = domains["domainId"].to_pylist()
        self._domains |= dict(zip(numbers, _names(domains).fill_null("").to_pylist(), strict=True))
        pairs = zip(
            categories["domainId"].to_pylist(), categories["category"].to_pylist(), strict=True
        )
        self._categories |= dict(
            zip(pairs, _names(categories).fill_null("").to_pylist(), strict=True)
        )

    def numbers(self, rows: pa.Table) -> Int32s:
        """The number in `listed` of what was recorded of each row; -1 for nothing."""
        domain, category = (
            rows[name].combine_chunks().dictionary_encode(null_encoding="encode")
            for name in ("domainId", "category")
        )
        width = max(len(category.dictionary), 1)
        packed = domain.indices.to_numpy().astype(np.int64) * width + category.indices.to_numpy()
        coded = pa.array(packed).dictionary_encode()
        table = [
            self._number(
                domain.dictionary[one // width].as_py(), category.dictionary[one % width].as_py()
            )
            for one in coded.dictionary.to_pylist()
        ]
        found: Int32s = np.array([*table, NONE], np.int32)[coded.indices.to_numpy()]
        return found

    def _number(self, domain: int | None, category: int | None) -> int:
        named = {
            "domain": self._domains.get(domain),
            "category": self._categories.get((domain, category)),
        }
        found = {key: word for key, word in named.items() if word}
        if not found:
            return NONE
        self.listed.append(found)
        return len(self.listed) - 1


def _instants(rows: pa.Table, others: _Others) -> pa.Table:
    """Marks as table `instant`."""
    ids = rows["globalTid"].combine_chunks().dictionary_encode(null_encoding="encode")
    spelled = [
        ("" if pid is None else str(pid), "" if tid is None else str(tid))
        for pid, tid in thread_ids(ids.dictionary)
    ]
    number = others.numbers(rows)
    told = [json.dumps(other) for other in others.listed]

    def each(texts: list[str], at: Any) -> pa.Array:
        return pa.array(texts, pa.string()).take(at)

    return pa.table(
        {
            "time_ns": rows["start"],
            "category": constant("user_annotation", rows.num_rows).cast(pa.string()),
            "name": mapped(_names(rows).fill_null(NAMELESS), str).cast(pa.string()),
            "pid": each([pid for pid, _ in spelled], ids.indices),
            "tid": each([tid for _, tid in spelled], ids.indices),
            "args": each(told, pa.array(number, mask=number < 0)),
        },
        schema=READ["instant"],
    )
