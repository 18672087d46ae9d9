"""Reads what nvprof prints: its GPU trace and its API trace, as text or as CSV.

A table follows the line `Profiling result:`; output of the program may surround it. Its columns are known by their
names; other columns are events and metrics that were measured of each kernel. Texts round each time to five digits, CSV
all times to six decimals of one unit.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal, DecimalException
from typing import Any

import pyarrow as pa

from stepscope.formats import vocabulary
from stepscope.formats.bounded import INT32, integer, integer_in, real_in
from stepscope.formats.counters.measured import of_events
from stepscope.formats.cupti.columns import LATEST_NS
from stepscope.formats.cupti.device_rows import NAMELESS, copy_names, fill_name
from stepscope.formats.demangle import demangled
from stepscope.formats.nvtx.rows import role_of
from stepscope.formats.tables import from_rows
from stepscope.formats.text_lines import text_lines
from stepscope.plugin import FileFacts, Format, Member, RankTables, ReadOptions, ReadReport, SourceError

Row = dict[str, Any]

LONGEST_LINE = 1 << 17
BANNER = re.compile(r"==(\d+|====)== (.*)")
_LOOKS = re.compile(rb"(?m)^==(\d+|====)== (NVPROF is profiling|Profiling (application|result))")
_RESULT = "Profiling result:"
_APART = re.compile(r"\s{2,}")
_QUANTITY = re.compile(r"(-?[\d.]+(?:e[+-]?\d+)?)\s*([A-Za-z%/]*)\Z")
_SCALES = {
    "s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1, "": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20,
    "GB": 1 << 30,
}  # fmt: skip
DEVICE = re.compile(r"(.*?)(?: \((\d+)\))?\Z")
_LEVEL = re.compile(r"\w+ \((\d+)\)\Z")
_CORRELATED = re.compile(r"(.*) \[(\d+)\]\Z", re.DOTALL)
_LAUNCHING = re.compile(r"(\w+) \((?:.* \[(\d+)\]\)\Z|.*)", re.DOTALL)
"""A call that launched, in text form: `cudaLaunchKernel (void gemm(int) [2743])`, cut after 1000 letters."""
_UNITS = frozenset(_SCALES) - {""} | {"%", *(f"{size}/s" for size in ("B", "KB", "MB", "GB"))}
_BINARY = re.compile(r"([KMG])B/s\Z")
_COPY = re.compile(r"\[CUDA memcpy (\w+)\]\Z")
_FILL = "[CUDA memset]"
_MARKS = ("[Range start] ", "[Range end] ", "[Marker] ")

_COLUMNS = {
    "Start": "start", "Duration": "duration", "Grid X": "grid_x", "Grid Y": "grid_y",
    "Grid Z": "grid_z", "Block X": "block_x", "Block Y": "block_y", "Block Z": "block_z",
    "Grid Size": "grid", "Block Size": "block", "Registers Per Thread": "registers",
    "Regs*": "registers", "Static SMem": "static", "SSMem*": "static", "Dynamic SMem": "dynamic",
    "DSMem*": "dynamic", "Size": "size", "Throughput": "throughput", "SrcMemType": "source",
    "DstMemType": "target", "Device": "device", "Context": "context", "Stream": "stream",
    "Name": "name", "Kernel": "name", "Correlation_ID": "correlation",
    "Unified Memory": "managed", "Virtual Address": "address", "Source": "from", "Destination": "to",
}  # fmt: skip
"""Columns of nvprof's tables, as text and as CSV; other columns were measured of kernels."""

ERRORS = {
    "sums-only": (
        "A log of nvprof has only sums for each kernel and call, as nvprof prints them by default, and no "
        "single kernel: not when it ran, how long, or what launched it. Print each with `nvprof "
        "--print-gpu-trace --print-api-trace --csv`, or keep everything with `nvprof -o FILE`."
    ),
}


def looks_like(head: bytes) -> bool:
    """Whether a file's first bytes could be a log of nvprof."""
    return _LOOKS.search(head) is not None


def peek(member: Member) -> FileFacts | None:
    """The file's origin, or None when it holds no table."""
    log = _Log(member, ReadReport())
    row = next(log.rows(), None)
    return None if row is None else FileFacts(pid=log.pid, tool="nvprof")


def read(member: Member, _: ReadOptions | None = None) -> RankTables:
    """Reads one file, or one member of an archive, as the recording of one rank."""
    report = ReadReport()
    log = _Log(member, report)
    tables = _Tables(report)
    for row in log.rows():
        tables.add(row)
    if not tables.device_event and not tables.host_event:
        raise SourceError(
            f"{member.label}: this log of nvprof holds no kernel and no call",
            hint="print them with nvprof --print-gpu-trace --print-api-trace --csv",
            slug="no-recording",
        )
    report.read = len(tables.device_event) + len(tables.host_event) + len(tables.instant)
    facts = FileFacts(pid=log.pid, tool="nvprof", resolution_ns=log.resolution_ns)
    return RankTables(facts=facts, report=report, **tables.tables(log.pid))


