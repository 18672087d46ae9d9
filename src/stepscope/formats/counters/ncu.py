"""Reads what Nsight Compute measured: its reports, and the tables (`--csv`) of its pages `details` and `raw`.

A table starts with a line of column names, anywhere in the output of ncu (`==PROF== ...`) and the program. `details`
has a line for each metric and each rule, `raw` one for each launch of a kernel with a column for each metric and a line
of units below the names; `--print-summary` has one for each metric of similar launches. Numbers are spelled by the
locale of whoever printed them, and each line scales its unit to its value. A report is in NVIDIA's own format, and the
installed `ncu` makes the table from it.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from stepscope.base.errors import SourceError
from stepscope.formats.bounded import INT32, LIMIT, integer, integer_in
from stepscope.formats.container import Member
from stepscope.formats.counters.kinds import metric_named
from stepscope.formats.counters.measured import Measured
from stepscope.formats.counters.units import decimal_mark, number_of
from stepscope.formats.demangle import demangled
from stepscope.formats.exporter import Exporter
from stepscope.formats.options import ReadOptions
from stepscope.formats.sniff import PRINT_A_REPORT
from stepscope.formats.tables import Facts, RankTables, ReadReport, capabilities_of, from_rows
from stepscope.formats.text_lines import text_lines

REPORT = b"NVR\x00"
NCU = "Nsight Compute"
_LONGEST_LINE = 1 << 22
_LONGEST_HEAD = 1 << 16
_SHAPE = re.compile(r"\(?\s*(\d{1,12})\s*,\s*(\d{1,12})\s*,\s*(\d{1,12})\s*\)?\Z")
_HEAD = re.compile(
    rb'(?m)^"?(ID|Process ID)"?([,;\t])(?=[^\n]*"?(Process ID|Host Name|Kernel Name)"?[,;\t])[^\n]*"?Kernel Name"?[,;\t]'
)
_BANNER = re.compile(rb"(?m)^==PROF== ")
_NUMERIC = re.compile(r"[-+]?\d[\d.,e+\s-]*", re.IGNORECASE)
_MISSING = ("n/a", "nan", "no data", "-nan", "inf", "-inf")
_FIRST_CELL = re.compile(r'"?(\d{1,18})"?[,;\t]')
_DETAILS = ("Metric Name", "Metric Unit", "Metric Value")
_SUMMARY = ("Metric Name", "Metric Unit", "Minimum", "Maximum", "Average")
_COLUMNS = frozenset(
    {
        "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context", "Stream",
        "Block Size", "Grid Size", "Device", "CC", "Section Name", "Rule Name", "Rule Type",
        "Rule Description", "Estimated Speedup Type", "Estimated Speedup", "Invocations", "NVTX Range",
        "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
        "Id:Domain:Start/Stop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg", "", *_DETAILS, *_SUMMARY,
    }
)  # fmt: skip
"""Columns that are not metrics."""

_EXPORTER = Exporter(
    tool="ncu",
    title=NCU,
    ending=".ncu-rep",
    suffix=".csv",
    arguments=lambda report, _: ["--import", str(report), "--csv", "--page", "raw"],
    by_hand=PRINT_A_REPORT,
    prints=True,
)


def looks_like(head: bytes) -> bool:
    """Whether a file's first bytes are a report or a table."""
    return head.startswith(REPORT) or _HEAD.search(head) is not None


def may_be(head: bytes) -> bool:
    """Whether they could be: they have ncu's messages, and its table may come later."""
    return _BANNER.search(head) is not None


def peek(member: Member) -> Facts | None:
    """The file's origin, or None when it holds no kernel."""
    table = _Table(_printed(member), ReadReport())
    named = next((row for row in table.rows() if row.cells), None)
    if named is None:
        return None
    name = named.values.get("device__attribute_display_name", "")
    return Facts(tool=NCU, devices=(name,) if name else None, capabilities=capabilities_of([_capability(named)]))


def read(member: Member, _: ReadOptions | None = None) -> RankTables:
    """Reads one file, or one member of an archive, as the counters of one rank's kernels."""
    report = ReadReport()
    printed = _printed(member)
    launches = _Launches(report, _mark(printed))
    for row in _Table(printed, report).rows():
        launches.add(row)
    if not launches.measured.launches:
        raise SourceError(
            f"{member.label}: Nsight Compute printed no kernel's metrics here",
            hint=f"print a report's table: {PRINT_A_REPORT}",
            slug="no-recording",
        )
    tables = launches.measured.tables()
    report.read = tables["kernel_metric"].num_rows
    return RankTables(Facts(tool=NCU), report, **tables, device=launches.devices())


