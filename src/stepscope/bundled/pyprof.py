"""Reads the output of PyProf's parser for a database of nvprof: a Python dict a line, one line a kernel.

A line has a kernel's duration, its launch shape, and the texts of the markers around its launch, but no moments.
Markers are read like those in the database (`formats/nvtx`). To make them nest, each launch gets a place on the host,
in the order of the lines, and kernels run one after another once all are launched; `durations_only` says so on every
answer that rests on such times.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from stepscope.formats import vocabulary
from stepscope.formats.bounded import INT32, integer
from stepscope.formats.nvtx.calls import operator_name
from stepscope.formats.nvtx.markers import LONGEST_LITERAL, Marker, base_name, parse_marker, python_literal
from stepscope.formats.nvtx.ranges import NONE, Ranges
from stepscope.formats.nvtx.rows import range_tables, role_of
from stepscope.formats.tables import canonical, from_rows
from stepscope.formats.text_lines import text_lines
from stepscope.plugin import FileFacts, Format, Member, RankTables, ReadOptions, ReadReport, SourceError

Row = dict[str, Any]

_LOOKS = re.compile(rb"\s*\{(?=[^\n]*'kDuration': )(?=[^\n]*'kShortName': )'")
_MAX_LEVELS = 64
_FACTS = FileFacts(tool="PyProf")
_LONGEST_NS = 1 << 53
_SLOT_NS, _LAUNCH_NS, _LAST_NS = 10, 1, 8
"""A kernel's place on the host: its length, when the launch is in it, when ranges end."""
_TILES = re.compile(r"_\d")
"""Start of the rest of a kernel's name, which differs by sizes of tiles and layouts."""


def looks_like(head: bytes) -> bool:
    """Whether a file's first bytes could be output of PyProf's parser."""
    return _LOOKS.match(head) is not None


def peek(member: Member) -> FileFacts | None:
    """The file's origin: only the tool. None when it holds no kernel."""
    return _FACTS if next(_kernels(member, ReadReport()), None) else None


def read(member: Member, options: ReadOptions | None = None) -> RankTables:
    """Reads one file, or one member of an archive, as the recording of one rank."""
    options = options or ReadOptions()
    report = ReadReport()
    threads = _Threads()
    device_rows: list[Row] = []
    calls: list[Row] = []
    for number, kernel in enumerate(_kernels(member, report), 1):
        thread = threads.launch(kernel, number * _SLOT_NS)
        device_rows.append(_device_row(kernel, number))
        calls.append(
            {
                "category": "cuda_runtime",
                "kind": "runtime",
                "name": "(launch, not named)",
                "role": "launch",
                "thread": thread,
                "start_ns": number * _SLOT_NS + _LAUNCH_NS,
                "dur_ns": 0,
                "correlation": number,
            }
        )
    if not device_rows:
        raise SourceError(
            f"{member.label}: no line of this file is a kernel of PyProf",
            hint="make it again: python -m pyprof.parse net.sql > net.dict",
            slug="no-recording",
        )
    report.note("no_moments", count=len(device_rows))
    report.read = len(device_rows)
    ready = (len(device_rows) + 1) * _SLOT_NS
    for row in device_rows:
        row["start_ns"] = ready
        ready += row["dur_ns"]
    shared = range_tables(threads.columns(), python_stack=options.python_stack)
    ranges = canonical(shared.pop("host_event"), "host_event")
    used = sorted({(row["device"], row["stream"]) for row in device_rows})
    tables: dict[str, list[Row]] = {
        "host_event": calls,
        "device_event": device_rows,
        "thread": threads.rows(),
        "stream": [{"device": device, "stream": stream} for device, stream in used],
        "device": [
            {"device": device, "kind": "cuda", "used": True} for device in sorted({device for device, _ in used})
        ],
    }
    canonical_tables = {name: from_rows(name, rows) for name, rows in tables.items()}
    canonical_tables["host_event"] = pa.concat_tables(
        [ranges, canonical_tables["host_event"]], promote_options="permissive"
    )
    return RankTables(facts=_FACTS, report=report, **canonical_tables, **shared)


# -- lines -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Kernel:
    name: str
    short_name: str
    dur_ns: int
    tid: int | None
    device: int
    stream: int
    grid: tuple[int | None, ...]
    block: tuple[int | None, ...]
    levels: tuple[Marker, ...]


def _kernels(member: Member, report: ReadReport) -> Iterator[_Kernel]:
    """The kernels in order; other lines are counted."""
    for text in text_lines(member, LONGEST_LITERAL, report):
        if not text.strip():
            continue
        line = python_literal(text)
        kernel = _kernel(line, report) if isinstance(line, dict) else None
        if kernel is None:
            report.drop("unreadable")
        else:
            yield kernel


