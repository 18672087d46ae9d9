"""Reads the CSV reports of Intel VTune (`vtune -report KIND -format csv`): one row a function, module, thread, ...

What a report states about functions and stacks in CPU time, instructions or cycles becomes samples; every other metric
becomes a row of `host_metric` under VTune's own name. The function report of hotspots was tried with a real file; the
layout of the others is known from Intel's user guide (2025) and from other readers, and their rows say so.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from stepscope.base.errors import SourceError
from stepscope.formats.bounded import INT32, integer, integer_in, real_in
from stepscope.formats.container import Member, strip_bom
from stepscope.formats.frames import Frame
from stepscope.formats.host_metrics import Row
from stepscope.formats.options import ReadOptions
from stepscope.formats.sampled.stacks import Samples
from stepscope.formats.tables import Facts, RankTables, ReadReport, from_rows
from stepscope.formats.text_lines import text_lines

_LONGEST_LINE = 1 << 18
_DELIMITERS = ",;\t|"
_SUBJECTS = frozenset(
    {
        "Function", "Function Stack", "Function / Call Stack", "Call Stack", "Callers", "Callees", "Module",
        "Thread", "Process", "Source File", "Source Line", "Source Function", "Basic Block", "Package",
        "Physical Core", "Logical Core", "Core", "Task Type", "Memory Object", "Bandwidth Domain",
        "Hierarchy Level", "Sync Object", "OpenMP Region", "Frame Domain",
    }
)  # fmt: skip
"""What the first column of a report can be. Source: `-group-by` in Intel's user guide."""
_ABOUT = frozenset(
    {
        "Function (Full)", "Start Address", "TID", "PID", "Function Type", "Module Path", "Source File Path",
        "Viewpoint", "Class",
    }
)  # fmt: skip
"""Further columns that say what a row is about, and measure nothing."""
_MEASURES = re.compile(
    r"(?:CPU Time|Instructions Retired|CPI Rate|Clockticks|Hardware Event|Wait Time|Wait Count|Elapsed Time|"
    r"Memory Bound|Loads|Stores|LLC Miss Count|Allocation|Deallocations|Average Latency|Microarchitecture Usage|"
    r"Retiring|Front-End Bound|Bad Speculation|Back-End Bound|Core Bound|Effective Time|Spin Time|Overhead Time|"
    r"Metric Value|Average CPU Frequency)\b"
)
_STACKED = ("Function Stack", "Function / Call Stack")
_TIME, _INSTRUCTIONS, _CPI, _CYCLES = "CPU Time", "Instructions Retired", "CPI Rate", "Clockticks"
_SAMPLED = (_TIME, _INSTRUCTIONS, _CPI, _CYCLES)
_SELF = ":Self"
_VALUE = re.compile(r"(-?[\d.,]+(?:e[+-]?\d+)?)\s*([A-Za-z%/]*)", re.IGNORECASE)
_UNIT_NS = {"": 10**9, "s": 10**9, "sec": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_UNKNOWN = ("[Unknown]", "[Unknown source file]", "[Unknown module]", "[Unknown stack frame(s)]")
_NAMED_UNIT = re.compile(r"\(([^()]{1,24})\)\Z")


def looks_like(head: bytes) -> bool:
    """Whether a file's first line is the header of a report of VTune."""
    line = strip_bom(head).lstrip(b"\r\n").split(b"\n", 1)[0].decode("utf-8", "replace")
    return _header(line.removesuffix("\r")) is not None


def peek(member: Member) -> Facts | None:
    """The file's origin: VTune. None when it has no row."""
    return Facts(tool="VTune") if next(_Report.of(member).rows(ReadReport()), None) else None


def read(member: Member, _: ReadOptions | None = None) -> RankTables:
    """Reads one file, or one member of an archive, as the recording of one rank."""
    report = ReadReport()
    table = _Report.of(member)
    samples = Samples("cpu")
    metrics: list[Row] = []
    stack: list[Frame] = []
    for cells in table.rows(report):
        metrics += table.metrics(cells)
        if table.sampled:
            stack = table.stack(cells, stack, report)
            figures = table.figures(cells, report)
            if any(figure is not None for figure in figures.values()):
                samples.add(stack, **figures)
        report.read += 1
    if not report.read:
        raise SourceError(
            f"{member.label}: this report of VTune has no row",
            hint="make it again: vtune -report hotspots -format csv -report-output FILE",
            slug="no-recording",
        )
    if not table.confirmed:
        report.note("untried_layout", count=report.read)
    return RankTables(Facts(tool="VTune"), report, host_metric=from_rows("host_metric", metrics), **samples.tables())


def _header(line: str) -> tuple[str, list[str]] | None:
    """The delimiter and the columns of a report; None for a line that is no header."""
    for delimiter in _DELIMITERS:
        columns = _cells(line, delimiter)
        measures = [column for column in columns[1:] if _MEASURES.match(column)]
        if len(columns) > 1 and columns[0] in _SUBJECTS and measures:
            return delimiter, columns
    return None


def _cells(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return []


@dataclass(slots=True)
class _Report:
    """A report: its columns, and what each means."""

    member: Member
    delimiter: str
    columns: list[str]
    at: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, member: Member) -> _Report:
        """Reads the columns of a report."""
        first = next((line for line in text_lines(member, _LONGEST_LINE) if line.strip()), "")
        delimiter, columns = _header(first) or (",", [first])
        return cls(member, delimiter, columns, {name: at for at, name in enumerate(columns)})

    @property
    def stacked(self) -> bool:
        """Whether its rows are the nodes of a call tree, indented by a space for each level."""
        return self.columns[0] in _STACKED

    @property
    def sampled(self) -> bool:
        """Whether its rows are functions, or stacks of functions, with what is spent in themselves."""
        return (
            self.columns[0] in ("Function", *_STACKED)
            and "Function Stack" not in self.columns[1:]
            and any(self.place(name) is not None for name in (_TIME, _INSTRUCTIONS, _CYCLES))
        )

    @property
    def confirmed(self) -> bool:
        """Whether a real report of its kind was tried."""
        return self.columns[0] == "Function" and _TIME in self.at and "Function (Full)" in self.at

    def place(self, name: str) -> int | None:
        """The column of a metric; in a tree, that of the function's own part."""
        return self.at.get(f"{name}{_SELF}", None if self.stacked else self.at.get(name))

    def rows(self, report: ReadReport) -> Iterator[list[str]]:
        """The cells of each row."""
        lines = filter(str.strip, text_lines(self.member, _LONGEST_LINE, report))
        next(lines, None)  # the header
        for line in lines:
            cells = _cells(line, self.delimiter)
            if len(cells) != len(self.columns):
                report.drop("unreadable")
            else:
                yield cells

    def stack(self, cells: Sequence[str], above: Sequence[Frame], report: ReadReport) -> list[Frame]:
        """The stack of a row, innermost frame first; in a tree, below that of the row before it."""
        frame = self._frame(cells, report)
        if not self.stacked:
            return [frame]
        depth = len(cells[0]) - len(cells[0].lstrip(" "))
        return [frame, *above[max(0, len(above) - depth) :]] if depth else [frame]

    def _frame(self, cells: Sequence[str], report: ReadReport) -> Frame:
        def cell(name: str) -> str | None:
            at = self.at.get(name)
            text = "" if at is None else cells[at].strip()
            return None if not text or text in _UNKNOWN else text

        line = integer_in(cell("Source Line"), report, below=INT32)
        return Frame(cells[0].strip(), cell("Module"), cell("Source File"), line)

    def figures(self, cells: Sequence[str], report: ReadReport) -> dict[str, int | None]:
        """The row's values for the columns of `stack_sample`."""
        values = {}
        for name in _SAMPLED:
            at = self.place(name)
            values[name] = (None, "") if at is None else _value(cells[at])
            if at is not None and cells[at].strip() and values[name][0] is None:
                report.note("wrong_type")
        time, unit = values[_TIME]
        scale = _UNIT_NS.get(unit.lower())
        instructions, cycles, rate = (values[name][0] for name in (_INSTRUCTIONS, _CYCLES, _CPI))
        if cycles is None and instructions is not None and rate is not None:
            cycles = instructions * rate
        return {
            "sampled_ns": None if time is None or scale is None else _rounded(time * scale, report),
            "instructions": None if instructions is None else _rounded(instructions, report),
            "cycles": None if cycles is None else _rounded(cycles, report),
        }

    def metrics(self, cells: Sequence[str]) -> Iterator[Row]:
        """The row's other values, as rows of `host_metric`."""
        sampled_places = {self.place(name) for name in _SAMPLED} if self.sampled else set()
        summary = self.columns[:3] == ["Hierarchy Level", "Metric Name", "Metric Value"]
        if summary:
            value, unit = _value(cells[2])
            yield self._row(None, None, cells[1].strip(), value, unit, cells[2])
            return
        kind = self.columns[0]
        for at, (name, cell) in enumerate(zip(self.columns, cells, strict=True)):
            if at == 0 or at in sampled_places or name in _ABOUT or name in _SUBJECTS or not cell.strip():
                continue
            value, unit = _value(cell)
            named = _NAMED_UNIT.search(name)
            if not unit and named is not None:
                unit = named[1]
            yield self._row(kind, cells[0].strip(), name, value, unit, cell)

    def _row(
        self, kind: str | None, subject: str | None, name: str, value: float | None, unit: str, cell: str
    ) -> Row:  # fmt: skip
        return {
            "report": f"VTune, by {self.columns[0]}" if kind else "VTune summary",
            "subject_kind": kind,
            "subject": subject,
            "metric": name,
            "value": value,
            "unit": unit or None,
            "text": cell.strip() if value is None else None,
            "confirmed": self.confirmed,
        }


def _value(cell: str) -> tuple[float | None, str]:
    """A number and its unit: `1.5s`, `66.3%`, `12,345`; None for anything else."""
    match = _VALUE.fullmatch(cell.strip())
    if match is None:
        return None, ""
    value = real_in(match[1].replace(",", ""), high=1e300)
    return value, "" if value is None else match[2]


def _rounded(value: float, report: ReadReport) -> int | None:
    return integer(round(value), report, below=1 << 60)
