"""Reads the metrics and events of kernels that nvprof prints (`--metrics`, `--events`), as text or as CSV.

Below the line `Metric result:` or `Event result:`, each kernel of a device has a line for each metric with the number
of its launches and the smallest, largest and mean value; single launches are not listed, and nothing has a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from stepscope.bundled.nvprof.log import BANNER, DEVICE, LONGEST_LINE, cells_of, measured_value
from stepscope.formats.bounded import integer_in
from stepscope.formats.counters.measured import NVPROF, Measured
from stepscope.formats.demangle import demangled
from stepscope.formats.tables import from_rows
from stepscope.formats.text_lines import text_lines
from stepscope.plugin import FileFacts, Format, Member, RankTables, ReadOptions, ReadReport, SourceError

_LOOKS = re.compile(rb"(?m)^==(\d+|====)== (Metric|Event) result:")
_TRACE = re.compile(rb"(?m)^==(\d+|====)== Profiling result:[ \t\r]*\n\s*\"?(Start|Device)\b")
_RESULT = re.compile(r"(Metric|Event) result:")
_OF_DEVICE = re.compile(r'Device "(.*)"\s*\Z')
_OF_KERNEL = re.compile(r"\s+Kernel: (.*)\Z")


class _Sum(NamedTuple):
    device: str
    kernel: str
    launches: int
    metric: str
    min: str
    max: str
    mean: str


def looks_like(head: bytes) -> bool:
    """Whether a file's first bytes are a log with metrics or events of kernels, and without a trace."""
    return _LOOKS.search(head) is not None and _TRACE.search(head) is None


def peek(member: Member) -> FileFacts | None:
    """The file's origin, or None when it holds no metric."""
    return None if next(_sums(member, ReadReport()), None) is None else FileFacts(tool=NVPROF)


def read(member: Member, _options: ReadOptions | None = None) -> RankTables:
    """Reads one file, or one member of an archive, as the counters of one rank's kernels."""
    report, measured = ReadReport(), Measured()
    numbers: dict[tuple[str, str, int], int] = {}
    devices: dict[int, str] = {}
    for row in _sums(member, report):
        spelled = DEVICE.match(row.device)
        index = integer_in(spelled[2], below=10_000) or 0 if spelled else 0
        devices.setdefault(index, spelled[1] if spelled else row.device)
        key = (row.device, row.kernel, row.launches)
        if key not in numbers:
            numbers[key] = measured.launch(demangled(row.kernel), NVPROF, launches=row.launches, device=index)
        (mean, unit), (low, _), (high, _) = (measured_value(cell, report) for cell in (row.mean, row.min, row.max))
        extremes = None if low is None or high is None else (low, high)
        measured.add(numbers[key], row.metric, mean, unit, extremes=extremes)
    if not numbers:
        raise SourceError(
            f"{member.label}: this log of nvprof holds no metric and no event of a kernel",
            hint="print them with nvprof --metrics NAMES --csv",
            slug="no-recording",
        )
    tables = measured.tables()
    report.read = tables["kernel_metric"].num_rows
    rows = [
        {"device": index, "kind": "cuda", "name": name or None, "used": True} for index, name in sorted(devices.items())
    ]
    device = from_rows("device", rows)
    return RankTables(FileFacts(tool=NVPROF), report, **tables, device=device)


def _sums(member: Member, report: ReadReport) -> Iterator[_Sum]:
    head: list[str] | None = None
    device = kernel = ""
    awaited = as_csv = False
    for line in text_lines(member, LONGEST_LINE, report):
        banner = BANNER.match(line)
        if banner:
            awaited, head = _RESULT.match(banner[2]) is not None, None
            continue
        if awaited:
            awaited, as_csv = False, line.startswith('"')
            head = cells_of(line, as_csv=as_csv)
            head = head if "Invocations" in head else None
            continue
        if head is None:
            continue
        if not line.strip():
            head = None
        elif not as_csv and (match := _OF_DEVICE.match(line)):
            device = match[1]
        elif not as_csv and (match := _OF_KERNEL.match(line)):
            kernel = match[1]
        else:
            row = _sum(cells_of(line, as_csv=as_csv), head, device, kernel, as_csv=as_csv)
            if row is None:
                report.drop("unreadable")
            else:
                yield row


def _sum(cells: list[str], head: list[str], device: str, kernel: str, *, as_csv: bool) -> _Sum | None:
    """Parses a line; the description in a text may have any number of words, so values are counted from its end."""
    if as_csv:
        if len(cells) != len(head):
            return None
        row = dict(zip(head, cells, strict=True))
        device, kernel = row.get("Device", ""), row.get("Kernel", "")
        metric = row.get("Metric Name") or row.get("Event Name") or ""
        values = [row.get(name, "") for name in ("Min", "Max", "Avg")]
        count = row.get("Invocations", "")
    else:
        last = len(head) - head.index("Min") if "Min" in head else 0
        if len(cells) < 2 + last or not last:
            return None
        count, metric, values = cells[0], cells[1], cells[-last:][:3]
    launches = integer_in(count, low=1)
    return _Sum(device, kernel, launches, metric, *values) if launches and metric and kernel else None


FORMAT = Format(
    "nvprof-metrics",
    "metrics and events of kernels as nvprof prints them (--metrics, --events), as text or CSV",
    looks_like,
    peek,
    read,
    timed=False,
)
