"""Reads the summary that Intel's Application Performance Snapshot prints (`aps-report DIR`).

A line is a metric: its name, indented below what it is part of, a value with its unit, and perhaps its share of
something else. Lines that start with a bar are APS' advice on the metric before them. All of it is stored, under APS' own
names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from stepscope.formats.bounded import real_in
from stepscope.formats.container import strip_bom
from stepscope.formats.host_metrics import Row, host_metrics_of
from stepscope.formats.text_lines import text_lines
from stepscope.plugin import FileFacts, Format, Member, RankTables, ReadOptions, ReadReport

_LONGEST_LINE = 1 << 14
_MAX_LINES = 1 << 16
_DEEPEST = 16
_LOOKS = re.compile(rb"(?m)^\|?[ \t]*Summary information[ \t\r]*$")
_COLON = re.compile(r":(?!\S)")
_SECTION = re.compile(r"[A-Z][\w /.-]*")
_VALUE = re.compile(
    r"(?P<number>-?\d[\d.]*(?:e[+-]?\d+)?)(?=[\s%A-Za-z]|\Z)\s*(?P<unit>%|[A-Za-z]+(?:/[A-Za-z]+)?)?\s*(?P<rest>.*)",
    re.DOTALL,
)
_SHARE = re.compile(r"(?P<share>\d[\d.]*)\s*%(?:\s+(?:of|from)\s+(?P<of>.+))?", re.DOTALL)
_NODE = re.compile(r"\(node (\S+)\)")
_WORDS = ("of", "out", "from")
"""Words after a number that are no unit."""

KINDS = {
    "Elapsed Time": "elapsed",
    "SP GFLOPS": "single_precision_rate",
    "DP GFLOPS": "double_precision_rate",
    "Average CPU Frequency": "frequency",
    "IPC Rate": "ipc",
    "CPI Rate": "cpi",
    "Serial Time": "serial_time",
    "MPI Time": "mpi_time",
    "MPI Imbalance": "mpi_imbalance",
    "CCL Time": "ccl_time",
    "OpenMP Imbalance": "openmp_imbalance",
    "CPU Utilization": "cpu_utilization",
    "Logical Core Utilization": "cpu_utilization",
    "Physical Core Utilization": "core_utilization",
    "Memory Stalls": "memory_stalls",
    "Cache Stalls": "cache_stalls",
    "DRAM Stalls": "dram_stalls",
    "DRAM Bandwidth / Peak": "dram_bandwidth_peak",
    "DRAM Bandwidth / Average": "dram_bandwidth",
    "DRAM Bandwidth / Bound": "dram_bandwidth_bound",
    "NUMA": "numa_remote",
    "Vectorization": "vectorization",
    "FPU Utilization": "fpu_utilization",
    "Disk I/O Bound": "io_bound",
    "I/O Bound": "io_bound",
    "Disk read": "read",
    "Disk write": "written",
    "GPU Stack Utilization": "gpu_utilization",
    "GPU Occupancy": "gpu_occupancy",
    "Per rank / Peak resident set size": "peak_memory",
    "Logical core count per node": "processors",
    "HW Platform": "processor",
}
"""What metrics measure, by the end of their name."""


def looks_like(head: bytes) -> bool:
    """Whether a file's first bytes are a summary of APS."""
    start = strip_bom(head)[:4096]
    return _LOOKS.search(start) is not None and (b"HW Platform" in start or b"Elapsed Time" in start)


def peek(member: Member) -> FileFacts | None:
    """The file's origin: APS. None when it holds no metric."""
    return FileFacts(tool="APS") if any(map(_measured, _rows(member, ReadReport()))) else None


def read(member: Member, _: ReadOptions | None = None) -> RankTables:
    """Reads one file, or one member of an archive, as the recording of one rank, though it sums over all ranks."""
    report = ReadReport()
    rows = list(_rows(member, report))
    return host_metrics_of(
        member,
        FileFacts(tool="APS"),
        report,
        rows if any(map(_measured, rows)) else [],
        lacks="this summary of APS holds no metric",
        hint="print it again: aps-report DIR > aps_summary.txt",
    )


