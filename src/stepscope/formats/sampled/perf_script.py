"""Reads what `perf script` prints of a recording of Linux perf: a sample, its frames below it, an empty line.

Only perf can read the recording itself (`perf.data`), so the installed perf prints it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from stepscope.formats.container import Member, strip_bom
from stepscope.formats.exporter import Exporter
from stepscope.formats.frames import UNKNOWN, Frame
from stepscope.formats.options import ReadOptions
from stepscope.formats.sampled.stacks import MAX_FRAMES, Samples, none_sampled
from stepscope.formats.tables import Facts, RankTables, ReadReport
from stepscope.formats.text_lines import text_lines

_LONGEST_LINE = 1 << 16
_SAMPLE = re.compile(
    r"\s(?:(?P<pid>\d{1,9})/)?(?P<tid>\d{1,9})\s+(?:\[\d{1,6}\]\s+)?"
    r"(?P<time>\d{1,12}\.\d{1,9}):\s+(?:(?P<period>\d{1,18})\s+)?(?P<event>[\w./:,=@-]+?):"
)
"""What follows a command's name, which may have blanks."""
_FRAME = re.compile(r"\s+[0-9a-f]{1,16} (?P<symbol>.+?) \((?P<library>[^()]*)(?: \(deleted\))?\)\s*")
_OFFSET = re.compile(r"\+0x[0-9a-f]+$")
_CLOCKS = ("cpu-clock", "task-clock")
"""Events whose period is in ns. Source: perf-list(1)."""
_CYCLES, _INSTRUCTIONS = "cycles", "instructions"
_RECORDING = b"PERFILE2"
_EXPORTER = Exporter(
    tool="perf",
    title="Linux perf",
    ending=".perf.data",
    suffix=".txt",
    arguments=lambda recording, _: ["script", "-i", str(recording)],
    by_hand="print it: perf script -i FILE > report.txt",
    prints=True,
)


@dataclass(slots=True)
class _Sample:
    pid: str
    tid: str
    comm: str
    event: str
    period: int | None
    frames: list[Frame] = field(default_factory=list)


def looks_like(head: bytes) -> bool:
    """Whether a file's first bytes are a recording of perf, or samples printed by `perf script`."""
    if head.startswith(_RECORDING):
        return True
    lines = strip_bom(head).decode("utf-8", "replace").split("\n")
    lines = [line for line in lines if line.strip() and not line.startswith("#")]
    if not lines or _SAMPLE.search(lines[0].strip()) is None:
        return False
    return len(lines) == 1 or bool(_FRAME.fullmatch(lines[1]) or _SAMPLE.search(lines[1].strip()))


def peek(member: Member) -> Facts | None:
    """The file's origin: perf. None when it holds no sample."""
    sample = next(_samples(member, ReadReport()), None)
    return None if sample is None else Facts(tool="perf")


def read(member: Member, _: ReadOptions | None = None) -> RankTables:
    """Reads one file, or one member of an archive, as the recording of one rank."""
    report = ReadReport()
    samples = Samples("cpu")
    for sample in _samples(member, report):
        event = sample.event.split(":")[0]
        samples.add(
            sample.frames,
            thread=samples.thread(sample.pid, sample.tid, sample.comm),
            weight=1,
            sampled_ns=sample.period if event in _CLOCKS else None,
            instructions=sample.period if event == _INSTRUCTIONS else None,
            cycles=sample.period if event == _CYCLES else None,
        )
        report.read += 1
    if not samples:
        raise none_sampled(member)
    pids = {pid for pid in samples.pids if pid}
    pid = int(pids.pop()) if len(pids) == 1 else None
    return RankTables(Facts(tool="perf", pid=pid), report, **samples.tables())


def _samples(member: Member, report: ReadReport) -> Iterator[_Sample]:
    sample: _Sample | None = None
    with member.open() as stream:
        recorded = stream.peek(len(_RECORDING))[: len(_RECORDING)] == _RECORDING
    if recorded:
        member = _EXPORTER.export(member)
    orphaned = False
    for line in text_lines(member, _LONGEST_LINE, report):
        if not line.strip():  # ends a stack
            orphaned = False
            if sample is not None:
                yield sample
            sample = None
            continue
        if line.startswith("#"):
            continue
        if frame := _FRAME.fullmatch(line):
            if sample is None and not orphaned:
                report.drop("unreadable")
                orphaned = True
            if sample is not None and len(sample.frames) < MAX_FRAMES:
                library = frame["library"]
                sample.frames.append(Frame(_OFFSET.sub("", frame["symbol"]), None if library == UNKNOWN else library))
            continue
        if match := _SAMPLE.search(line := line.strip()):
            if sample is not None:
                yield sample
            period = match["period"]
            sample = _Sample(
                match["pid"] or "",
                match["tid"],
                line[: match.start()].rstrip(),
                match["event"],
                int(period) if period else None,
            )
        else:
            report.drop("unreadable")
    if sample is not None:
        yield sample