@dataclass(slots=True)
class _Log:
    """The rows of the tables in a log; `resolution_ns` is the coarsest step of the times so far."""

    member: Member
    report: ReadReport
    pid: int | None = None
    resolution_ns: int = 1

    def rows(self) -> Iterator[Row]:
        """Each row as cells by column; times in ns under `start` and `duration`, None if there is none.

        Raises:
            SourceError: the log holds only sums.
        """
        columns: list[str] | None = None
        units: list[str] | None = None
        awaited = sums = has_rows = as_csv = False
        head = ""
        for line in text_lines(self.member, LONGEST_LINE, self.report):
            banner = BANNER.match(line)
            if banner:
                self.pid = integer_in(banner[1], self.report if banner[1].isdigit() else None) or self.pid
                awaited, columns, units = banner[2].startswith(_RESULT), None, None
                head = ""
                continue
            as_csv = line.startswith('"') if columns is None else as_csv
            cells = cells_of(line, None if columns is None else len(columns), as_csv=as_csv)
            if awaited:
                awaited = False
                if {"Device", "Duration"} & set(cells):
                    columns, units = cells, [] if as_csv else None
                    head, has_rows = "" if as_csv else line, True
                sums |= columns is None and bool({"Time(%)", "Invocations"} & set(cells))
            elif columns is not None and units == []:
                units = cells
            elif columns is not None and not line.strip():
                columns = None
            elif columns is not None and head and (below := _units_below(head, line)):
                units, head = below, ""
            elif columns is not None:
                head = ""
                row = self._row(columns, units, cells)
                if row is None:
                    self.report.drop("unreadable")
                else:
                    yield row
        if sums and not has_rows:
            raise SourceError(
                f"{self.member.label}: this log of nvprof holds sums alone, and no kernel on its own",
                hint="print each with nvprof --print-gpu-trace --print-api-trace --csv, or use nvprof -o FILE",
                slug="sums-only",
            )

    def _row(self, columns: list[str], units: list[str] | None, cells: list[str]) -> Row | None:
        if len(cells) != len(columns):
            return None
        row: Row = {"measured": []}
        scales = units if units and len(units) == len(columns) else [""] * len(columns)
        for column, unit, cell in zip(columns, scales, cells, strict=True):
            key = _COLUMNS.get(column)
            if key is None:
                row["measured"].append((column, cell, unit))
            elif cell not in ("", "-"):
                timed = key in ("start", "duration")
                row[key] = self._time(cell, unit) if timed else (cell, unit)
                if timed and row[key] is None:
                    return None
        return row

    def _time(self, cell: str, unit: str) -> int | None:
        match = _QUANTITY.match(cell)
        value = _amount(cell, unit)
        if match is None or value is None or not 0 <= value < LATEST_NS:
            return None
        decimals = len(match[1].partition(".")[2])
        step = _SCALES[match[2] or unit] // 10**decimals
        self.resolution_ns = max(self.resolution_ns, step)
        return value


def _units_below(head: str, line: str) -> list[str]:
    """The units of a text's columns, if the line below their names has only units: a unit ends where its column's name
    does. Otherwise empty."""
    words = {word.end(): word[0] for word in re.finditer(r"\S+", line)}
    if not words or not all(word in _UNITS for word in words.values()):
        return []
    return [words.get(name.end(), "") for name in re.finditer(r"\S+(?: \S+)*", head)]


def cells_of(line: str, count: int | None = None, *, as_csv: bool) -> list[str]:
    """The cells of a line; in text they are two spaces apart, and the last of `count` takes the rest."""
    if not as_csv:
        return _APART.split(line.strip(), maxsplit=0 if count is None else count - 1)
    try:
        return next(csv.reader([line]), [])
    except csv.Error:
        return []


def _amount(cell: str, unit: str = "") -> int | None:
    """A number in ns or bytes, converted from its own or the column's unit."""
    match = _QUANTITY.match(cell)
    scale = _SCALES.get(match[2] or unit) if match else None
    if match is None or scale is None:
        return None
    try:
        value = Decimal(match[1]) * scale
        return round(value) if abs(value) < LATEST_NS else None
    except DecimalException:
        return None


