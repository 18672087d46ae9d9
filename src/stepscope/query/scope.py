"""What a question reads: an open store, narrowed to the requested ranks, steps and events."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from stepscope.base.chosen_numbers import check_known
from stepscope.base.errors import StoreError, UsageError
from stepscope.base.quoting import path_text
from stepscope.query.part import EVERYTHING, Part
from stepscope.schema.tables import TABLES
from stepscope.store.interrupt import interruptible
from stepscope.store.open import Store, fetch_arrow
from stepscope.store.query import check_read_only, tables_of_schema

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from stepscope.store.kept import Kept

T = TypeVar("T")

_HELD_BYTES = 2 << 20
"""The largest files of a table that are loaded into memory: some 200,000 events, which take 30 MB there."""
_HELD_ROWS = 200_000
"""The most rows of such a table: files of steps that are all alike contain a hundred times as many."""

_MOST_FOUND_BYTES = 64 << 20
"""The most memory for cached query results, for callers that ask many questions."""

_STEPS = "SELECT DISTINCT step FROM {table} ORDER BY step"


@dataclass(frozen=True, slots=True)
class Recording:
    """One of several recordings that a question compares.

    Args:
        name: its name in the answer.
        role: `before`, `after`, or its name.
        scope: its tables.
    """

    name: str
    role: str
    scope: Scope

    def __post_init__(self) -> None:
        """Makes file names that are not UTF-8 storable as text."""
        object.__setattr__(self, "name", path_text(self.name))
        object.__setattr__(self, "role", path_text(self.role))


class Scope:
    """The tables of a store, narrowed to ranks, steps and a part of the events; all by default.

    In the SQL given to `sql`, a table's name stands for its rows in these ranks, steps and part. Once steps
    are given, work that belongs to no step is out of scope. Times stay relative to the start of the entire
    run. Close it, or use it as a context manager; the store stays open.

    Raises:
        UsageError: the recording does not have a rank or step, or has nothing of the part.
    """

    def __init__(
        self,
        store: Store,
        ranks: Iterable[int] | None = None,
        steps: Iterable[int] | None = None,
        part: Part = EVERYTHING,
        *,
        all_times: bool = False,
        may_lack: bool = False,
    ) -> None:
        """Narrows the tables.

        Args:
            ranks: the ranks to keep; all by default.
            steps: the steps to keep; by default those that the store was narrowed to, else all.
            part: the events to keep within these.
            all_times: also keep everything else that the store has from the times of these steps.
            may_lack: the part may name something that the recording does not have; `lacks` is then the error.
        """
        self.store = store
        self.part = part
        self.lacks: UsageError | None = None
        self.ranks = store.ranks if ranks is None else check_known(ranks, store.ranks, "rank")
        self.steps: tuple[int, ...] | None = None
        self.traced_steps: list[int] = []
        self._conditions: dict[str, str] = {}
        self._once: dict[Hashable, Any] = {}
        self._held: dict[str, bool] = {}
        self._complete: set[str] = set()
        self._found: dict[Hashable, Any] | None = None
        self._found_bytes = 0
        self._kept: Kept | None = None
        self._cursor = store.cursor()
        try:
            if self.ranks != store.ranks:
                self._shadow(dict.fromkeys(TABLES, "true"))
            by_default = steps is None and store.kept_steps is not None and not all_times
            if steps is not None or by_default:
                store.check_files("step, phase_step", self.ranks)
                traced, phase_steps = (
                    [step for (step,) in self._cursor.execute(_STEPS.format(table=table)).fetchall()]
                    for table in ("step", "phase_step")
                )
                known = sorted({*traced, *phase_steps})
                if steps is None:
                    self.steps = tuple(step for step in store.kept_steps or () if step in known)
                else:
                    self.traced_steps = traced
                    self.steps = check_known(steps, known, "step")
                chosen = f"step IN ({', '.join(map(str, self.steps)) or 'NULL'})"
                filters = {name: chosen for name, table in TABLES.items() if table.stepped}
                described = f"SELECT (rank, id) FROM {{events}} WHERE {chosen}"
                filters |= {name: table.describing(described) for name, table in TABLES.items() if table.describes}
                self._shadow(filters)
            if part:
                self._narrow(part)
                if self.lacks is not None and not may_lack:
                    raise self.lacks
            elif not self._conditions and store.takes_long:
                self._kept = store.kept
        except BaseException:
            self.close()
            raise

    def check_traced(self) -> None:
        """Refuses steps that have phases but no trace.

        Raises:
            UsageError: there are traces with steps, and one of the requested steps is not among them.
        """
        if self.steps is not None and self.traced_steps:
            check_known(self.steps, self.traced_steps, "step", of="the traces of this recording")

    @property
    def keeps(self) -> bool:
        """Whether results are kept in the store: only those of the complete store, and not of a small one."""
        return self._kept is not None

    def has_none(self, *tables: str) -> bool:
        """Whether the store has no rows in any of these tables, so that queries over only these can be skipped."""
        return not any(map(self.store.may_have, tables))

    def every(self, table: str) -> str:
        """The SQL name for a table's rows in the requested ranks and steps, regardless of the part: an
        event outside the part can be referenced by one inside.
        """
        if not self.part:
            return table
        name = f"every_{table}"
        if name not in self._complete:
            self._cursor.execute(f"CREATE TEMP VIEW {name} AS {self.complete_rows(table, self.ranks)}")
            self._complete.add(name)
        return name

    def complete_rows(self, table: str, ranks: Iterable[int]) -> str:
        """The SELECT that reads a table's rows of the requested steps on these ranks, from their files only,
        regardless of the part.
        """
        rows = self.store.select_text(TABLES[table], ranks)
        return f"SELECT * FROM ({rows}) WHERE {self._conditions.get(table, 'true')}"

    def _narrow(self, part: Part) -> None:
        """Puts views of the kept events over the tables; `every` names the complete rows."""
        # Imported here: most questions ask about everything and do not need link.
        from stepscope.query.narrow import kept_tables, named_nothing, narrowing_views

        tables = kept_tables(self, part)
        if not any(kept.num_rows for kept in tables.values()):
            self.lacks = named_nothing(self)
        for name, kept in tables.items():
            self._cursor.register("kept_rows", kept)
            self._cursor.execute(f"CREATE TEMP TABLE {name} AS FROM kept_rows")
            self._cursor.unregister("kept_rows")
        for name, rows in narrowing_views(self, part).items():
            self._cursor.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {rows}")

    def _shadow(self, filters: dict[str, str]) -> None:
        """Covers each table that has rows with a temporary view of the same name, on this cursor only."""
        self.store.check_files(" ".join(filters.values()), self.ranks)
        self._conditions |= filters
        for name in filter(filters.__contains__, self.store.filled()):
            rows = self.complete_rows(name, self.ranks)
            self._cursor.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {rows}")

    def hold(self, tables: Iterable[str] = ("host_event", "device_event", "step")) -> None:
        """Loads small tables into memory and caches query results, for callers that ask dozens of questions: otherwise
        they would decode the same files and partly run the same queries again.
        """
        self._found = self._found or {}
        if not (self._conditions or self.part):
            small = (name for name in tables if 0 < self.store.stored_bytes(name) <= _HELD_BYTES)
            self._held = dict.fromkeys(small, False) | self._held
            if self._kept is None:
                self._hold()

    @contextmanager
    def of_rank(self, rank: int, steps: Iterable[int] | None = None, *, all_times: bool = False) -> Iterator[Scope]:
        """A scope of one of its ranks, without the part, for loops over ranks. It reads only that rank's files: reading
        all ranks' files each time would be quadratic. Returns itself if it has no other rank or holds the events.
        """
        events = [name for name in ("host_event", "device_event") if self.store.stored_bytes(name)]
        held = bool(events) and all(name in self._held for name in events)
        if not self.part and (held or self.ranks == (rank,)):
            yield self
            return
        with Scope(self.store, [rank], steps, all_times=all_times) as own:
            yield own

    def _hold(self) -> None:
        """Loads the tables that `hold` named, before the first query whose result is not kept."""
        import duckdb

        for name in [name for name, done in self._held.items() if not done]:
            self._held[name] = True
            # The question that first reads the table reports damage.
            with suppress(StoreError, duckdb.Error):
                self.store.check_files(name, self.ranks)
                ((rows,),) = self._cursor.execute(f"SELECT count(*) FROM {name}").fetchall()
                if rows > _HELD_ROWS:
                    del self._held[name]
                else:
                    self._cursor.execute(f"CREATE TEMP TABLE {name} AS FROM {name}")

    def sql(self, text: str, params: Any = None) -> pa.Table:
        """Runs one of our queries over the narrowed tables. `params` are bound, by position or by name.

        If the scope is the complete store, results are kept and reused (`store.kept`).
        """
        return self._from_kept(("sql", text, params), lambda: self.rows(text, params), _is_small)

    def rows(self, text: str, params: Any = None, *, most: int | None = None) -> pa.Table:
        """Runs a query, which may use the time or a random number, and returns at `most` this many rows."""
        self._hold()
        self.store.check_files(text, self.ranks)
        return fetch_arrow(self._cursor, text, params, most=most)

    def kept(self, key: Hashable, make: Callable[[], T], *records: type) -> T:
        """Like `once`, for a value that depends only on the tables: for a scope of the complete store, it is kept.

        Args:
            key: identifies the value; made of texts and numbers.
            make: makes the value from this scope.
            records: the classes in the value, besides numbers, texts, arrays and containers of these.
        """
        return self.once(key, lambda: self._from_kept(("made", key), make, lambda _: True, *records))

    def _from_kept(self, name: Any, make: Callable[[], T], worth: Callable[[T], bool], *records: type) -> T:
        if self._kept is None and self._found is None:
            return make()
        from stepscope.store.kept import NOTHING, key_of

        key = key_of(*name)
        if key is None:
            return make()
        if self._found is not None and key in self._found:
            return cast("T", self._again(key))
        known: Any = NOTHING if self._kept is None else self._kept.get(key, *records)
        if known is NOTHING:
            known = make()
            if self._kept is not None and worth(known):
                self._kept.put(key, known)
        self._remember(key, known)
        return cast("T", known)

    def _again(self, key: Hashable) -> Any:
        """Returns the cached value of a key and marks it as used last."""
        assert self._found is not None  # noqa: S101 - the key was found in it
        self._found[key] = known = self._found.pop(key)
        return known

    def _remember(self, key: Hashable, value: Any) -> None:
        """Caches a value while `hold` is on. To make room, the least recently used large values are dropped first."""
        if self._found is None or (size := _size(value)) > _MOST_FOUND_BYTES:
            return
        self._found[key] = value
        self._found_bytes += size
        while self._found_bytes > _MOST_FOUND_BYTES:
            large = (one for one, of in self._found.items() if _size(of) > _MOST_FOUND_BYTES // 100)
            self._found_bytes -= _size(self._found.pop(next(large, next(iter(self._found)))))

    def check_read_only(self, text: str) -> None:
        """Accepts SQL that only reads.

        Raises:
            UsageError: it is anything else.
        """
        check_read_only(self._cursor, text)

    def tables_of_schema(self, text: str, schema: str) -> tuple[str, ...]:
        """Names the tables of a schema that read-only SQL mentions; they need not exist."""
        return tables_of_schema(self._cursor, text, schema)

    @contextmanager
    def beside(self, schema: str, tables: Mapping[str, pa.Table]) -> Iterator[None]:
        """Adds tables as `schema.name` beside the narrowed ones, while the context lasts; queries in it never use
        cached results.
        """
        known = self._kept, self._found
        self._kept = self._found = None
        try:
            with self.store.beside(self._cursor, schema, tables):
                yield
        finally:
            self._kept, self._found = known

    def numpy(self, text: str, params: Any = None) -> dict[str, np.ndarray[Any, Any]]:
        """Runs a query and returns its columns as NumPy arrays by name.

        A column that contains NULL becomes a masked array.
        """
        # Through Arrow: DuckDB's own conversion to NumPy imports pandas if it is installed.
        table = self.sql(text, params)
        return {name: _as_numpy(table.column(name)) for name in table.column_names}

    def value(self, text: str, params: Any = None) -> Any:
        """Runs a query of one row and one column and returns its value, None for NULL."""

        def run() -> Any:
            self._hold()
            self.store.check_files(text, self.ranks)
            cursor = self._cursor
            # All rows, though one is wanted: DuckDB 2 does nothing else until the last row is fetched.
            rows = interruptible(cursor, lambda: cursor.execute(text, params).fetchall())
            return rows[0][0] if rows else None

        return self._from_kept(("value", text, params), run, lambda _: True)

    def remembered(self, key: Hashable, make: Callable[[], T]) -> T:
        """Like `once`, for a value with a size (`nbytes`): cached while `hold` is on and there is room."""
        if self._found is not None and key in self._found:
            return cast("T", self._again(key))
        value = make()
        self._remember(key, value)
        return value

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Returns a value that several questions about this scope share; makes it at the first call.

        Args:
            key: identifies the value: the name of the module that makes it, and the inputs.
            make: makes the value from this scope.
        """
        if key not in self._once:
            self._once[key] = make()
        known: T = self._once[key]
        return known

    def close(self) -> None:
        """Closes its cursor, and with it the narrowed tables; new results are kept."""
        self._cursor.close()
        if self._kept is not None:
            self._kept.write()

    def __enter__(self) -> Scope:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes it."""
        self.close()


def _size(value: Any) -> int:
    return int(getattr(value, "nbytes", 0))


def _is_small(rows: pa.Table) -> bool:
    from stepscope.store.kept import MOST_ROWS

    return bool(rows.num_rows <= MOST_ROWS)


def _as_numpy(column: pa.ChunkedArray) -> np.ndarray[Any, Any]:
    if not column.null_count:
        whole: np.ndarray[Any, Any] = column.to_numpy()
        return whole
    import numpy as np
    import pyarrow as pa

    nothing = "" if pa.types.is_string(column.type) else pa.scalar(0).cast(column.type)
    return np.ma.MaskedArray(column.fill_null(nothing).to_numpy(), mask=column.is_null().to_numpy())
