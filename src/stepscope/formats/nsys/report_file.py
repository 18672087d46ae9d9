"""Reports of Nsight Systems (`.nsys-rep`, `.qdrep`), exported by the `nsys` that is installed.

The format of a report is NVIDIA's own, and only `nsys` reads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from stepscope.formats.container import Member
from stepscope.formats.exporter import Exporter
from stepscope.formats.nsys.export import NSYS
from stepscope.formats.sniff import EXPORT_A_REPORT
from stepscope.formats.sqlite import MAGIC, Database, opened

_MARK = b"NVIDIA Tegra Profiler Report"
_MARK_ENDS = 512

_EXPORTER = Exporter(
    tool="nsys",
    title="Nsight Systems",
    ending=".nsys-rep",
    made=".sqlite",
    arguments=lambda report, target: [
        "export", "--type", "sqlite", "-o", str(target), str(report),
    ],
    by_hand=EXPORT_A_REPORT,
)  # fmt: skip


def looks_like_report(head: bytes) -> bool:
    """Whether a file's first bytes are those of a report."""
    return _MARK in head[:_MARK_ENDS]


@contextmanager
def opened_export(member: Member) -> Iterator[Database]:
    """Opens an export, or a report after it was exported.

    Raises:
        SourceError: it cannot be opened, exported, or is damaged.
    """
    with member.open() as stream:
        head = stream.read(_MARK_ENDS)
    if not head.startswith(MAGIC) and looks_like_report(head):
        member = _EXPORTER.export(member)
    with opened(member, NSYS) as database:
        yield database