@dataclass(slots=True)
class _Tables:
    report: ReadReport
    device_event: list[Row] = field(default_factory=list)
    host_event: list[Row] = field(default_factory=list)
    instant: list[Row] = field(default_factory=list)
    measured: list[Row] = field(default_factory=list)
    devices: dict[int, str] = field(default_factory=dict)

    def add(self, row: Row) -> None:
        """Adds a row of a log: work on a device, a call, or a mark."""
        name = row.get("name", ("", ""))[0]
        start = row.get("start")
        if "device" in row:
            self._add_work(row, name)
        elif name.startswith(_MARKS) and start is not None:
            self.instant.append({"time_ns": start, "category": "nvtx", "name": name})
        elif start is not None and name:
            launching = _LAUNCHING.match(name)
            if launching:
                name, row["correlation"] = launching[1], (launching[2] or "", "")
            self.host_event.append(
                {
                    "category": "cuda_driver" if name.startswith("cu") and name[2:3].isupper() else "cuda_runtime",
                    "kind": "runtime",
                    "name": name,
                    "role": role_of("runtime", name),
                    "thread": 0,
                    "start_ns": start,
                    "dur_ns": row.get("duration", 0),
                    "correlation": _integer(row, "correlation", self.report),
                }
            )  # fmt: skip
        else:
            self.report.drop("no_time")

    def _add_work(self, row: Row, name: str) -> None:
        spelled = DEVICE.match(row["device"][0])
        device = integer_in(spelled[2], below=10_000) or 0 if spelled else 0
        self.devices.setdefault(device, spelled[1] if spelled else "")
        stream = _integer(row, "stream", self.report)
        event: Row = {
            "start_ns": row.get("start", len(self.device_event)),
            "dur_ns": row.get("duration", 0),
            "device": device,
            "stream": -1 if stream is None else stream,
            "context": _integer(row, "context", self.report),
            "correlation": _integer(row, "correlation", self.report),
        }
        if "start" not in row:
            self.report.note("no_moments")
        copy = _COPY.match(name)
        source, target = (row.get(key, ("Unknown", ""))[0] for key in ("source", "target"))
        if copy:
            event |= {"category": "gpu_memcpy", "kind": "copy", **copy_names(copy[1], source, target)}
        elif name == _FILL:
            # nvprof names the memory that a fill writes as its source.
            event |= {"category": "gpu_memset", "kind": "fill", "name": fill_name(source)}
            event["destination_memory"] = source.lower()
        else:
            event |= _kernel(row, name, self.report)
        if copy or name == _FILL:
            event["bytes"] = _integer(row, "size", self.report)
        for metric, cell, unit in row["measured"]:
            value, of = measured_value(cell, self.report)
            if value is not None:
                place = {"device_row": len(self.device_event), "metric": metric}
                self.measured.append(place | {"value": value, "unit": of or binary_unit(unit)})
        self.device_event.append(event)

    def tables(self, pid: int | None) -> dict[str, pa.Table]:
        """The tables, times counted from the first event."""
        first = min(
            [row["start_ns"] for row in (*self.device_event, *self.host_event)]
            + [row["time_ns"] for row in self.instant]
        )
        for row in (*self.device_event, *self.host_event):
            row["start_ns"] -= first
        process = "" if pid is None else str(pid)
        for row in self.instant:
            row |= {"time_ns": row["time_ns"] - first, "pid": process, "tid": ""}
        streams = sorted({(row["device"], row["stream"]) for row in self.device_event})
        rows = {
            "device_event": self.device_event,
            "host_event": self.host_event,
            "instant": self.instant,
            "thread": [{"thread": 0, "pid": process, "tid": "", "kind": "track"}] if self.host_event else [],
            "stream": [{"device": device, "stream": stream} for device, stream in streams],
            "device": [
                {"device": device, "kind": "cuda", "name": name or None, "used": True}
                for device, name in sorted(self.devices.items())
            ],
        }
        tables = {name: from_rows(name, rows) for name, rows in rows.items()}
        return tables | of_events(self.measured, self.device_event.__getitem__)


def _kernel(row: Row, name: str, report: ReadReport) -> Row:
    correlated = _CORRELATED.match(name)
    spelled = demangled(correlated[1] if correlated else name) or NAMELESS
    static, dynamic = _integer(row, "static", report), _integer(row, "dynamic", report)
    columns: Row = {
        "category": "kernel",
        "kind": vocabulary.device_kind("computation", spelled),
        "name": spelled,
        "registers_per_thread": _integer(row, "registers", report, INT32),
        "dynamic_shared_memory_bytes": dynamic,
        "shared_memory_bytes": None if static is None and dynamic is None
        else (static or 0) + (dynamic or 0),
    }  # fmt: skip
    if correlated:
        columns["correlation"] = _amount(correlated[2])
    for size in ("grid", "block"):
        together = row.get(size, ("", ""))[0].strip("()").split()
        for axis, cell in zip("xyz", together, strict=False):
            row[f"{size}_{axis}"] = (cell, "")
        for axis in "xyz":
            columns[f"{size}_{axis}"] = _integer(row, f"{size}_{axis}", report, INT32)
    return columns


def _integer(row: Row, key: str, report: ReadReport, below: int = LATEST_NS) -> int | None:
    """A nonnegative number of a row."""
    value = _amount(*row[key]) if key in row else None
    return integer(row.get(key) if value is None else value, report, below=below)


def measured_value(cell: str, report: ReadReport) -> tuple[float | None, str]:
    """A measured value and its unit: `0.46`, `93.75%`, `1.5GB/s`, `Low (2)`."""
    level = _LEVEL.match(cell)
    match = _QUANTITY.match(level[1] if level else cell)
    value = real_in(match[1] if match else cell.strip("-"), report)
    return value, "" if value is None or match is None else binary_unit(match[2])


def binary_unit(unit: str) -> str:
    """A unit of nvprof as others spell it: its GB/s are 2^30 bytes."""
    return _BINARY.sub(r"\1iB/s", unit)


FORMAT = Format(
    "nvprof-log", "log of nvprof (--print-gpu-trace, --print-api-trace), as text or CSV", looks_like, peek, read
)