def _kernel(line: dict[Any, Any], report: ReadReport) -> _Kernel | None:
    name, short_name = (line.get(key) for key in ("kLongName", "kShortName"))
    duration = integer(line.get("kDuration"), below=_LONGEST_NS)
    if not isinstance(short_name, str) or duration is None:
        return None
    calls = [parse_marker(text) for text in _texts(line, "marker")]
    operators = [parse_marker(text) for text in _texts(line, "seqMarker")]
    # They are listed by their numbers, and operators within a node of autograd have none.
    operators.sort(key=lambda marker: role_of("operator", marker.name) != "backward")
    operators = [*_unlisted(calls, operators), *operators]
    trace = tuple(_texts(line, "trace"))
    levels = [
        *((Marker("stack", "", frames=trace),) if trace else ()),
        *(Marker("range", text) for text in _texts(line, "layer")),
        *(parse_marker(text) for text in _texts(line, "reprMarkers")),
        *calls,
        *operators,
    ]
    return _Kernel(
        name=name if isinstance(name, str) and name else short_name,
        short_name=short_name,
        dur_ns=duration,
        tid=integer(line.get("tid"), report),
        device=integer(line.get("device"), report, below=INT32) or 0,
        stream=-1 if (stream := integer(line.get("stream"), report)) is None else stream,
        grid=_sizes(line.get("grid"), report),
        block=_sizes(line.get("block"), report),
        levels=tuple(levels[:_MAX_LEVELS]),
    )


def _unlisted(calls: list[Marker], operators: list[Marker]) -> list[Marker]:
    """The operator of the innermost function, if PyProf omitted it: of several operators with one number
    it lists one (`_fused_dropout`, and not `dropout` around it).
    """
    last_call = [operator_name(marker) for marker in calls if marker.sort == "call"][-1:]
    listed = {base_name(marker.name) for marker in operators}
    number = operators[0].sequence if operators else None
    return [
        Marker("operator", name, sequence=number)
        for name in last_call
        if name and operators and base_name(name) not in listed
    ]


def _texts(line: dict[Any, Any], key: str) -> list[str]:
    listed = line.get(key)
    texts = listed[:_MAX_LEVELS] if isinstance(listed, list) else []
    return [text for text in texts if isinstance(text, str)]


def _sizes(value: Any, report: ReadReport) -> tuple[int | None, ...]:
    sizes = value if isinstance(value, (tuple, list)) and len(value) == 3 else (None,) * 3
    return tuple(integer(size, report, below=INT32) for size in sizes)


def _device_row(kernel: _Kernel, number: int) -> Row:
    row: Row = {
        "category": "kernel",
        "kind": vocabulary.device_kind("computation", kernel.name),
        "name": kernel.name,
        "device": kernel.device,
        "stream": kernel.stream,
        "dur_ns": kernel.dur_ns,
        "correlation": number,
    }
    for axis, blocks, threads in zip("xyz", kernel.grid, kernel.block, strict=True):
        row[f"grid_{axis}"], row[f"block_{axis}"] = blocks, threads
    return row


# -- ranges ------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Range:
    marker: Marker
    thread: int
    start_ns: int
    end_ns: int


@dataclass(slots=True)
class _Open:
    """The ranges around the last launch of a thread, and the kernels of its innermost range so far."""

    ranges: list[_Range] = field(default_factory=list)
    families: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Threads:
    """Makes ranges from the markers around each launch."""

    of: dict[int | None, int] = field(default_factory=dict)
    open: dict[int, _Open] = field(default_factory=dict)
    ranges: list[_Range] = field(default_factory=list)

    def launch(self, kernel: _Kernel, at: int) -> int:
        """Begins or extends the ranges of a kernel; returns the number of its thread.

        A kernel belongs to the same call as the one before it if everything around them is alike, including
        autograd's numbers, and the call had no kernel of its family: `mm` twice within a node is two calls.
        """
        thread = self.of.setdefault(kernel.tid, len(self.of))
        around = self.open.setdefault(thread, _Open())
        family = _TILES.split(kernel.short_name, maxsplit=1)[0]
        same = 0
        for opened, marker in zip(around.ranges, kernel.levels, strict=False):
            if opened.marker != marker:
                break
            same += 1
        last = [opened.marker.name for opened in around.ranges[same:]]
        coming = [marker.name for marker in kernel.levels[same:]]
        # All alike, and the kernel ran before; or the same operator under another autograd number.
        if last == coming and (coming or family in around.families):
            same = min(same, _repeated(kernel.levels))
        if last or coming or same < len(kernel.levels):
            around.families = set()
        around.families.add(family)
        del around.ranges[same:]
        for marker in kernel.levels[same:]:
            opened = _Range(marker, thread, at, at)
            around.ranges.append(opened)
            self.ranges.append(opened)
        for opened in around.ranges:
            opened.end_ns = at + _LAST_NS
        return thread

    def columns(self) -> Ranges:
        """The ranges as columns, each with its own marker."""
        numbers = [row.marker.sequence for row in self.ranges]
        count = len(self.ranges)
        return Ranges(
            np.array([row.thread for row in self.ranges], np.int64),
            np.array([row.start_ns for row in self.ranges], np.int64),
            np.array([row.end_ns for row in self.ranges], np.int64),
            np.arange(count, dtype=np.int32),
            np.array([NONE if number is None else number for number in numbers], np.int64),
            np.full(count, NONE, np.int32),
            [row.marker for row in self.ranges],
            [],
        )

    def rows(self) -> list[Row]:
        """Rows of table `thread`."""
        return [
            {"thread": number, "pid": "", "tid": "" if tid is None else str(tid), "kind": "thread"}
            for tid, number in self.of.items()
        ]


def _repeated(levels: tuple[Marker, ...]) -> int:
    """The level at which a repeated call begins: the innermost function, or operator if there is none."""
    calls = [level for level, marker in enumerate(levels) if marker.sort == "call"]
    return calls[-1] if calls else max(len(levels) - 1, 0)


FORMAT = Format(
    "pyprof", "list of kernels (.dict) that PyProf made of a database of nvprof", looks_like, peek, read, timed=False
)
