"""Texts of others inside SQL, TOML, and lines that people read."""

from __future__ import annotations

import json


def sql_literal(text: str) -> str:
    """A text value, for DuckDB and SQLite: `it's` → `'it''s'`."""
    return "'" + text.replace("'", "''") + "'"


def sql_name(name: str) -> str:
    """A name of a table or column, whatever is in it, reserved words too: `end` → `"end"`."""
    return '"' + name.replace('"', '""') + '"'


def toml_string(text: str) -> str:
    """A text as a TOML string of one line: `a"b` → `"a\\"b"`."""
    return json.dumps(printable(text), ensure_ascii=False)


def printable(text: str, instead: str = "\N{REPLACEMENT CHARACTER}") -> str:
    """The text in one line that does nothing to a terminal: what cannot be printed is replaced."""
    return "".join(letter if letter.isprintable() else instead for letter in text)
