"""Reads the output of `perf stat`: counts of a command's events, and what perf derives from them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stepscope.formats.bounded import real_in
from stepscope.formats.container import Member
from stepscope.formats.host_metrics import Row, host_metrics_of
from stepscope.formats.options import ReadOptions
from stepscope.formats.tables import Facts, RankTables, ReadReport
from stepscope.formats.text_lines import text_lines

_LOOKS = re.compile(rb"(?m)^ Performance counter stats for ")
_COUNT = re.compile(
    r"\s+(?P<value>[\d,.]+|<not (?:supported|counted)>)\s+(?:(?P<unit>msec|Joules|MiB)\s+)?(?P<name>[\w./:=-]+)"
    r"(?:\s*\(\s*[\d.]+%\))?\s*"
)
_TIME = re.compile(r"\s+(?P<value>[\d.]+)(?: \+- [\d.]+)? seconds (?P<name>time elapsed|user|sys)\b.*")
_DERIVED = re.compile(r"\s*(?P<value>[\d.]+)(?:\s*(?P<unit>%))?\s+(?P<name>\S.*)", re.DOTALL)
_COUNTED_FOR = re.compile(r"\(\s*[\d.]+%\)\s*\Z")
KINDS = {
    "time elapsed": "elapsed",
    "CPUs utilized": "processors_used",
    "insn per cycle": "ipc",
    "user": "user_time",
    "sys": "system_time",
    "context-switches": "context_switches",
    "major-faults": "major_faults",
}
_LONGEST_LINE = 1 << 12
_INDENT = " " * 4
"""Lines of counts start with more of them; the program's own output may stand between."""


def looks_like(head: bytes) -> bool:
    """Whether a file's first bytes are output of `perf stat`."""
    return _LOOKS.search(head[:8192]) is not None


def peek(member: Member) -> Facts | None:
    """The file's origin: perf. None when it counts nothing."""
    return Facts(tool="perf") if any(_rows(member, ReadReport())) else None


def read(member: Member, _: ReadOptions | None = None) -> RankTables:
    """Reads one file, or one member of an archive, as the recording of one rank."""
    report = ReadReport()
    return host_metrics_of(
        member,
        Facts(tool="perf"),
        report,
        list(_rows(member, report)),
        lacks="perf stat counted nothing here",
        hint="record it again: stepscope launch --tool perf --set stat -- python train.py",
    )


def _rows(member: Member, report: ReadReport) -> Iterator[Row]:
    for line in text_lines(member, _LONGEST_LINE, report):
        counted, _, derived_text = line.partition("#")
        if match := _TIME.fullmatch(line):
            yield _row(match["name"], match["value"], "s")
        elif match := _COUNT.fullmatch(counted):
            yield _row(match["name"].removesuffix(":u"), match["value"], match["unit"])
            derived_text = _COUNTED_FOR.sub("", derived_text)
            if derived := _DERIVED.fullmatch(derived_text):
                yield _row(derived["name"].rstrip(), derived["value"], derived["unit"])
            elif derived_text.strip():
                report.note("unreadable")
        elif counted.startswith(_INDENT) and counted.strip():
            report.drop("unreadable")


def _row(name: str, text: str, unit: str | None) -> Row:
    row: Row = {"report": "perf stat", "metric": name, "kind": KINDS.get(name), "confirmed": True, "unit": unit}
    value = real_in(text.replace(",", ""))
    return row | ({"text": text} if value is None else {"value": value})
