"""Prints text safely on a terminal.

Names come from files and other people: control characters in them must not control the terminal, and direction marks
must not reverse a line. Data for files and other programs stays exact.
"""

from __future__ import annotations

import json
import sys

from stepscope.base.quoting import printable, printable_lines

_PIECE = 1 << 16
"""Characters per write."""


def print_err(text: str) -> None:
    """Prints lines for people on stderr."""
    sys.stderr.write(f"{printable_lines(text)}\n")
    sys.stderr.flush()


def print_out(text: str, *, is_json: bool = False) -> None:
    """Writes an answer on stdout: unchanged, except on a terminal.

    Args:
        is_json: keep its values on a terminal too: unprintable characters are written as `\\u001b`.
    """
    if sys.stdout.isatty():
        text = "\n".join(map(_escaped if is_json else printable, text.split("\n")))
    # In pieces, because an unbuffered stdout (PYTHONUNBUFFERED) silently loses what a closed pipe does not take of one
    # large piece.
    for start in range(0, len(text), _PIECE):
        sys.stdout.write(text[start : start + _PIECE])


def _escaped(line: str) -> str:
    if printable(line) == line:
        return line
    return "".join(
        character if printable(character) == character else json.dumps(character)[1:-1] for character in line
    )
