"""Texts of others inside SQL, TOML, and lines that people read."""

from __future__ import annotations

import json
import os
import unicodedata


def path_text(path: str | os.PathLike[str]) -> str:
    """A path as a text that can be stored and shown, for names that are not UTF-8: `b"\xff"` → `�`."""
    return os.fsencode(path).decode("utf-8", "replace")


def sql_literal(text: str) -> str:
    """A text value, for DuckDB and SQLite: `it's` → `'it''s'`."""
    return "'" + text.replace("'", "''") + "'"


def sql_name(name: str) -> str:
    """A name of a table or column, whatever is in it, reserved words too: `end` → `"end"`."""
    return '"' + name.replace('"', '""') + '"'


def toml_string(text: str) -> str:
    """A text as a TOML string of one line: `a"b` → `"a\\"b"`."""
    return json.dumps(printable(text), ensure_ascii=False)


_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Printable by their category, and nothing to be seen: fillers, joiners, the empty Braille cell."""


def printable(text: str, instead: str = "\N{REPLACEMENT CHARACTER}") -> str:
    """The text in one line that does nothing to a terminal, for people: what cannot be printed, marks
    of direction and invisible characters among it, is replaced, and every kind of space is a space.

    This is the one place that decides it. `one_line` and `printable_lines` are made of it.
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
    """The text as `printable` has it, with runs of spaces and line ends as one space."""
    return printable(" ".join(text.split()))


def printable_lines(text: str) -> str:
    """Each line of a text as `printable` has it."""
    return "\n".join(map(printable, text.split("\n")))
