"""Foreign texts in SQL, in TOML, and in lines for people."""

from __future__ import annotations

import json
import os
import unicodedata


def path_text(path: str | os.PathLike[str]) -> str:
    """A path as a text that can be stored and shown, also if its name is not UTF-8: `b"\xff"` → `�`."""
    return os.fsencode(path).decode("utf-8", "replace")


def sql_literal(text: str) -> str:
    """A text value, for DuckDB and SQLite: `it's` → `'it''s'`."""
    return "'" + text.replace("'", "''") + "'"


def sql_name(name: str) -> str:
    """A name of a table or column, whatever is in it, reserved words included: `end` → `"end"`."""
    return '"' + name.replace('"', '""') + '"'


def toml_string(text: str) -> str:
    """A text as a TOML string of one line: `a"b` → `"a\\"b"`."""
    return json.dumps(printable(text), ensure_ascii=False)


_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Characters that are printable by their category but invisible: fillers, joiners, the empty Braille cell."""


def printable(text: str, instead: str = "\N{REPLACEMENT CHARACTER}") -> str:
    """The text in one line that is harmless to a terminal: characters that cannot be printed, including
    direction marks and invisible ones, are replaced, and every kind of space becomes a space.

    Only this function decides that; `one_line` and `printable_lines` use it.
    """
    if text.isprintable() and (text.isascii() or _INVISIBLE.isdisjoint(text)):
        return text
    return "".join(
        letter
        if letter.isprintable() and letter not in _INVISIBLE
        else " "
        if unicodedata.category(letter) == "Zs"
        else instead
        for letter in text
    )


def one_line(text: str) -> str:
    """The text after `printable`, with each run of spaces and line ends as one space."""
    return printable(" ".join(text.split()))


def printable_lines(text: str) -> str:
    """The text with each line after `printable`."""
    return "\n".join(map(printable, text.split("\n")))