def _capability(row: _Row) -> dict[str, int | None]:
    """The compute capability that a line states, as columns of `device`."""
    parts = row.cells.get("CC", "").split(".")
    stated = len(parts) == 2 and all(part.isdecimal() and len(part) < 4 for part in parts)
    major, minor = map(int, parts) if stated else (None, None)
    return {"compute_major": major, "compute_minor": minor}


def _printed(member: Member) -> Member:
    with member.open() as stream:
        head = stream.read(len(REPORT))
    return _EXPORTER.export(member) if head == REPORT else member


@dataclass(slots=True)
class _Row:
    """A line of a table.

    Attributes:
        cells: of columns that are not metrics, by name.
        values: texts by metric, of a page `raw`.
        units: units by metric, of a page `raw`.
        table: number of the table in the file.
    """

    cells: dict[str, str]
    values: dict[str, str]
    units: dict[str, str]
    table: int


@dataclass(slots=True)
class _Table:
    member: Member
    report: ReadReport

    def rows(self) -> Iterator[_Row]:
        """Each line by column names; unreadable ones are counted."""
        names: list[str] = []
        units: dict[str, str] = {}
        delimiter, number, min_cells = ",", 0, 0
        pending = ""
        for line in text_lines(self.member, _LONGEST_LINE, self.report):
            head = _HEAD.match(line[:_LONGEST_HEAD].encode())
            if head:
                pending, units, number = "", {}, number + 1
                delimiter = head[2].decode()
                names = _cells(line, delimiter) or []
                # Lines of metrics end before the columns of rules; those of `raw` may lack a comma.
                last = [names.index(title) + 1 for title in ("Metric Value", "Average") if title in names]
                min_cells = last[0] if last else len(names) - 1
                continue
            if not names:
                continue
            if pending and not _FIRST_CELL.match(line):
                line = f"{pending}\n{line}"
            elif pending:
                self.report.drop("unreadable")
            pending = ""
            if not units and "Metric Name" not in names and line.startswith((f'""{delimiter}', delimiter)):
                units = dict(zip(names, _cells(line, delimiter) or [], strict=False))
                continue
            if not _FIRST_CELL.match(line):
                continue
            cells = _cells(line, delimiter)
            if cells is None and len(line) < _LONGEST_LINE:
                pending = line
            elif cells is None or not min_cells <= len(cells) <= len(names) + 1:
                self.report.drop("unreadable")
            else:
                yield _row(names, cells, units, number)
        if pending:
            self.report.drop("unreadable")
            self.report.truncated = True


def _row(names: list[str], cells: list[str], units: dict[str, str], table: int) -> _Row:
    row = _Row({}, {}, units, table)
    for name, cell in zip(names, cells, strict=False):
        (row.cells if name in _COLUMNS else row.values)[name] = cell
    return row


def _cells(line: str, delimiter: str) -> list[str] | None:
    """The cells of a line; None if a quotation continues in the next line, or one is too long."""
    if line.count('"') % 2:
        return None
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return None


def _mark(member: Member) -> str:
    """The decimal mark in this file: `.` unless a number shows that it is `,`."""
    for row in _Table(member, ReadReport()).rows():
        texts = [row.cells.get(name, "") for name in ("Metric Value", "Minimum", "Maximum", "Average")]
        for text in (*texts, *row.values.values()):
            mark = decimal_mark(text)
            if mark is not None:
                return mark
    return "."


