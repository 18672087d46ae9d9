"""Reads lines of somebody's text one by one, with limited length, and the numbers in them."""

from __future__ import annotations

import math
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


def integer_of(text: str, digits: int = 18) -> int | None:
    """A number of at most so many ASCII digits; None for another text.

    `int` reads other scripts' digits too, and raises for thousands of digits.
    """
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= digits else None


def decimal_of(text: str) -> float | None:
    """A finite number as Python writes it; None for another text."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
