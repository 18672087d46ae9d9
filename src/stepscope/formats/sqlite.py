"""Reads columns of tables in somebody's SQLite database, trusting nothing in it.

A database is a program as much as a file: views, triggers, generated columns and virtual tables run when they are read.
Here only plain columns of plain tables are read, from a file that `sqlite_files` opens read-only. The number of rows,
the length of texts and the sizes that compressed files claim are limited, and names are only ever compared.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from stepscope.base.errors import SourceError
from stepscope.base.quoting import sql_literal, sql_name
from stepscope.formats.scratch import spill_columns

if TYPE_CHECKING:
    from adbc_driver_manager import AdbcConnection

MAGIC = b"SQLite format 3\x00"
LONGEST_TEXT = 1 << 20
_BYTES_PER_ROW = 6
"""No row of a profiler's tables takes less: more rows than the file has room for mean pages that form a circle."""
_PLAIN = re.compile(r"\s*CREATE\s+TABLE\s", re.IGNORECASE)
"""Not `CREATE VIRTUAL TABLE`, whatever is between the words."""
_BATCH = 1 << 14
_CHUNK = 1 << 16
"""Rows of one query. ADBC derives a column's type from the first batch, so that all rows of a query are one batch."""
_MAX_CHUNK_BYTES = 1 << 30
_FEW = 64

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
        connection: to it, closed by its owner.
        connect_arrow: opens a connection of ADBC, closed by its owner.
        size: of the file (bytes).

    Attributes:
        damage: class of damage of its container, or of the files next to it; None for none.
        unnamed: how many values of `columns` refer to a string that the database does not have.
        wrong: how many values are of no type or size that their column may have, by source and column.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        connect_arrow: Callable[[], AdbcConnection],
        label: str,
        size: int,
        layout: Layout,
    ) -> None:
        self.damage: str | None = None
        self.unnamed = 0
        self.wrong: dict[tuple[str, str], int] = {}
        self._label = label
        self._connection = connection
        self._connect_arrow = connect_arrow
        self._layout = layout
        self._size = size
        self._max_rows = size // _BYTES_PER_ROW
        self._without_row_ids: set[str] = set()
        self._integers: dict[str, frozenset[str]] = {}
        self._columns = self._plain_tables()
        if layout.always and not self.has(layout.strings[0]):
            raise damaged(label, layout, f"no table {layout.strings[0]}")

    def _plain_tables(self) -> dict[str, frozenset[str]]:
        """Columns of each table that is not a view or virtual table."""
        listed = self._fetch("SELECT name, sql FROM sqlite_master WHERE type = 'table'", 1 << 16)
        plain = {str(name): sql for name, sql in listed if isinstance(sql, str) and _PLAIN.match(sql)}
        types = {
            name: {str(row[1]): str(row[2]) for row in self._fetch(f"PRAGMA table_info({sql_name(name)})")}
            for name in plain
        }
        # Columns that are computed when read are not listed by table_info.
        columns = {name: frozenset(listed) for name, listed in types.items()}
        self._integers = {
            name: frozenset(column for column, declared in listed.items() if "INT" in declared.upper())
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
        present = [name for name in columns if name in self._columns.get(table, ())]
        if not present:
            return []
        source = f"FROM {sql_name(table)} WHERE {self._where(table, only) or 'TRUE'}"
        # Most files have none of them at all; finding that takes half as long as counting each.
        any_of = ", ".join(map(sql_name, present))
        if not list(self._fetch(f"SELECT 1 {source} AND coalesce({any_of}, NULL) IS NOT NULL LIMIT 1")):
            return []
        counts = ", ".join(f"count({sql_name(name)})" for name in present)
        (counted,) = self._fetch(f"SELECT {counts} {source}", 1)
        return [name for name, count in zip(present, counted, strict=True) if count]

    def rows(self, table: str, columns: Sequence[str], **types: str) -> list[tuple[Any, ...]]:
        """Rows of a table, in order; missing columns are None, a missing table has no rows.

        Args:
            types: by column, if it is not `integer`: `text`, `blob`, `hex` for bytes as digits, `real`, or `number`
                for an integer or a real as a real. A value of another type is None: any column of a database
                may hold anything.

        Raises:
            SourceError: the database is damaged.
        """
        return list(self.each(table, columns, **types))

    def each(self, table: str, columns: Sequence[str], **types: str) -> Iterator[tuple[Any, ...]]:
        """The same rows one by one, for a table too long for a list."""
        columns_of_table = self._columns.get(table)
        if not columns_of_table:
            return
        kinds = [(name, types.get(name, "integer")) for name in columns]
        values = ", ".join(
            _of_type(sql_name(name), kind) if name in columns_of_table else "NULL" for name, kind in kinds
        )
        missing: set[tuple[str, str]] = set()
        for row in self._fetch(f"SELECT {values} FROM {sql_name(table)}"):
            if None in row:
                missing.update(kind for kind, value in zip(kinds, row, strict=True) if value is None)
            yield row
        self._count_wrong(sql_name(table), [kind for kind in missing if kind[0] in columns_of_table])

    def _count_wrong(self, source: str, kinds: Sequence[tuple[str, str]]) -> None:
        """Counts values of other types in columns with missing values."""
        if kinds:
            types = ((sql_name(name), ", ".join(map(sql_literal, _TYPES.get(kind, (kind,))))) for name, kind in kinds)
            counts = ", ".join(f"total(typeof({name}) NOT IN ('null', {allowed}))" for name, allowed in types)
            (counted,) = self._fetch(f"SELECT {counts} FROM {source}", 1)
            self.wrong |= {(source, name): int(n) for (name, _), n in zip(kinds, counted, strict=True) if n}

    def columns(self, table: str, columns: Sequence[str], only: Only | None = None, **types: str) -> pa.Table:
        """Rows of a table as Arrow columns, for tables of millions of rows; a missing column is NULL.

        Args:
            only: the rows to read; all if the table lacks the column in the condition.
            types: by column, as in `rows`, or `name` for the number of a string, or its text, which become a
                dictionary of texts.

        Raises:
            SourceError: the database is damaged.
        """
        kinds = {name: types.get(name, "integer") for name in columns}
        parts: dict[str, list[pa.Array]] = {name: [] for name in columns}
        for chunk in self._chunks(table, kinds, only):
            for name, values in spill_columns(chunk).items():
                parts[name].append(values)
        return pa.table({name: _joined(parts[name], _ARROW[kind]) for name, kind in kinds.items()})

    def chunks(self, table: str, columns: Sequence[str], only: Only | None = None, **types: str) -> Iterator[pa.Table]:
        """The same rows, some tens of thousands at a time."""
        yield from map(pa.table, self._chunks(table, {name: types.get(name, "integer") for name in columns}, only))

    def _chunks(self, table: str, kinds: dict[str, str], only: Only | None) -> Iterator[dict[str, pa.Array]]:
        """Rows in order, as columns."""
        present_columns = self._columns.get(table)
        if not present_columns:
            return
        present = [(name, kind) for name, kind in kinds.items() if name in present_columns]
        # A tool may write texts in place of the numbers of strings; the column is declared for them then.
        texts = [(name, "text") for name, kind in present if kind == "name" and name not in self._integers[table]]
        where = self._where(table, only)
        needed = {name for name, _ in present} | ({only.column} if only is not None and where else set())
        stored = ", ".join(map(sql_name, sorted(needed))) or "1"
        left = self._max_rows
        for rows, limit in self._row_ranges(table):
            # Pages that form a circle have rows without end, none of which may be chosen: so the limit is inside.
            source = f"(SELECT {stored} FROM {rows} LIMIT {limit + 1}) WHERE {where or 'TRUE'}"
            fetched = self._fetch_columns(present + texts, source)
            arrays = [
                _typed(column.combine_chunks(), kind)
                for (_, kind), column in zip(present + texts, fetched.columns[1:], strict=True)
            ]
            columns = {name: array for (name, _), array in zip(present, arrays, strict=False)}
            named = {name: array for (name, _), array in zip(texts, arrays[len(present) :], strict=True)}
            self._count_wrong(source, [kind for kind, array in zip(present, arrays, strict=False) if array.null_count])
            count = len(fetched)
            left -= count
            if count > limit or left < 0:
                raise self._too_many_rows()
            for name, kind in kinds.items():
                if name not in present_columns:
                    columns[name] = pa.nulls(count, _ARROW[kind])
                elif kind == "name":
                    columns[name] = self._named(columns[name], named.get(name))
            yield {name: columns[name] for name in kinds}

    def _fetch_columns(self, kinds: Sequence[tuple[str, str]], source: str) -> pa.Table:
        """The columns after one that has a value in each row.

        Raises:
            SourceError: the database is damaged, or has more text than fits: ADBC's offsets overflow at 2 GiB, and
                rows that share pages can hold more text than the file has bytes.
        """
        texts = [sql_name(name) for name, kind in kinds if kind in ("text", "blob", "hex")]
        if texts:
            size = " + ".join(f"total(length(CAST({text} AS BLOB)))" for text in texts)
            ((total,),) = self._fetch(f"SELECT {size} FROM {source}", 1)
            if total > min(self._size, _MAX_CHUNK_BYTES):
                raise damaged(self._label, self._layout, "more text than it has room for")
        exact = [_of_type(sql_name(name), kind) for name, kind in kinds]
        integers = [at for at, (_, kind) in enumerate(kinds) if kind in ("integer", "name")]
        quick = list(exact)
        for at in integers:
            quick[at] = _number(sql_name(kinds[at][0]))
        fetched = self._arrow_table(f"SELECT {', '.join(['1', *quick])} FROM {source}")
        if any(pa.types.is_floating(fetched.columns[at + 1].type) for at in integers):
            return self._arrow_table(f"SELECT {', '.join(['1', *exact])} FROM {source}")
        return fetched

    def _row_ranges(self, table: str) -> Iterator[tuple[str, int]]:
        """Sources of a table's rows, in order, and how many rows each can have at most."""
        source = f"{sql_name(table)} NOT INDEXED"
        if table in self._without_row_ids:
            yield source, self._max_rows
            return
        after, last = "TRUE", None
        while True:
            at_end = f"{source} WHERE {after} ORDER BY rowid LIMIT 1 OFFSET {_CHUNK - 1}"
            end_row = list(self._fetch(f"SELECT rowid FROM {at_end}"))
            if not end_row:
                yield f"{source} WHERE {after} ORDER BY rowid", _CHUNK
                return
            ((end,),) = end_row
            if last is not None and end <= last:
                raise self._too_many_rows()
            yield f"{source} WHERE {after} AND rowid <= {end:d} ORDER BY rowid", _CHUNK
            after, last = f"rowid > {end:d}", end

    def _named(self, numbers: pa.Array, texts: pa.Array | None) -> pa.DictionaryArray:
        """Numbers of strings, or texts, as texts; NULL if there is no such string."""
        coded = numbers.dictionary_encode()
        texts_by_code = pa.array(
            list(map(self._strings.get, coded.dictionary.to_pylist())), pa.string()
        ).dictionary_encode()
        named = pa.DictionaryArray.from_arrays(texts_by_code.indices.take(coded.indices), texts_by_code.dictionary)
        self.unnamed += named.null_count - numbers.null_count
        return named if texts is None else pc.coalesce(texts, named.cast(pa.string())).dictionary_encode()

    def distinct(self, table: str, column: str, bits: int = 0) -> set[int]:
        """The distinct integers in a column, without their lowest bits."""
        if column not in self._columns.get(table, ()):
            return set()
        value = f"{sql_name(column)} >> {bits:d}"
        source = f"FROM {sql_name(table)} WHERE typeof({sql_name(column)}) = 'integer'"
        numbers: set[int] = set()
        if table in self._without_row_ids:
            return {number for (number,) in self._fetch(f"SELECT DISTINCT {value} {source}")}
        # Few values in millions of rows: searching for another is quicker than SQLite's own DISTINCT.
        last = -(1 << 63)
        while len(numbers) < _FEW:
            listed = ", ".join(map(str, numbers))
            further = f"rowid > {last} AND {value} NOT IN ({listed}) LIMIT 1"
            row = list(self._fetch(f"SELECT {value}, rowid {source} AND {further}", 1))
            if not row:
                return numbers
            ((number, last),) = row
            numbers.add(number)
        further_rows = self._fetch(f"SELECT DISTINCT {value} {source} AND rowid > {last}")
        return numbers | {number for (number,) in further_rows}

    def extent(self, table: str, columns: Sequence[str], upper: int, only: Only | None = None) -> list[int]:
        """Smallest and largest integer from 0 to below `most` in each column that has one."""
        columns_of_table = self._columns.get(table, frozenset())
        present = [sql_name(column) for column in columns if column in columns_of_table]
        if not present:
            return []
        source = f"FROM {sql_name(table)} WHERE {self._where(table, only) or 'TRUE'}"
        ends: list[Any] = []
        for fits in ("{0} BETWEEN 0 AND {1:d}", "typeof({0}) = 'integer' AND {0} BETWEEN 0 AND {1:d}"):
            values = ", ".join(
                f"{which}(CASE WHEN {fits.format(present_column, upper - 1)} THEN {present_column} END)"
                for present_column in present
                for which in ("min", "max")
            )
            (row,) = self._fetch(f"SELECT {values} {source}")
            ends = [number for number in row if number is not None]
            # If neither end is a real number, types need not be checked.
            if all(isinstance(number, int) for number in ends):
                break
        return ends

    def _where(self, table: str, only: Only | None) -> str:
        """The condition for the chosen rows; empty for all, or if the table lacks the column."""
        if only is None or only.column not in self._columns.get(table, ()):
            return ""
        return f"{sql_name(only.column)} >> {only.bits:d} = {only.value:d}"

    def string(self, number: int | None) -> str:
        """The string with this number; empty if there is none."""
        return "" if number is None else self._strings.get(number, "")

    @cached_property
    def _strings(self) -> dict[int, str]:
        table, numbers, texts = self._layout.strings
        rows = self.rows(table, (numbers, texts), **{texts: "text"})
        return {number: text for number, text in rows if number is not None and text is not None}

    @cached_property
    def _arrow(self) -> AdbcConnection:
        return self._connect_arrow()

    def _arrow_table(self, query: str) -> pa.Table:
        # Imported here: most recordings are no databases. The module `dbapi` would import pandas and polars.
        from adbc_driver_manager import AdbcStatement, Error

        try:
            with AdbcStatement(self._arrow) as statement:
                statement.set_options(**{"adbc.sqlite.query.batch_rows": str(1 << 30)})
                statement.set_sql_query(query)
                rows, _ = statement.execute_query()
                return pa.RecordBatchReader.from_stream(rows).read_all()
        except (Error, OSError, pa.ArrowException) as error:
            raise damaged(self._label, self._layout, str(error)) from None

    def _fetch(self, query: str, max_rows: int | None = None) -> Iterator[tuple[Any, ...]]:
        left = self._max_rows if max_rows is None else max_rows
        try:
            cursor = self._connection.execute(query)
            while rows := cursor.fetchmany(_BATCH):
                left -= len(rows)
                if left < 0:
                    raise self._too_many_rows()
                yield from rows
        except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
            raise damaged(self._label, self._layout, str(error)) from None

    def _too_many_rows(self) -> SourceError:
        return damaged(self._label, self._layout, "more rows than it has room for")


_TYPES = {"name": ("integer", "text"), "number": ("integer", "real"), "hex": ("blob", "text")}
"""SQLite's types of each kind that is not one."""
_ARROW = {
    "integer": pa.int64(),
    "text": pa.string(),
    "real": pa.float64(),
    "number": pa.float64(),
    "blob": pa.binary(),
    "hex": pa.string(),
    "name": pa.dictionary(pa.int32(), pa.string()),
}


def _joined(parts: list[pa.Array], kind: pa.DataType) -> pa.ChunkedArray | pa.Array:
    """Chunks of a column, dictionaries as one."""
    column = pa.chunked_array(parts, kind)
    return column.unify_dictionaries().combine_chunks() if parts and pa.types.is_dictionary(kind) else column


def _typed(array: pa.Array, kind: str) -> pa.Array:
    """Values that ADBC read, as their kind's type; texts are valid and not too long, names are numbers."""
    arrow = pa.int64() if kind == "name" else _ARROW[kind]
    if array.null_count == len(array):
        return pa.nulls(len(array), arrow)  # ADBC cannot know the type
    if arrow != pa.string():
        return array.cast(arrow)
    try:
        array = array.view(pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        texts = array.view(pa.binary()).to_pylist()
        array = pa.array([None if text is None else text.decode("utf-8", "replace") for text in texts], pa.string())
    too_long = pc.max(pc.binary_length(array)).as_py() > LONGEST_TEXT
    return pc.utf8_slice_codeunits(array, 0, LONGEST_TEXT) if too_long else array


def _number(column: str) -> str:
    """SQL for an integer or real, which takes half as long as asking for its type: texts and blobs are greater than all
    numbers, if no declared type converts them."""
    return f"CASE WHEN +{column} <= {(1 << 63) - 1} THEN {column} END"


def _of_type(column: str, kind: str) -> str:
    """SQL for a value, NULL if it is of another kind."""
    if kind == "number":
        return f"CASE WHEN typeof({column}) IN ('integer', 'real') THEN CAST({column} AS REAL) END"
    if kind == "hex":
        return f"CASE typeof({column}) WHEN 'blob' THEN hex({column}) WHEN 'text' THEN {column} END"
    return f"CASE WHEN typeof({column}) = '{'integer' if kind == 'name' else kind}' THEN {column} END"


def damaged(label: str, layout: Layout, reason: str) -> SourceError:
    """The error for a database that cannot be read to its end.

    The reason may repeat names from the file, so only its printable characters are shown.
    """
    printable = "".join(letter for letter in reason[:200] if letter.isprintable())
    return SourceError(
        f"{label}: damaged {layout.tool} database ({printable})",
        hint="copy it again; if it was never complete, record again and let the program end by itself",
        slug="database-damaged",
    )
