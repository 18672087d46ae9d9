"""NVTX ranges and marks of an export as columns of ranges, and as rows of table `instant`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stepscope.formats.cupti.columns import LATEST_NS, constant, distinct_rows, mapped, mapped_rows, timed
from stepscope.formats.nsys.export import CPU_PAGE_FAULTS, NVTX, enumeration, of_process, pid_of, thread_ids
from stepscope.formats.nsys.host_rows import Threads
from stepscope.formats.nsys.payloads import MAX_NUMBERS, TYPES, Messages, Payloads
from stepscope.formats.nvtx.ranges import NONE, Numbering, Ranges
from stepscope.formats.nvtx.texts import Texts
from stepscope.formats.scratch import spill
from stepscope.formats.sqlite import Database
from stepscope.formats.tables import READ, ReadReport
from stepscope.formats.vocabulary import NAMELESS_RANGE
from stepscope.schema.arrays import Int32s, Int64s

_KINDS = {
    33: "NvtxCategory", 34: "NvtxMark", 59: "NvtxPushPopRange", 60: "NvtxStartEndRange",
    65: "NvtxtMark", 70: "NvtxtPushPopRange", 71: "NvtxtStartEndRange", 75: "NvtxDomainCreate",
}  # fmt: skip
_RANGES = ("PushPopRange", "StartEndRange")
_COLUMNS = ("eventType", "start", "end", "text", "textId", "globalTid", "domainId", "category")
_PAYLOAD = "payload"


def nvtx_ranges(
    database: Database, process: int | None, threads: Threads, report: ReadReport
) -> tuple[Ranges, pa.Table, Messages]:
    """Ranges, not yet nested, and table `instant`; times as recorded.

    A range that never ended ends with the last moment of its thread.

    Returns:
        the ranges, table `instant`, and what payloads say about collectives.
    """
    words = enumeration(database, "ENUM_NSYS_EVENT_TYPE", _KINDS)
    kinds = {
        number: word.removeprefix("Nvtx").removeprefix("t") for number, word in words.items() if word.startswith("Nvtx")
    }
    texts, others = Texts(), _Others()
    parts: list[_Columns] = [_Columns.empty()]
    marks: list[pa.Table] = []
    of_this_process = of_process("globalTid", process)
    for table in NVTX:
        payloads = Payloads(database, table, of_this_process)
        for rows in database.chunks(
            table, (*_COLUMNS, *payloads.columns), of_this_process, text="text", textId="name", **TYPES
        ):
            if (given := payloads.of(rows)) is not None:
                rows = rows.append_column(_PAYLOAD, given)
            kind = rows["eventType"].combine_chunks()
            others.name(rows.filter(_is(kind, kinds, "DomainCreate")), "domain")
            others.name(rows.filter(_is(kind, kinds, "Category")), "category")
            is_range = pc.or_(_is(kind, kinds, *_RANGES), kind.is_null())
            ranges_of = timed(rows.filter(is_range), "start", report)
            parts.append(_columns(ranges_of, texts, others, threads))
            is_mark = _is(kind, kinds, "Mark")
            if pc.any(is_mark).as_py():
                marks.append(timed(rows.filter(is_mark), "start", report))
    all_columns = _Columns(*_concatenated(parts))
    ranges = Ranges(
        all_columns.thread,
        all_columns.start,
        _ended(all_columns, report),
        all_columns.marker,
        all_columns.sequence,
        spill(others.resolved(all_columns.pair)),
        texts.markers,
        others.listed,
        _collective(others.collective(all_columns.pair), all_columns, texts),
    )
    instants = [_instants(rows, others) for rows in marks]
    instant = pa.concat_tables([READ["instant"].empty_table(), *instants])
    return ranges, instant, others.messages


def _collective(call_of_range: Int32s, ranges: _Columns, texts: Texts) -> Int32s | None:
    """The collective that each range called; None if none did.

    NCCL launches calls between ncclGroupStart and ncclGroupEnd, as torch makes them, within the end; so the end gets
    the arguments if they are one call's.
    """
    if (call_of_range < 0).all():
        return None
    starts, ends = (texts.named(f"ncclGroup{which}") for which in ("Start", "End"))
    nccl = np.flatnonzero(np.isin(ranges.marker, [*starts, *ends]) | (call_of_range >= 0))
    nccl = nccl[np.lexsort((ranges.start[nccl], ranges.thread[nccl]))]
    thread, depth = -1, 0
    calls: list[int] = []
    for at, on, marker in zip(nccl.tolist(), ranges.thread[nccl].tolist(), ranges.marker[nccl].tolist(), strict=True):
        if on != thread:
            thread, depth, calls = on, 0, []
        if marker in starts:
            depth += 1
        elif marker not in ends:
            calls.append(int(call_of_range[at]))
        else:
            depth -= 1
            if depth <= 0:
                if len(calls) == 1:
                    call_of_range[at] = calls[0]
                depth = 0
        if depth == 0:
            calls = []
    return call_of_range


class _Columns(NamedTuple):
    """Ranges as read; `end` is -1 if a range never ended, -2 if its end is damaged."""

    thread: Int32s
    start: Int64s
    end: Int64s
    marker: Int32s
    sequence: Int64s
    pair: Int32s

    @classmethod
    def empty(cls) -> _Columns:
        """No ranges."""
        times, numbers = np.empty(0, np.int64), np.empty(0, np.int32)
        return cls(numbers, times, times, numbers, times, numbers)


def _concatenated(parts: list[_Columns]) -> Iterator[Any]:
    """Each field of all parts; removes it from them, so that little is in memory twice."""
    fields = list(map(list, zip(*parts, strict=True)))
    parts.clear()
    while fields:
        yield spill(np.concatenate(fields.pop(0)))


_OPEN, _DAMAGED = -1, -2


def _is(kind: pa.Array, kinds: dict[int, str], *words: str) -> pa.Array:
    numbers = [number for number, word in kinds.items() if word in words]
    return pc.is_in(kind, pa.array(numbers, pa.int64()))


def _columns(rows: pa.Table, texts: Texts, others: _Others, threads: Threads) -> _Columns:
    read = texts.read(_names(rows).combine_chunks())
    start = rows["start"].to_numpy()
    end = rows["end"].fill_null(_OPEN).to_numpy()
    good = ((start <= end) & (end < LATEST_NS)) | rows["end"].is_null().to_numpy()
    columns = (
        threads.numbers(rows["globalTid"]).to_numpy(),
        start,
        np.where(good, end, _DAMAGED),
        read.field("marker").to_numpy(),
        read.field("sequence").fill_null(NONE).to_numpy(),
        others.pairs(rows),
    )
    return _Columns(*map(spill, columns))


def cpu_page_faults(database: Database, process: int | None, report: ReadReport) -> pa.Table:
    """Faults of unified memory that the host raised, as table `instant`: they have no duration of their own."""
    rows = database.columns(
        CPU_PAGE_FAULTS,
        ("start", "CpuInstruction", "module"),
        of_process("globalPid", process),
        CpuInstruction="name",
        module="name",
    )
    rows = timed(rows, "start", report)
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
            "args": mapped_rows({name: column.cast(pa.string()) for name, column in stated.items()}, json.dumps).cast(
                pa.string()
            ),
        },
        schema=READ["instant"],
    )


def _names(rows: pa.Table) -> pa.ChunkedArray:
    """The text of each row: its own text comes before a registered one."""
    return pc.coalesce(rows["text"], rows["textId"].cast(pa.string()))


def _ended(ranges: _Columns, report: ReadReport) -> Int64s:
    """The end of each range, changed in place; an unfinished one ends with its thread's last moment."""
    end = ranges.end
    damaged, open_ = end == _DAMAGED, end == _OPEN
    if damaged.any():
        report.repair("negative_duration", int(damaged.sum()))
        end[damaged] = ranges.start[damaged]
    if open_.any():
        report.repair("unfinished", int(open_.sum()))
        last = np.zeros(int(ranges.thread.max()) + 1, np.int64)
        np.maximum.at(last, ranges.thread, np.maximum(ranges.start, end))
        end[open_] = last[ranges.thread[open_]]
    return end