@dataclass(slots=True)
class _Launches:
    report: ReadReport
    mark: str
    measured: Measured = field(default_factory=Measured)
    _numbers: dict[tuple[Any, ...], int] = field(default_factory=dict)
    _seen: set[tuple[int, str]] = field(default_factory=set)
    _devices: dict[int, dict[str, Any]] = field(default_factory=dict)

    def add(self, row: _Row) -> None:
        """Adds the values of a line."""
        cells = row.cells
        if "Average" in cells:
            self._add_summary(row)
        elif cells.get("Metric Name"):
            unit = cells.get("Metric Unit", "")
            self._add(row, metric_named(cells["Metric Name"], unit), cells.get("Metric Value", ""), unit)
        for metric, text in row.values.items():
            self._add(row, metric, text, row.units.get(metric, ""))
        self._know_device(row)

    def _launch(self, row: _Row) -> int:
        cells = row.cells
        name = cells.get("Kernel Name", "")
        key: tuple[Any, ...] = (row.table, cells.get("Process ID"), cells.get("ID"))
        if "ID" not in cells:
            key = (row.table, cells.get("Process ID"), name, cells.get("Device"), cells.get("Invocations"),
                   cells.get("Block Size"), cells.get("Grid Size"))  # fmt: skip
        if key not in self._numbers:
            details: dict[str, Any] = {
                column: _shape(cells.get(title, ""), self.report)
                for column, title in (("grid", "Grid Size"), ("block", "Block Size"))
            }
            details |= {
                column: integer_in(cells.get(title), self.report, below=INT32)
                for column, title in (("device", "Device"), ("stream", "Stream"))
            }
            runs = number_of(cells.get("Invocations", ""), self.mark)
            details["launches"] = integer(1 if runs is None else round(runs), self.report, low=1, below=10**15) or 1
            details = {column: value for column, value in details.items() if value is not None}
            self._numbers[key] = self.measured.launch(demangled(name) or name, NCU, **details)
        return self._numbers[key]

    def _add(self, row: _Row, metric: str, text: str, unit: str) -> None:
        launch = self._launch(row)
        value = number_of(text, self.mark)
        if value is None and text.strip().lower() not in _MISSING:
            if _NUMERIC.fullmatch(text.strip()):
                self.report.drop("unreadable")
            return  # texts, such as the configuration of caches
        if (launch, metric) not in self._seen:  # a metric may be in several sections
            self._seen.add((launch, metric))
            self.measured.add(launch, metric, value, unit)

    def _add_summary(self, row: _Row) -> None:
        cells = row.cells
        low, high, mean = (number_of(cells.get(name, ""), self.mark) for name in ("Minimum", "Maximum", "Average"))
        if mean is not None and low is not None and high is not None:
            unit = cells.get("Metric Unit", "")
            metric = metric_named(cells.get("Metric Name", ""), unit)
            self.measured.add(self._launch(row), metric, mean, unit, extremes=(low, high))

    def _know_device(self, row: _Row) -> None:
        """Takes a line's statements about the device, by index: attributes on page `raw`, a few labels on `details`."""
        values = row.values
        index = integer_in(values.get("device__attribute_device_index", row.cells.get("Device")), below=10_000)
        if index is None:
            return
        device = self._devices.setdefault(index, {})
        device |= {name: part for name, part in _capability(row).items() if part is not None}
        if row.cells.get("Metric Name") == "# SMs":
            count = number_of(row.cells.get("Metric Value", ""), self.mark)
            device["sm_count"] = None if count is None else integer(round(count), self.report, below=INT32)
        for column, attribute in _ATTRIBUTES.items():
            text = values.get(f"device__attribute_{attribute}", "")
            if (
                number := integer_in(text, self.report, below=LIMIT if column == "memory_bytes" else INT32)
            ) is not None:
                device[column] = number
        name = values.get("device__attribute_display_name")
        if name:
            device["name"] = name

    def devices(self) -> pa.Table:
        """The devices that the kernels ran on."""
        rows = [
            {"device": index, "kind": "cuda", "used": True, **device} for index, device in sorted(self._devices.items())
        ]
        return from_rows("device", rows)


_ATTRIBUTES = {
    "sm_count": "multiprocessor_count", "compute_major": "compute_capability_major",
    "compute_minor": "compute_capability_minor", "memory_bytes": "total_memory",
    "max_threads_per_sm": "max_threads_per_multiprocessor", "max_threads_per_block": "max_threads_per_block",
    "registers_per_sm": "max_registers_per_multiprocessor",
    "shared_memory_per_sm_bytes": "max_shared_memory_per_multiprocessor", "warp_size": "warp_size",
}  # fmt: skip


def _shape(text: str, report: ReadReport) -> str | None:
    match = _SHAPE.match(text)
    if match is None and text.strip():
        report.note("wrong_type")
    return None if match is None else ",".join(str(int(axis)) for axis in match.groups())
