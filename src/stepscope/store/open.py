"""Opens a store, which is a directory of Parquet files or tables in memory, as the tables of a database.

The connection can only read the store's directory, loads no extension, and its configuration is locked, so that a
question that someone typed can do no harm.
"""

from __future__ import annotations

import itertools
import os
import re
import tempfile
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.base.errors import StoreError
from stepscope.base.quoting import printable, sql_literal, sql_name
from stepscope.base.units import plural
from stepscope.schema.declare import Role, SchemaTable
from stepscope.schema.tables import TABLES
from stepscope.store.interrupt import interruptible
from stepscope.store.manifest import (
    StoredFile,
    check_directory_name,
    damaged_store,
    listed_files,
    read_store_file,
    verify_files,
)
from stepscope.store.memory import query_limit

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from stepscope.store.result_cache import ResultCache

ERRORS = {
    "closed": (
        "A recording from `stepscope.open` was used after it was closed, by `close` or at the end of its `with`."
    ),
}

_UNREADABLE = (MemoryError, TypeError, ValueError, OverflowError)
"""What reading a file raises, besides DuckDB's own errors, if a column has another name (or one that is not text)
or another type."""
_OPENED = itertools.count()
_TABLE_NAMES = re.compile(rf"\b(?:{'|'.join(TABLES)})\b", re.IGNORECASE)


