"""The tables of a store as `schema.sql` declares them: names, types, meanings.

The file is read as text, not executed: opening a store must cost milliseconds. A test holds this
reading against what DuckDB makes of the same file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from stepscope.floor.sql_text import sql_name

if TYPE_CHECKING:
    import pyarrow as pa

STORE_VERSION = 6
"""Version of the tables. A store of another version is made anew from its source."""

TIME_COLUMNS = frozenset(
    {"start_ns", "end_ns", "host_start_ns", "host_end_ns", "launch_ns", "time_ns"}
)
"""Columns that hold a moment, and not a duration: they move with a rank's clock."""

_COMMENT_LINE = re.compile(r"^\s*--.*$", re.MULTILINE)
_TABLE = re.compile(r"CREATE TABLE (\w+) \((.*?)\n\);", re.DOTALL)
_TABLE_COMMENT = re.compile(r"COMMENT ON TABLE (\w+) IS '((?:[^']|'')*)';")
_COLUMN_COMMENT = re.compile(r"COMMENT ON COLUMN (\w+)\.\"?(\w+)\"? IS '((?:[^']|'')*)';")
_COLUMN = re.compile(r"\"?(\w+)\"? ([A-Z]+)( NOT NULL)?( CHECK \(.*\))?$")


@dataclass(frozen=True, slots=True)
class SchemaColumn:
    """A column of a table: its SQL type, whether it may be NULL, and its meaning in one line."""

    name: str
    sql_type: str
    nullable: bool
    meaning: str

    @property
    def quoted(self) -> str:
        """Its name as SQL text can always use it, reserved words included."""
        return sql_name(self.name)


@dataclass(frozen=True, slots=True)
class SchemaTable:
    """A table: what one row is, and its columns in order."""

    name: str
    meaning: str
    columns: tuple[SchemaColumn, ...]

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of its columns, in order."""
        return tuple(column.name for column in self.columns)

    def arrow(self) -> pa.Schema:
        """Its columns as an Arrow schema; columns that cannot be NULL are marked so."""
        import pyarrow as pa

        types = {
            "BIGINT": pa.int64(),
            "BOOLEAN": pa.bool_(),
            "DOUBLE": pa.float64(),
            "INTEGER": pa.int32(),
            "SMALLINT": pa.int16(),
            "VARCHAR": pa.string(),
        }
        return pa.schema(
            [
                pa.field(column.name, types[column.sql_type], nullable=column.nullable)
                for column in self.columns
            ]
        )


def schema_text() -> str:
    """The text of `schema.sql`."""
    return resources.files("stepscope.store").joinpath("schema.sql").read_text(encoding="utf-8")


@cache
def schema_tables() -> dict[str, SchemaTable]:
    """Every table of a store by name, in the order of `schema.sql`.

    >>> schema_tables()["counter"].column_names
    ('rank', 'span', 'track', 'series', 'time_ns', 'value')
    """
    text = _COMMENT_LINE.sub("", schema_text())
    meanings = {name: _unquoted(words) for name, words in _TABLE_COMMENT.findall(text)}
    column_meanings = {
        (table, column): _unquoted(words) for table, column, words in _COLUMN_COMMENT.findall(text)
    }
    return {
        name: SchemaTable(name, meanings[name], tuple(_columns(name, body, column_meanings)))
        for name, body in _TABLE.findall(text)
    }


@cache
def create_statements() -> str:
    """The `CREATE TABLE` statements of `schema.sql`, without its comments."""
    text = _COMMENT_LINE.sub("", schema_text())
    return "\n".join(found.group(0) for found in _TABLE.finditer(text))


def _columns(table: str, body: str, meanings: dict[tuple[str, str], str]) -> list[SchemaColumn]:
    columns = []
    for part in _parts(body):
        found = _COLUMN.match(part)
        if found is None:
            raise ValueError(f"schema.sql: cannot read {part!r} in table {table}")
        name, sql_type, not_null, _ = found.groups()
        columns.append(SchemaColumn(name, sql_type, not_null is None, meanings[table, name]))
    return columns


def _parts(body: str) -> list[str]:
    """Splits at the commas that are not inside parentheses."""
    parts, depth, start = [], 0, 0
    for index, character in enumerate(body):
        if character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(body[start:index])
            start = index + 1
    parts.append(body[start:])
    return [" ".join(part.split()) for part in parts]


def _unquoted(words: str) -> str:
    return words.replace("''", "'")