def _measured(row: Row) -> bool:
    return row.get("value") is not None


def _rows(member: Member, report: ReadReport) -> Iterator[Row]:
    """Rows of `host_metric`, in the order of the lines."""
    above: list[tuple[int, str]] = []
    row: Row | None = None
    remarks: list[str] = []
    measured = False
    for number, line in enumerate(text_lines(member, _LONGEST_LINE, report)):
        if number >= _MAX_LINES:
            break
        if not measured and (about := _about(line)):
            yield _row(*about)
            continue
        if line.startswith("|"):
            remarks += [line.strip("|- \t")]
            continue
        if not line.strip() or line.startswith("Graphical representation"):
            continue
        name, value = _metric(line)
        if not name:
            report.drop("unreadable")
            continue
        yield from _finished(row, remarks, measured=measured)
        remarks, measured = [], True
        indent = len(line) - len(line.lstrip())
        while above and (above[-1][0] >= indent or len(above) >= _DEEPEST):
            above.pop()
        above.append((indent, name))
        row = None if value is None else _row(" / ".join(name for _, name in above), value)
    yield from _finished(row, remarks, measured=measured)


def _about(line: str) -> tuple[str, str] | None:
    """What a line of the head says of the run: `| Name : value`; None for another line."""
    name, _, value = line.removeprefix("|").partition(":")
    is_apart = name[:1].isspace() and name[-1:].isspace() and value[:1].isspace()
    name, value = name.strip(), value.lstrip()
    return (name, value) if is_apart and "A" <= name[:1] <= "Z" and "|" not in name and value else None


def _metric(line: str) -> tuple[str, str | None]:
    """The name and the value of a metric, whose colon is not part of a name; a section has no value, another line no
    name."""
    colon = _COLON.search(line)
    if colon is not None:
        name = line[: colon.start()].strip()
        return "" if "|" in name else name, line[colon.end() :].strip() or None
    is_section = line[:1].isspace() and _SECTION.fullmatch(line.strip())
    return line.strip() if is_section else "", None


def _finished(row: Row | None, remarks: list[str], *, measured: bool) -> Iterator[Row]:
    """A metric with APS' advice on it; advice before the first metric is about the run."""
    text = " ".join(filter(None, remarks))
    if row is not None:
        yield row | {"advice": text or None}
    elif text and not measured and text != "Summary information":
        yield _row("advice", "") | {"advice": text.removeprefix("Summary information").strip()}


def _row(metric: str, text: str) -> Row:
    name = next((kind for end, kind in KINDS.items() if f" / {metric}".endswith(f" / {end}")), None)
    row: Row = {"report": "APS", "metric": metric, "kind": name, "confirmed": True, "text": text or None}
    match = _VALUE.fullmatch(text)
    unit = (match["unit"] or "") if match else ""
    if match is None or (unit and unit.lower() not in _UNITS and unit not in _WORDS):
        return row
    value = real_in(match["number"])
    if value is None:
        return row
    row["value"] = value
    remark = match["rest"].strip()
    if unit in _WORDS:
        unit, remark = "", f"{unit} {remark}"
    row |= {"unit": unit or None, "text": remark or None}
    if node := _NODE.fullmatch(remark):
        return row | {"host": node[1], "text": None}
    share = _SHARE.fullmatch(remark)
    if share is not None and (part := real_in(share["share"])) is not None:
        row |= {"share_ratio": part / 100, "share_of": share["of"], "text": None}
    elif unit == "%" and remark.startswith(("of ", "from ")):
        row |= {"share_ratio": value / 100, "share_of": remark.partition(" ")[2], "text": None}
    return row


_UNITS = frozenset(
    {"%", "s", "ms", "us", "ghz", "mhz", "hz", "b", "kb", "mb", "gb", "tb", "gb/s", "mb/s", "kb/s", "tb/s"}
)


FORMAT = Format(
    "aps",
    "summary of Intel's Application Performance Snapshot as text (aps-report DIR)",
    looks_like,
    peek,
    read,
    timed=False,
)
