"""What the command line prints, safe for the terminal that shows it.

Names come from files and from others: a control character in one must not steer a terminal, nor a mark
of direction turn a line around. Answers keep their data exactly where a file or another program takes it.
"""

from __future__ import annotations

import json
import sys

from stepscope.floor.quoting import printable, printable_lines

_PIECE = 1 << 16
"""Characters that are written at once."""


def say(text: str) -> None:
    """Prints lines for people on stderr."""
    sys.stderr.write(f"{printable_lines(text)}\n")
    sys.stderr.flush()


def put(text: str, *, is_json: bool = False) -> None:
    """Writes an answer on stdout: as it is, except on a terminal.

    Args:
        text: the answer, with its line ends.
        is_json: on a terminal too, its values stay what they are: a character that cannot be printed is
            written as `\\u001b`.
    """
    if sys.stdout.isatty():
        text = "\n".join(map(_escaped if is_json else printable, text.split("\n")))
    # In pieces: an unbuffered stdout (PYTHONUNBUFFERED) loses without a word what a closed pipe does
    # not take of one large piece.
    for start in range(0, len(text), _PIECE):
        sys.stdout.write(text[start : start + _PIECE])


def _escaped(line: str) -> str:
    if printable(line) == line:
        return line
    return "".join(one if printable(one) == one else json.dumps(one)[1:-1] for one in line)