class _Others:
    """What else was recorded for an event: its payload, and the names of its domain and category, which may
    come later."""

    def __init__(self) -> None:
        self.listed: list[dict[str, Any]] = []
        self.messages = Messages()
        self._pairs: Numbering[tuple[int | None, int | None, str | None]] = Numbering()
        self._names: dict[str, dict[tuple[int | None, int | None], str]] = {"domain": {}, "category": {}}

    def name(self, rows: pa.Table, of: str) -> None:
        """Records the names that events give to domains or categories."""
        texts = _names(rows).fill_null("").to_pylist()
        domains, categories = (rows[name].to_pylist() for name in ("domainId", "category"))
        for domain, category, text in zip(domains, categories, texts, strict=True):
            self._names[of][domain, category if of == "category" else None] = text

    def pairs(self, rows: pa.Table) -> Int32s:
        """One number for each row's domain, category and payload together."""
        given = {name: rows[name] for name in ("domainId", "category")}
        if _PAYLOAD in rows.column_names:
            given[_PAYLOAD] = rows[_PAYLOAD].cast(pa.string())
        distinct, codes = distinct_rows(given)
        table = [self._number(row["domainId"], row["category"], row.get(_PAYLOAD)) for row in distinct]
        return np.array([*table, NONE], np.int32)[codes]

    def _number(self, domain: int | None, category: int | None, payload: str | None) -> int:
        if len(self._pairs.of) >= MAX_NUMBERS and (domain, category, payload) not in self._pairs.of:
            payload = None
        return self._pairs.number((domain, category, payload))

    def collective(self, pairs: Int32s) -> Int32s:
        """The number of the collective in each combination's payload, -1 for none."""
        calls = [
            self.messages.number(json.loads(payload)) if payload else None for _, _, payload in self._pairs.listed()
        ]
        table = [NONE if call is None else call for call in calls]
        return np.array([*table, NONE], np.int32)[pairs]

    def resolved(self, pairs: Int32s) -> Int32s:
        """The number in `listed` of what was recorded for each combination; -1 for nothing."""
        table: list[int] = []
        for domain, category, payload in self._pairs.listed():
            named = {
                "domain": self._names["domain"].get((domain, None)),
                "category": self._names["category"].get((domain, category)),
            }
            fields: dict[str, Any] = {key: word for key, word in named.items() if word}
            fields |= json.loads(payload) if payload else {}
            table.append(len(self.listed) if fields else NONE)
            if fields:
                self.listed.append(fields)
        return np.array([*table, NONE], np.int32)[pairs]


def _instants(rows: pa.Table, others: _Others) -> pa.Table:
    ids = rows["globalTid"].combine_chunks().dictionary_encode(null_encoding="encode")
    spelled = [
        ("" if pid is None else str(pid), "" if tid is None else str(tid)) for pid, tid in thread_ids(ids.dictionary)
    ]
    number = others.resolved(others.pairs(rows))
    texts_of_others = [json.dumps(other) for other in others.listed]

    def each(texts: list[str], at: Any) -> pa.Array:
        return pa.array(texts, pa.string()).take(at)

    return pa.table(
        {
            "time_ns": rows["start"],
            "category": constant("user_annotation", rows.num_rows).cast(pa.string()),
            "name": mapped(_names(rows).fill_null(NAMELESS_RANGE), str).cast(pa.string()),
            "pid": each([pid for pid, _ in spelled], ids.indices),
            "tid": each([tid for _, tid in spelled], ids.indices),
            "args": each(texts_of_others, pa.array(number, mask=number < 0)),
        },
        schema=READ["instant"],
    )
