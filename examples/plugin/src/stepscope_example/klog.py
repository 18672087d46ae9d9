"""A reader of kernel logs: a first line with the device's name, then CSV with one event per line.

# klog of Example GPU 7
kind,name,stream,start_ns,dur_ns,correlation,shapes,types
step,ProfilerStep#1,,0,1000000,,,
operator,mylib::fused_op,,10000,50000,,"[[1024, 1024], [1024]]","[""float"", ""float""]"
launch,cudaLaunchKernel,,20000,5000,1,,
kernel,fused_op_kernel,7,40000,600000,1,,
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from stepscope.plugin import READER_TABLES, FileFacts, Format, Member, RankTables, ReadOptions, ReadReport

MAGIC = b"# klog of "
LONGEST = 1 << 60

Row = dict[str, Any]


def sniff(head: bytes) -> bool:
    return head.startswith(MAGIC)


def peek(_: Member) -> FileFacts | None:
    return FileFacts(tool="klog")


def read(member: Member, _: ReadOptions) -> RankTables:
    report = ReadReport()
    with member.open() as stream:
        text = io.StringIO(stream.read().decode("utf-8", "replace"))
    device = text.readline().removeprefix(MAGIC.decode()).strip()
    host: list[Row] = []
    work: list[Row] = []
    inputs: dict[tuple[str, str], int] = {}
    for row in _rows(text, report):
        given = row.pop("shapes"), row.pop("types")
        row["input_id"] = inputs.setdefault(given, len(inputs)) if all(given) else None
        (work if row["kind"] == "computation" else host).append(row)
    report.read = len(host) + len(work)
    return RankTables(
        FileFacts(tool="klog"),
        report,
        host_event=_table("host_event", host, thread=0),
        device_event=_table("device_event", work, device=0),
        thread=_table("thread", [{"thread": 0, "pid": "1", "tid": "1", "kind": "thread"}]),
        device=_table("device", [{"device": 0, "kind": "cuda", "name": device, "used": True}]),
        operator_input=_table(
            "operator_input",
            [{"input_id": number, "dims": shapes, "types": types} for (shapes, types), number in inputs.items()],
        ),
    )


EVENTS: dict[str, Row] = {
    "step": {"category": "user_annotation", "kind": "annotation", "role": "step"},
    "operator": {"category": "cpu_op", "kind": "operator"},
    "launch": {"category": "cuda_runtime", "kind": "runtime", "role": "launch"},
    "kernel": {"category": "kernel", "kind": "computation"},
}


def _rows(text: io.StringIO, report: ReadReport) -> Iterator[Row]:
    """The rows that can be used; what is damaged is counted, never an exception."""
    for row in csv.DictReader(text):
        try:
            times = {name: int(row[name]) for name in ("start_ns", "dur_ns")}
            numbers = {name: int(row[name] or -1) for name in ("stream", "correlation")}
            texts = {name: row[name] or "" for name in ("name", "shapes", "types")}
            event = EVENTS[row["kind"]]
        except (KeyError, TypeError, ValueError):
            report.dropped += 1
            report.note("unreadable")
            continue
        if not 0 <= times["start_ns"] < LONGEST or not 0 <= times["dur_ns"] < LONGEST:
            report.dropped += 1
            report.note("wrong_type")
            continue
        yield event | texts | times | numbers


def _table(name: str, rows: list[Row], **same: Any) -> pa.Table:
    """A table with the columns of the schema: what a row lacks is NULL, what it has besides is left out."""
    return pa.Table.from_pylist([same | row for row in rows], schema=READER_TABLES[name])


FORMAT = Format(name="klog", title="kernel log (.klog)", sniff=sniff, peek=peek, read=read)
