"""Reads columns of tables in somebody's SQLite database, trusting nothing in it.

A database is a program as much as a file: views, triggers, generated columns and virtual tables run when they are read.
Here only plain columns of plain tables are read, from a file that `sqlite_files` opens read-only. The number of rows,
the length of texts and the sizes that compressed files claim are limited, and names are only ever compared.
"""

from __future__ import annotations

import re
import sqlite3
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

import pyarrow as pa

from stepscope.base.errors import SourceError
from stepscope.base.quoting import sql_name
from stepscope.formats.scratch import kept_columns
from stepscope.formats.sqlite_packed import PACKED, TEXTS, as_text, packing_query, unpacked

MAGIC = b"SQLite format 3\x00"
LONGEST_TEXT = 1 << 20
_BYTES_PER_ROW = 6
"""No row of a profiler's tables takes less: more rows than the file has room for mean pages that form a circle."""
_PLAIN = re.compile(r"\s*CREATE\s+TABLE\s", re.IGNORECASE)
"""Not `CREATE VIRTUAL TABLE`, whatever is between the words."""
_BATCH = 1 << 14
_CHUNK = 1 << 16
_FEW = 64
_READERS = 2
"""Threads that read a long table, each with its own connection."""
_AHEAD = 2 * _READERS

ERRORS = {
    "database-damaged": (
        "A database of nvprof or Nsight Systems cannot be read: only part of it was copied, or the profiler "
        "was killed while it wrote. Copy it again, export it again, or profile again."
    ),
}


@dataclass(frozen=True, slots=True)
class Layout:
    """A tool's databases.

    Args:
        tool: its name, for messages.
        looks_like: whether a file's first bytes could be one.
        strings: the table of strings; its column of numbers, by which rows of other tables refer to a string, and its
            column of texts.
        always: whether all of its databases have that table.
    """

    tool: str
    looks_like: Callable[[bytes], bool]
    strings: tuple[str, str, str]
    always: bool = True


@dataclass(frozen=True, slots=True)
class Only:
    """Rows in which a column, without its lowest bits, has a value."""

    column: str
    bits: int
    value: int