class Store:
    """An open store. Use as a context manager, or call `close`. DuckDB is started by the first query.

    `directory` is None for rows in memory; `ranks` are its ranks, in order; `stored_steps` are the steps that it was
    narrowed to when it was made, None for all; `facts` is the content of its `store.json`; `threads`, set before the
    first query, is how many threads its queries take, None for one a processor.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection | None = None,
        *,
        directory: Path | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        """For `open` and `from_tables`, which callers use instead."""
        self.threads: int | None = None
        self._connected = connection
        self._connecting = threading.RLock()
        self._closed = False
        self._adding = threading.Lock()
        self._showing = threading.Lock()
        self._visible: set[str] = set()
        self._filled: Collection[str] = ()
        self._files: dict[str, dict[int, list[StoredFile]]] = {}
        self._verified: set[Path] = set()
        self._rebuild: Callable[[], object] | None = None
        self._shifts: dict[int, int] = {}
        self._drifts: dict[tuple[int, int], int] = {}
        self.directory = directory
        self.facts: Mapping[str, Any] = facts or {}
        self._start_epoch_ns: int | None = None
        self.ranks: tuple[int, ...] = ()
        steps = self.facts.get("steps")
        self.stored_steps: tuple[int, ...] | None = None if steps is None else tuple(steps)

    @classmethod
    def open(cls, directory: str | os.PathLike[str], *, rebuild: Callable[[], object] | None = None) -> Store:
        """Opens a store's directory.

        Times of all ranks are shifted to count from the start of the run: those of each rank by how much later it
        began plus its clock offset, and those of its further recordings also by their clock's drift.

        Args:
            directory: where it is.
            rebuild: makes it again at the same place. Called if a file turns out to be damaged, now or when a query
                first needs it; without it, that is an error.

        Raises:
            StoreError: the directory is not a store, a damaged one, or one of another version.
        """
        path = Path(directory).resolve()
        check_directory_name(path)
        store = cls(directory=path, facts=read_store_file(path))
        store._rebuild = rebuild
        store._filled = store._files = _by_table(listed_files(path, store.facts))
        if "rank" not in store._files:
            raise damaged_store(path, "it has no rank")
        store.ranks = tuple(sorted(store._files["rank"]))
        store._verify_tables(["rank"])
        return store

    @property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        """DuckDB, with the shifts of each rank's times.

        Raises:
            StoreError: the store is closed, or the files of ranks cannot be read.
        """
        with self._connecting:
            if self._closed:
                raise StoreError(
                    "the recording has been closed",
                    hint="ask it before it is closed, or open it again: stepscope.open(...)",
                    slug="closed",
                )
            if self._connected is None:
                self._connected = self._connect()
            return self._connected

    def _connect(self) -> duckdb.DuckDBPyConnection:
        import duckdb

        assert self.directory is not None  # noqa: S101  # rows in memory come with a connection
        connection = _connect(self.directory, self.threads)
        try:
            self._read_shifts(connection)
            connection.execute("SET lock_configuration=true")
        except (duckdb.Error, *_UNREADABLE) as error:
            connection.close()
            raise self._unreadable(self.directory, error) from None
        except BaseException:
            connection.close()
            raise
        return connection

    @classmethod
    def from_tables(cls, tables: Mapping[str, pa.Table]) -> Store:
        """Makes a store in memory.

        Args:
            tables: by name, with columns of the schema; `rank` is among them. The schema's checks apply.
        """
        connection = _connect(None)
        store = cls(connection)
        try:
            store._filled = tables.keys()
            store.show_tables(tables)
            for name, rows in tables.items():
                connection.register("given_rows", rows)
                connection.execute(f"INSERT INTO {name} BY NAME SELECT * FROM given_rows")
                connection.unregister("given_rows")
            connection.execute("SET enable_external_access=false")
            connection.execute("SET lock_configuration=true")
        except BaseException:
            store.close()
            raise
        store.ranks = tuple(sorted(tables["rank"].column("rank").to_pylist()))
        return store

    def sql(self, text: str, params: Any = None) -> pa.Table:
        """Runs a query of our own and returns its rows. For a query that a person typed, use
        `stepscope.store.query.run_query`.
        """
        self.check_files(text)
        return fetch_arrow(self._connection, text, params)

    def show_tables(self, names: Iterable[str] = TABLES) -> None:
        """Makes tables known to queries (all by default), which takes up to a millisecond for each: views of files, or
        tables in memory.

        Raises:
            StoreError: the files of one cannot be read.
        """
        with self._showing:
            new = [TABLES[name] for name in names if name not in self._visible]
            if not new:
                return
            import duckdb

            try:
                with self._connection.cursor() as cursor:
                    for table in new:
                        if self.directory is None:
                            cursor.execute(table.create_statement())
                        else:
                            cursor.execute(f"CREATE VIEW {table.name} AS {self.select_text(table)}")
                        self._visible.add(table.name)
            except (duckdb.Error, *_UNREADABLE) as error:
                if self.directory is None:
                    raise
                raise self._unreadable(self.directory, error) from None

    def _unreadable(self, path: Path, error: Exception) -> StoreError:
        """The error for files that are undamaged but cannot be read by DuckDB.

        Raises:
            StoreError: one is damaged after all.
        """
        self.verify_all_files()  # names the file
        return damaged_store(path, (str(error) or "no memory").splitlines()[0])

    def check_files(self, text: str, ranks: Iterable[int] | None = None) -> None:
        """Prepares the tables that a query names, each on its first use: compares their files with what was written,
        and makes views of them. Whoever runs a query on their own cursor calls it before.

        Raises:
            StoreError: a file is missing or damaged.
        """
        named = {name.lower() for name in _TABLE_NAMES.findall(text)}
        self._verify_tables(named, ranks)
        self.show_tables(named)

    def _verify_tables(self, tables: Iterable[str], ranks: Iterable[int] | None = None) -> None:
        by_ranks = [self._files.get(name, {}) for name in tables]
        chosen = self.ranks if ranks is None else tuple(ranks)
        files = {file.path: file for by_rank in by_ranks for rank in chosen for file in by_rank.get(rank, ())}
        self._verify(file for path, file in files.items() if path not in self._verified)

    def verify_all_files(self, ranks: Iterable[int] | None = None) -> None:
        """Compares every file of these ranks (all by default) with what was written.

        Raises:
            StoreError: one is missing or damaged.
        """
        chosen = set(self.ranks if ranks is None else ranks)
        self._verify(file for file in _by_path(self._files).values() if chosen.intersection(file.ranks))

    def _verify(self, some: Iterable[StoredFile]) -> None:
        files = list(some)
        if self.directory is None or not files:
            return
        try:
            verify_files(self.directory, files)
        except StoreError:
            if self._rebuild is None:
                raise
            rebuild, self._rebuild = self._rebuild, None
            rebuild()
            # The tables are views of files with the same names, so nothing else changes.
            self.facts = read_store_file(self.directory)
            self._filled = self._files = _by_table(listed_files(self.directory, self.facts))
            self._verified.clear()
            by_path = _by_path(self._files)
            verify_files(self.directory, [by_path.get(file.path, file) for file in files])
        self._verified.update(file.path for file in files)

    def verify_rows(self) -> None:
        """Compares all files with what was written, and their rows with the schema; for a query that failed.

        Raises:
            StoreError: a file is damaged, or has rows that the schema does not allow.
        """
        if self.directory is None:
            return
        import duckdb

        from stepscope.store.schema_violation import schema_violation  # imported here: it is rare

        self.verify_all_files()
        paths = {
            name: _paths(file for of_rank in by_rank.values() for file in of_rank)
            for name, by_rank in self._files.items()
        }
        try:
            violation = schema_violation(paths, lambda query: self._connection.execute(query).fetchall())
        except duckdb.Error as error:
            violation = str(error).splitlines()[0]
        if violation:
            raise damaged_store(self.directory, violation)

    @property
    def skipped(self) -> list[tuple[str, str]]:
        """Files that were found beside those of the store and left out, each with the reason.

        Raises:
            StoreError: their list is damaged.
        """
        try:
            return [(file["path"], file["reason"]) for file in self.facts.get("skipped", ())]
        except (TypeError, LookupError) as error:
            raise damaged_store(self.directory, f"its skipped files: {error}") from None

    def may_have(self, table: str) -> bool:
        """Whether a table has rows, perhaps of other ranks."""
        return table in self._filled

    def stored_bytes(self, table: str) -> int:
        """Bytes of a table's files; 0 if there are none, and for rows in memory."""
        by_rank = self._files.get(table, {})
        return sum(file.size for file in {stored for some in by_rank.values() for stored in some})

    def filled(self) -> tuple[str, ...]:
        """The tables that have rows."""
        return tuple(filter(self.may_have, TABLES))

    @property
    def results(self) -> ResultCache | None:
        """Its cached answers; None for rows in memory."""
        if self.directory is None:
            return None
        from stepscope.store.result_cache import ResultCache  # imported here: it loads pyarrow

        return ResultCache(self.directory)

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A further connection to the same tables, which its caller closes. Temporary views made on
        it shadow the store's tables only there.
        """
        return self._connection.cursor()

    @contextmanager
    def with_temp_tables(
        self, cursor: duckdb.DuckDBPyConnection, schema: str, tables: Mapping[str, pa.Table]
    ) -> Iterator[None]:
        """Adds tables in a schema of their own to the store's, temporarily, for one cursor.

        A schema belongs to all cursors (DuckDB has no temporary ones), so it is made in a transaction that is rolled
        back, and another thread that wants one waits.
        """
        self.show_tables()  # a transaction sees none that are made after its start
        with self._adding:
            cursor.begin()
            try:
                cursor.execute(f"CREATE SCHEMA {sql_name(schema)}")
                for name, rows in tables.items():
                    cursor.register("added_rows", rows)
                    target = f"{sql_name(schema)}.{sql_name(name)}"
                    cursor.execute(f"CREATE TABLE {target} AS FROM added_rows")
                    cursor.unregister("added_rows")
                yield
            finally:
                cursor.rollback()

    def select_text(self, table: SchemaTable, ranks: Iterable[int] | None = None) -> str:
        """The SELECT for a table of chosen ranks (all by default), with its times shifted."""
        chosen = self.ranks if ranks is None else tuple(ranks)
        if self.directory is None and table.name in self._filled:
            listed = ", ".join(map(str, chosen)) or "NULL"
            return f"SELECT * FROM memory.main.{table.name} WHERE rank IN ({listed})"
        by_rank = self._files.get(table.name, {})
        files = dict.fromkeys(file for rank in chosen for file in by_rank.get(rank, ()))
        if not files:
            empty = ", ".join(f"NULL::{c.sql_type} AS {c.quoted}" for c in table.columns)
            return f"SELECT {empty} WHERE false"
        source = _read_parquet(files)
        if any(set(file.ranks).difference(chosen) for file in files):
            listed = ", ".join(map(str, chosen))
            source = f"(SELECT * FROM {source} WHERE rank IN ({listed}))"
        shifts = {rank: self._shifts[rank] for rank in chosen}
        moved = [c for c in table.columns if c.role is Role.MOMENT]
        drifts = {place: ns for place, ns in self._drifts.items() if place[0] in shifts}
        if not moved or not (any(shifts.values()) or drifts):
            return f"SELECT {', '.join(c.quoted for c in table.columns)} FROM {source}"
        if len(set(shifts.values())) == 1:
            shift, origin = f"{next(iter(shifts.values()))}::BIGINT", f"{source} AS events"
        else:
            pairs = ", ".join(f"({rank}, {shift}::BIGINT)" for rank, shift in shifts.items())
            shift = "clock.shift_ns"
            origin = (
                f"{source} AS events JOIN (VALUES {pairs}) AS clock(shifted_rank, shift_ns) "
                "ON events.rank = clock.shifted_rank"
            )
        if drifts:
            some = ", ".join(f"({rank}, {span}, {ns}::BIGINT)" for (rank, span), ns in drifts.items())
            shift = f"({shift} + coalesce(drift.drift_ns, 0))"
            origin += (
                f" LEFT JOIN (VALUES {some}) AS drift(drifting_rank, drifting_span, drift_ns) "
                "ON events.rank = drift.drifting_rank AND events.span = drift.drifting_span"
            )
        columns = ", ".join(
            f"events.{c.quoted} + {shift} AS {c.quoted}" if c in moved else f"events.{c.quoted}" for c in table.columns
        )
        return f"SELECT {columns} FROM {origin}"

    def files(self, table: str, rank: int) -> list[Path]:
        """The files with a rank's rows of a table, perhaps with rows of other ranks; none for rows in
        memory. The caller calls `check_files` before reading them.
        """
        return [file.path for file in self._files.get(table, {}).get(rank, ())]

    def shift_ns(self, rank: int, span: int) -> int:
        """The shift from the times in a recording's files to those of the store (ns)."""
        _ = self._connection
        return self._shifts.get(rank, 0) + self._drifts.get((rank, span), 0)

    def comment(self) -> None:
        """Adds the schema's meanings to the tables and columns, for people who look at them in SQL."""
        self.show_tables()
        kind = "TABLE" if self.directory is None else "VIEW"
        self._connection.execute(
            "".join(
                f"COMMENT ON {kind} {table.name} IS {sql_literal(table.meaning)};"
                + "".join(
                    f"COMMENT ON COLUMN {table.name}.{c.quoted} IS {sql_literal(c.meaning)};" for c in table.columns
                )
                for table in TABLES.values()
            )
        )

    def _read_shifts(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Reads the shifts of each rank's times, and those of recordings whose clock drifts."""
        rows = self._read_early(connection, "rank", "rank, start_epoch_ns, clock_offset_ns, clock_drift_ppb")
        if {rank for rank, *_ in rows} != set(self.ranks):
            raise damaged_store(self.directory, "its files of ranks are of others")
        starts = {rank: start + (offset or 0) for rank, start, offset, _ in rows if start is not None}
        self._start_epoch_ns = min(starts.values(), default=None)
        first = self._start_epoch_ns or 0
        self._shifts = {
            rank: (offset or 0) if start is None else starts[rank] - first for rank, start, offset, _ in rows
        }
        if any(drift for _, _, _, drift in rows):
            self._verify_tables(["source"])
            read = self._read_early(connection, "source", "rank, span, drift_ns")
            self._drifts = {(rank, span): ns for rank, span, ns in read if ns}

    def _read_early(self, connection: duckdb.DuckDBPyConnection, table: str, columns: str) -> list[tuple[Any, ...]]:
        """Rows of a table, before there is a view of it."""
        files = [file for of_ranks in self._files.get(table, {}).values() for file in of_ranks]
        if not files:
            raise damaged_store(self.directory, f"it has no {table}")
        return connection.execute(f"SELECT {columns} FROM {_read_parquet(files)}").fetchall()

    @property
    def start_epoch_ns(self) -> int | None:
        """The Unix time (ns) that all times count from; None if unknown."""
        _ = self._connection
        return self._start_epoch_ns

    def close(self) -> None:
        """Closes the connection. Harmless if it is closed already."""
        with self._connecting:
            self._closed = True
            if self._connected is not None:
                import duckdb

                # A query in another thread that DuckDB does not stop at once keeps it until it ends.
                with suppress(duckdb.Error):
                    self._connected.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        where = "rows in memory" if self.directory is None else printable(str(self.directory))
        return f"<Store {where}, {len(self.ranks)} {plural(len(self.ranks), 'rank')}>"


def fetch_arrow(
    connection: duckdb.DuckDBPyConnection, text: str, params: Any = None, *, limit: int | None = None
) -> pa.Table:
    """All rows of a query, or the first so many. Uses a relation: only that way leads to Arrow without a
    further copy in every supported version of DuckDB.
    """

    def fetch() -> pa.Table:
        rows = connection.sql(text, params=params)
        return (rows if limit is None else rows.limit(limit)).to_arrow_table()

    return interruptible(connection, fetch)


def _connect(directory: Path | None, threads: int | None = None) -> duckdb.DuckDBPyConnection:
    import duckdb  # imported here: a cached answer does not need it

    connection = duckdb.connect(
        ":memory:",
        config={
            "python_enable_replacements": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "allow_community_extensions": "false",
            "memory_limit": f"{query_limit()}B",
            # Created only when a query outgrows memory, and deleted by DuckDB; never in the user's folder.
            "temp_directory": f"{tempfile.gettempdir()}/stepscope-{os.getpid()}-{next(_OPENED)}",
            # If it joins an empty table, DuckDB 2.0.0 takes a sum to be as narrow as a single row, and then
            # sorts by the truncated value: 600000 becomes -64.
            "disabled_optimizers": "compressed_materialization",
        },
    )
    if threads is not None:
        connection.execute(f"SET threads={threads}")
    if directory is not None:
        connection.execute(f"SET allowed_directories=[{sql_literal(str(directory))}]")
        connection.execute("SET enable_external_access=false")
    return connection


def _by_table(files: Iterable[StoredFile]) -> dict[str, dict[int, list[StoredFile]]]:
    """Table → rank → its files, one or two per span, in order of span."""
    by_table: dict[str, dict[int, list[StoredFile]]] = {}
    for file in files:
        for rank in file.ranks:
            by_table.setdefault(file.table, {}).setdefault(rank, []).append(file)
    return by_table


def _read_parquet(files: Iterable[StoredFile]) -> str:
    listed = ", ".join(map(sql_literal, _paths(files)))
    return f"read_parquet([{listed}], hive_partitioning=false)"


def _paths(files: Iterable[StoredFile]) -> list[str]:
    return list(dict.fromkeys(str(file.path) for file in files))


def _by_path(files: Mapping[str, Mapping[int, Sequence[StoredFile]]]) -> dict[Path, StoredFile]:
    return {file.path: file for by_rank in files.values() for some in by_rank.values() for file in some}
