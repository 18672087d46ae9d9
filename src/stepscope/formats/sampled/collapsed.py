"""Reads collapsed stacks: a stack a line, outermost frame first, frames separated by semicolons, then a number.

`py-spy record -f raw` writes them, and the scripts of FlameGraph convert output of Linux perf and others to them. A
line of py-spy may start with its process and its thread. No line says what the numbers count: for py-spy and perf they
are samples.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from stepscope.formats.bounded import integer_in
from stepscope.formats.container import Member, strip_bom
from stepscope.formats.frames import Frame
from stepscope.formats.options import ReadOptions
from stepscope.formats.sampled.stacks import Samples, none_sampled
from stepscope.formats.tables import Facts, RankTables, ReadReport
from stepscope.formats.text_lines import text_lines

_LONGEST_LINE = 1 << 18
_LINE = re.compile(r"(?P<frames>\S.*) (?P<count>\d{1,15})")
_PLACED = re.compile(r"(?P<function>.+) \((?P<place>[^()]+?)(?::(?P<line>\d{1,9}))?\)")
"""A frame of py-spy: `forward (model.py:12)`, `malloc (libc.so.6)`."""
_PROCESS = re.compile(r'process (\d+):".*"')
_THREAD = re.compile(r"thread \((\w+)\)(?:: (.*))?")


def looks_like(head: bytes) -> bool:
    """Whether the lines of a file's first bytes are stacks with a number, most of them of several frames or of one
    frame that says where it is: other text has none.

    A few lines may be damaged: one in ten, or one of a short file.
    """
    if b"\0" in head:
        return False
    *lines, last = strip_bom(head).decode("utf-8", "replace").split("\n")
    lines = [line.removesuffix("\r") for line in lines or [last] if line.strip()]
    stacks = [match["frames"] for match in map(_LINE.fullmatch, lines) if match]
    named = [line for line in stacks if all(name and name.strip() == name for name in line.split(";"))]
    if len(lines) - len(named) > max(len(lines) // 10, int(len(lines) > 2)):
        return False
    return 2 * sum(";" in line or bool(_PLACED.fullmatch(line)) for line in named) > len(named)


def peek(member: Member) -> Facts | None:
    """The file's origin: the process, if py-spy states it. None when it holds no sample."""
    stack = next(_stacks(member, ReadReport()), None)
    return None if stack is None else _facts({stack[0]}, stack[4])


def read(member: Member, _: ReadOptions | None = None) -> RankTables:
    """Reads one file, or one member of an archive, as the recording of one rank."""
    report = ReadReport()
    samples: Samples | None = None
    of_py_spy = False
    for pid, tid, name, frames, of_py_spy, count in _stacks(member, report):
        samples = samples or Samples("running" if of_py_spy else None)
        thread = samples.thread(pid, tid, name) if pid or tid else None
        samples.add(frames, thread=thread, weight=count)
        report.read += 1
    if samples is None:
        raise none_sampled(member)
    return RankTables(_facts(samples.pids, of_py_spy, report), report, **samples.tables())


def _facts(pids: set[str], of_py_spy: bool, report: ReadReport | None = None) -> Facts:
    pid = integer_in(next(iter(pids)), report) if len(pids) == 1 else None
    return Facts(pid=pid or None, tool="py-spy" if of_py_spy else None)


def _stacks(member: Member, report: ReadReport) -> Iterator[tuple[str, str, str | None, list[Frame], bool, int]]:
    """Process, thread and its name, frames (innermost first), whether py-spy wrote them, and the number."""
    of_py_spy = False
    for line in text_lines(member, _LONGEST_LINE, report):
        if not line.strip():
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            report.drop("unreadable")
            continue
        names = match["frames"].split(";")
        pid = tid = ""
        thread_name = None
        if process := _PROCESS.fullmatch(names[0]):
            pid, names = process[1], names[1:]
        if names and (thread := _THREAD.fullmatch(names[0])):
            tid, thread_name, names = thread[1], thread[2], names[1:]
        frames = [_frame(name) for name in reversed(names) if name]
        of_py_spy = of_py_spy or bool(pid or tid or any(frame.line for frame in frames))
        yield pid, tid, thread_name, frames, of_py_spy, int(match["count"])


def _frame(text: str) -> Frame:
    placed = _PLACED.fullmatch(text)
    if placed is None:
        return Frame(text)
    if placed["line"] is None:
        return Frame(placed["function"], library=placed["place"])
    return Frame(placed["function"], file=placed["place"], line=int(placed["line"]))