class Database:
    """An open database: rows of its tables, and its strings by number.

    Args:
        connect: opens another connection to it; its owner closes those left open.
        label: its name, for messages.
        size: of the file, in bytes.
        layout: whose database it is.

    Attributes:
        damage: class of damage of its container, or of the files beside it; None for none.
        unnamed: how many values of `columns` refer to a string that the database does not have.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection], label: str, size: int, layout: Layout) -> None:
        self.damage: str | None = None
        self.unnamed = 0
        self._label = label
        self._connect = connect
        self._connection = connect()
        self._layout = layout
        self._most_rows = size // _BYTES_PER_ROW
        self._without_row_ids: set[str] = set()
        self._whole: dict[str, frozenset[str]] = {}
        self._columns = self._plain_tables()
        self._strings: dict[int, str] | None = None
        if layout.always and not self.has(layout.strings[0]):
            raise damaged(label, layout, f"no table {layout.strings[0]}")

    def _plain_tables(self) -> dict[str, frozenset[str]]:
        """Columns of each table that is not a view or virtual table."""
        listed = self._fetch("SELECT name, sql FROM sqlite_master WHERE type = 'table'", 1 << 16)
        plain = {str(name): sql for name, sql in listed if isinstance(sql, str) and _PLAIN.match(sql)}
        # Columns that are computed when read are not listed by table_info.
        types = {
            name: {str(row[1]): str(row[2]) for row in self._fetch(f"PRAGMA table_info({sql_name(name)})")}
            for name in plain
        }
        columns = {name: frozenset(listed) for name, listed in types.items()}
        # SQLite's own rule: a declared type with these letters turns texts of digits into integers.
        self._whole = {
            name: frozenset(one for one, declared in listed.items() if "INT" in declared.upper())
            for name, listed in types.items()
        }
        self._without_row_ids = {
            name
            for name, sql in plain.items()
            if re.search(r"WITHOUT\s+ROWID", sql, re.IGNORECASE)
            or any(column.lower() == "rowid" for column in columns[name])
        }
        return columns

    def has(self, table: str) -> bool:
        """Whether it has a table of this name."""
        return table in self._columns

    def named(self, prefix: str) -> list[str]:
        """Its tables whose names start with the prefix, sorted."""
        return sorted(name for name in self._columns if name.startswith(prefix))

    def filled(self, table: str, columns: Sequence[str], only: Only | None = None) -> list[str]:
        """The columns in which a table has a value, in any of the chosen rows."""
        there = [name for name in columns if name in self._columns.get(table, ())]
        if not there:
            return []
        source = f"FROM {sql_name(table)} WHERE {self._where(table, only) or 'TRUE'}"
        # Most files have none of them at all; finding that takes half as long as counting each.
        any_of = ", ".join(map(sql_name, there))
        if not list(self._fetch(f"SELECT 1 {source} AND coalesce({any_of}, NULL) IS NOT NULL LIMIT 1")):
            return []
        counts = ", ".join(f"count({sql_name(name)})" for name in there)
        (found,) = self._fetch(f"SELECT {counts} {source}", 1)
        return [name for name, count in zip(there, found, strict=True) if count]

    def rows(self, table: str, columns: Sequence[str], **types: str) -> list[tuple[Any, ...]]:
        """Rows of a table, in order; missing columns are None, a missing table has no rows.

        Args:
            table: its name.
            columns: the columns to read.
            types: by column, if it is not `integer`: `text`, `blob`, `hex` for bytes as digits, `real`, or `number`
                for an integer or a real as a real. A value of another type is None: any column of a database
                may hold anything.

        Raises:
            SourceError: the database is damaged.
        """
        return list(self.each(table, columns, **types))

    def each(self, table: str, columns: Sequence[str], **types: str) -> Iterator[tuple[Any, ...]]:
        """The same rows one by one, for a table too long for a list.

        Raises:
            SourceError: the database is damaged.
        """
        known = self._columns.get(table)
        if not known:
            return
        asked = ", ".join(
            _of_type(sql_name(name), types.get(name, "integer")) if name in known else "NULL" for name in columns
        )
        yield from self._fetch(f"SELECT {asked} FROM {sql_name(table)}")

    def columns(self, table: str, columns: Sequence[str], only: Only | None = None, **types: str) -> pa.Table:
        """Rows of a table as Arrow columns, for tables of millions of rows.

        Args:
            table: its name.
            columns: the columns to read; a missing one is NULL.
            only: the rows to read; all if the table lacks the column in the condition.
            types: by column, as in `rows`, or `name` for a text or the number of a string, which
                becomes a dictionary of texts.

        Raises:
            SourceError: the database is damaged.
        """
        kinds = {name: types.get(name, "integer") for name in columns}
        numbering: dict[str, dict[Any, int]] = {name: {} for name in columns}
        parts: dict[str, list[pa.Array]] = {name: [] for name in columns}
        for chunk in self._chunks(table, kinds, only, numbering):
            for name, values in kept_columns(chunk).items():
                parts[name].append(values)
        return pa.table(
            {
                name: self._named(numbering[name], parts[name])
                if kind == "name"
                else pa.chunked_array(parts[name], _ARROW[kind])
                for name, kind in kinds.items()
            }
        )

    def chunks(self, table: str, columns: Sequence[str], only: Only | None = None, **types: str) -> Iterator[pa.Table]:
        """The same rows, some tens of thousands at a time, of which the caller keeps less.

        Raises:
            SourceError: the database is damaged.
        """
        kinds = {name: types.get(name, "integer") for name in columns}
        numbering: dict[str, dict[Any, int]] = {name: {} for name in columns}
        for chunk in self._chunks(table, kinds, only, numbering):
            yield pa.table(
                {
                    name: self._named(numbering[name], [values]) if kinds[name] == "name" else values
                    for name, values in chunk.items()
                }
            )
            for codes in numbering.values():
                codes.clear()

    def _chunks(
        self, table: str, kinds: dict[str, str], only: Only | None, numbering: dict[str, dict[Any, int]]
    ) -> Iterator[dict[str, pa.Array]]:
        """Rows in order; names as their index in `numbering`."""
        known = self._columns.get(table, frozenset())
        there = {name: kind for name, kind in kinds.items() if name in known}
        where = self._where(table, only)
        for chunk in self._present(table, there, where, numbering) if known else ():
            count = len(next(iter(chunk.values())))
            yield {
                name: chunk[name] if name in chunk else pa.nulls(count, pa.int32() if kind == "name" else _ARROW[kind])
                for name, kind in kinds.items()
            }

    def _present(
        self, table: str, kinds: dict[str, str], where: str, numbering: dict[str, dict[Any, int]]
    ) -> Iterator[dict[str, pa.Array]]:
        """The columns that a table has, some tens of thousands of rows at a time."""
        asked = ", ".join(_of_type(sql_name(name), kind) for name, kind in kinds.items())
        limits = self._limits(table) if kinds else None
        if limits is None:
            only = f" WHERE {where}" if where else ""
            query = f"SELECT {asked or 'NULL'} FROM {sql_name(table)}{only}"
            yield from (_by_row(batch, kinds or {"": "integer"}, numbering) for batch in self._batches(query))
            return
        packed = {name: kind for name, kind in kinds.items() if kind in PACKED}
        beside = {name: kind for name, kind in kinds.items() if kind not in PACKED}
        sources = [
            f"{sql_name(table)} NOT INDEXED WHERE {limit}{f' AND {where}' if where else ''} "
            f"ORDER BY rowid LIMIT {_CHUNK + 1}"
            for limit in limits
        ]
        queries = [packing_query(source, packed, self._whole[table]) for source in sources]
        for source, found in zip(sources, self._each_of(queries), strict=True):
            rows = found[0]
            if rows > _CHUNK:
                raise damaged(self._label, self._layout, "more rows than it has room for")
            if not rows:
                continue
            columns = unpacked(found, packed, LONGEST_TEXT)
            if columns is None:
                columns, beside_them = {}, kinds
            else:
                beside_them = beside
                for name in packed:
                    if kinds[name] == "name":
                        columns[name] = _coded(columns[name], numbering[name])
            if beside_them:
                asked = ", ".join(_of_type(sql_name(name), kind) for name, kind in beside_them.items())
                listed = list(self._fetch(f"SELECT {asked} FROM {source}", rows))
                columns |= _by_row(listed, beside_them, numbering)
            yield columns

    def _limits(self, table: str) -> list[str] | None:
        """Conditions that divide a table by its row ids; None if it has none, or they are far apart."""
        if table in self._without_row_ids:
            return None
        # If one query asks for both, SQLite scans the table.
        ends = (f"(SELECT {end}(rowid) FROM {sql_name(table)})" for end in ("min", "max"))
        ((low, high),) = self._fetch(f"SELECT {', '.join(ends)}", 1)
        if low is None:
            return []
        if high - low > max(self._most_rows, _CHUNK):
            return None
        return [f"rowid BETWEEN {first} AND {min(first + _CHUNK - 1, high)}" for first in range(low, high + 1, _CHUNK)]

    def _each_of(self, queries: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """The only row of each query; if there are many, some are read ahead."""
        if len(queries) <= _READERS:
            yield from (row for query in queries for row in self._fetch(query, 1))
            return
        with ExitStack() as opened_, ThreadPoolExecutor(_READERS) as pool:
            free: SimpleQueue[sqlite3.Connection] = SimpleQueue()
            for _ in range(_READERS):
                free.put(opened_.enter_context(closing(self._connect())))

            def read(query: str) -> tuple[Any, ...]:
                connection = free.get()
                try:
                    (row,) = self._fetch(query, 1, connection)
                finally:
                    free.put(connection)
                return row

            waiting: deque[Future[tuple[Any, ...]]] = deque()
            for query in queries:
                waiting.append(pool.submit(read, query))
                if len(waiting) > _AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def _named(self, codes: dict[Any, int], part: list[pa.Array]) -> pa.DictionaryArray:
        """Numbers of strings, and texts, as texts; NULL if there is no such string."""
        numbers = pa.chunked_array(part, pa.int32()).combine_chunks()
        texts = [one if isinstance(one, str) else self._text(one) for one in codes]
        numbering: dict[str, int] = {}
        place = [None if one is None else numbering.setdefault(one, len(numbering)) for one in texts]
        indices = pa.array(place, pa.int32()).take(numbers)
        self.unnamed += indices.null_count - numbers.null_count
        return pa.DictionaryArray.from_arrays(indices, pa.array(list(numbering), pa.string()))

    def distinct(self, table: str, column: str, bits: int = 0) -> set[int]:
        """The distinct integers in a column, without their lowest bits."""
        if column not in self._columns.get(table, ()):
            return set()
        value = f"{sql_name(column)} >> {bits:d}"
        source = f"FROM {sql_name(table)} WHERE typeof({sql_name(column)}) = 'integer'"
        found: set[int] = set()
        if table in self._without_row_ids:
            return {number for (number,) in self._fetch(f"SELECT DISTINCT {value} {source}")}
        # Few values in millions of rows: searching for another is quicker than SQLite's own DISTINCT.
        last = -(1 << 63)
        while len(found) < _FEW:
            known = ", ".join(map(str, found))
            further = f"rowid > {last} AND {value} NOT IN ({known}) LIMIT 1"
            row = list(self._fetch(f"SELECT {value}, rowid {source} AND {further}", 1))
            if not row:
                return found
            ((number, last),) = row
            found.add(number)
        rest = self._fetch(f"SELECT DISTINCT {value} {source} AND rowid > {last}")
        return found | {number for (number,) in rest}

    def extent(self, table: str, columns: Sequence[str], most: int, only: Only | None = None) -> list[int]:
        """Smallest and largest integer from 0 to below `most` in each column that has one."""
        known = self._columns.get(table, frozenset())
        there = [sql_name(column) for column in columns if column in known]
        if not there:
            return []
        source = f"FROM {sql_name(table)} WHERE {self._where(table, only) or 'TRUE'}"
        found: list[Any] = []
        for fits in ("{0} BETWEEN 0 AND {1:d}", "typeof({0}) = 'integer' AND {0} BETWEEN 0 AND {1:d}"):
            asked = ", ".join(
                f"{which}(CASE WHEN {fits.format(one, most - 1)} THEN {one} END)"
                for one in there
                for which in ("min", "max")
            )
            (row,) = self._fetch(f"SELECT {asked} {source}")
            found = [number for number in row if number is not None]
            # If neither end is a real number, types need not be checked.
            if all(isinstance(number, int) for number in found):
                break
        return found

    def _where(self, table: str, only: Only | None) -> str:
        """The condition for the chosen rows; empty for all, or if the table lacks the column."""
        if only is None or only.column not in self._columns.get(table, ()):
            return ""
        return f"{sql_name(only.column)} >> {only.bits:d} = {only.value:d}"

    def string(self, number: int | None) -> str:
        """The string with this number; empty if there is none."""
        return self._text(number) or ""

    def _text(self, number: int | None) -> str | None:
        if self._strings is None:
            table, numbers, texts = self._layout.strings
            listed = self.rows(table, (numbers, texts), **{texts: "text"})
            self._strings = {i: s for i, s in listed if i is not None and s is not None}
        return None if number is None else self._strings.get(number)

    def _fetch(
        self, query: str, most: int | None = None, connection: sqlite3.Connection | None = None
    ) -> Iterator[tuple[Any, ...]]:
        for rows in self._batches(query, most, connection):
            yield from rows

    def _batches(
        self, query: str, most: int | None = None, connection: sqlite3.Connection | None = None
    ) -> Iterator[list[tuple[Any, ...]]]:
        left = self._most_rows if most is None else most
        try:
            cursor = (connection or self._connection).execute(query)
            while rows := cursor.fetchmany(_BATCH):
                left -= len(rows)
                if left < 0:
                    raise damaged(self._label, self._layout, "more rows than it has room for")
                yield rows
        except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
            raise damaged(self._label, self._layout, str(error)) from None


_ARROW = {
    "integer": pa.int64(),
    "text": pa.string(),
    "real": pa.float64(),
    "number": pa.float64(),
    "blob": pa.binary(),
    "hex": pa.string(),
}


def _by_row(
    rows: Sequence[tuple[Any, ...]], kinds: dict[str, str], numbering: dict[str, dict[Any, int]]
) -> dict[str, pa.Array]:
    """Rows as columns, names as their index in `numbering`."""
    made = {}
    for (name, kind), values in zip(kinds.items(), zip(*rows, strict=True), strict=True):
        if kind == "name":
            codes = numbering[name]
            places = [None if one is None else codes.setdefault(one, len(codes)) for one in values]
            made[name] = pa.array(places, pa.int32())
        else:
            made[name] = pa.array(values, _ARROW[kind])
    return made


def _coded(numbers: pa.Array, codes: dict[Any, int]) -> pa.Array:
    """Numbers of strings as their index in `codes`, which grows."""
    coded = numbers.dictionary_encode()
    places = [codes.setdefault(one, len(codes)) for one in coded.dictionary.to_pylist()]
    return pa.array(places, pa.int32()).take(coded.indices)


def _of_type(column: str, kind: str) -> str:
    if kind == "number":
        return f"CASE WHEN typeof({column}) IN ('integer', 'real') THEN CAST({column} AS REAL) END"
    if kind == "name":
        return f"CASE WHEN typeof({column}) IN ('integer', 'text') THEN {column} END"
    if kind in TEXTS:
        return f"CASE WHEN {TEXTS[kind].format(column)} THEN {as_text(column, kind)} END"
    return f"CASE WHEN typeof({column}) = '{kind}' THEN {column} END"


def damaged(label: str, layout: Layout, reason: str) -> SourceError:
    """The error for a database that cannot be read to its end.

    The reason may repeat names from the file, so only printable characters of it are kept.
    """
    printable = "".join(letter for letter in reason[:200] if letter.isprintable())
    return SourceError(
        f"{label}: damaged {layout.tool} database ({printable})",
        hint="copy it again; if it was never complete, record again and let the program end by itself",
        slug="database-damaged",
    )
