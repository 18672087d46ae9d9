"""Texts and names as SQL writes them, the same for DuckDB and SQLite."""

from __future__ import annotations


def sql_literal(text: str) -> str:
    """A text value: `it's` → `'it''s'`."""
    return "'" + text.replace("'", "''") + "'"


def sql_name(name: str) -> str:
    """A name of a table or column, whatever is in it, reserved words too: `end` → `"end"`."""
    return '"' + name.replace('"', '""') + '"'
