"""Reads lines of somebody's text one by one, with limited length."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.formats.container import Member, strip_bom
from stepscope.formats.tables import ReadReport

_BLOCK = 1 << 20


def text_lines(member: Member, longest: int, report: ReadReport | None = None) -> Iterator[str]:
    """Lines without their ends.

    Args:
        longest: bytes of a line to return; a longer one comes with one byte more.
        report: gets the damage, after the last line.

    Raises:
        SourceError: it cannot be opened.
    """
    partial, first = b"", True
    with member.open() as stream:
        while block := stream.read(_BLOCK):
            if first:
                block, first = strip_bom(block), False
            *complete, partial = (partial + block).split(b"\n")
            for line in complete:
                yield line[: longest + 1].decode("utf-8", "replace").removesuffix("\r")
            partial = partial[: longest + 1]
        yield partial.decode("utf-8", "replace")
        if report is not None and stream.damage:
            report.note(stream.damage)
