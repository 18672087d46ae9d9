"""What a question reads: an open store, narrowed to the requested ranks, steps and events."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from stepscope.base.chosen_numbers import check_known
from stepscope.base.errors import StoreError, UsageError
from stepscope.base.quoting import path_text
from stepscope.query.event_filter import EVERYTHING, EventFilter
from stepscope.schema.tables import TABLES
from stepscope.store.interrupt import interruptible
from stepscope.store.open import Store, fetch_arrow
from stepscope.store.query import check_read_only, tables_of_schema

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

T = TypeVar("T")

_PRELOAD_BYTES = 2 << 20
"""The largest files of a table that are loaded into memory: some 200,000 events, which take 30 MB there."""
_PRELOAD_ROWS = 200_000
"""The most rows of such a table: files of steps that are all alike contain a hundred times as many."""

_MEMO_BYTES = 64 << 20

_STEPS = "SELECT DISTINCT step FROM {table} ORDER BY step"


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One of several recordings that a question compares; its role is `before`, `after`, or its name."""

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
        part: EventFilter = EVERYTHING,
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
        self._memo = _Memo()
        self._remembers_queries = False
        self._preloaded: set[str] = set()
        self._complete: set[str] = set()
        self._cursor = store.cursor()
        try:
            if self.ranks != store.ranks:
                self._shadow(dict.fromkeys(TABLES, "true"))
            by_default = steps is None and store.stored_steps is not None and not all_times
            if steps is not None or by_default:
                store.check_files("step, phase_step", self.ranks)
                traced, phase_steps = (
                    [step for (step,) in self._cursor.execute(_STEPS.format(table=table)).fetchall()]
                    for table in ("step", "phase_step")
                )
                steps_known = sorted({*traced, *phase_steps})
                if steps is None:
                    self.steps = tuple(step for step in store.stored_steps or () if step in steps_known)
                else:
                    self.traced_steps = traced
                    self.steps = check_known(steps, steps_known, "step")
                chosen = f"step IN ({', '.join(map(str, self.steps)) or 'NULL'})"
                filters = {name: chosen for name, table in TABLES.items() if table.stepped}
                described = f"SELECT (rank, id) FROM {{events}} WHERE {chosen}"
                filters |= {name: table.describing(described) for name, table in TABLES.items() if table.describes}
                self._shadow(filters)
            if part:
                self._narrow(part)
                if self.lacks is not None and not may_lack:
                    raise self.lacks
        except BaseException:
            self.close()
            raise
        self._remembers_queries = True

    def check_traced(self) -> None:
        """Refuses steps that have phases but no trace.

        Raises:
            UsageError: there are traces with steps, and one of the requested steps is not among them.
        """
        if self.steps is not None and self.traced_steps:
            check_known(self.steps, self.traced_steps, "step", of="the traces of this recording")

    @property
    def is_complete(self) -> bool:
        """Whether it has all that the store has."""
        return not self._conditions and not self.part

    def has_none(self, *tables: str) -> bool:
        """Whether the store has no rows in any of these tables, so that queries over only these can be skipped."""
        return not any(map(self.store.may_have, tables))

    def unfiltered(self, table: str) -> str:
        """The SQL name for a table's rows in the requested ranks and steps, regardless of the part: an
        event outside the part can be referenced by one inside.
        """
        if not self.part:
            return table
        name = f"unfiltered_{table}"
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

    def _narrow(self, part: EventFilter) -> None:
        """Puts views of the kept events over the tables; `unfiltered` names the complete rows."""
        # Imported here: most questions ask about everything and do not need link.
        from stepscope.query.narrow import named_nothing, narrowing_views, selected_tables

        tables = selected_tables(self, part)
        if not any(selected.num_rows for selected in tables.values()):
            self.lacks = named_nothing(self)
        for name, selected in tables.items():
            self._cursor.register("kept_rows", selected)
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

    def preload(self, tables: Iterable[str] = ("host_event", "device_event", "step")) -> None:
        """Loads small tables into memory, for callers that run dozens of queries, each of which would decode the same
        files.
        """
        if not self.is_complete:
            return
        import duckdb

        for name in tables:
            if name in self._preloaded or not 0 < self.store.stored_bytes(name) <= _PRELOAD_BYTES:
                continue
            with suppress(StoreError, duckdb.Error):  # the question that first reads the table reports damage
                self.store.check_files(name, self.ranks)
                ((rows,),) = self._cursor.execute(f"SELECT count(*) FROM {name}").fetchall()
                if rows <= _PRELOAD_ROWS:
                    self._cursor.execute(f"CREATE TEMP TABLE {name} AS FROM {name}")
                    self._preloaded.add(name)

    @contextmanager
    def of_rank(self, rank: int, steps: Iterable[int] | None = None, *, all_times: bool = False) -> Iterator[Scope]:
        """A scope of one of its ranks, without the part, for loops over ranks. It reads only that rank's files: reading
        all ranks' files each time would be quadratic. Returns itself if it has no other rank or has preloaded the events.
        """
        events = [name for name in ("host_event", "device_event") if self.store.stored_bytes(name)]
        preloaded = bool(events) and self._preloaded.issuperset(events)
        if not self.part and (preloaded or self.ranks == (rank,)):
            yield self
            return
        with Scope(self.store, [rank], steps, all_times=all_times) as scope:
            yield scope

    def sql(self, text: str, params: Any = None) -> pa.Table:
        """Runs one of our queries over the narrowed tables. `params` are bound, by position or by name."""
        return self._remembered("sql", text, params, lambda: self.rows(text, params))

    def rows(self, text: str, params: Any = None, *, limit: int | None = None) -> pa.Table:
        """Runs a query, which may use the time or a random number, and returns at most `limit` rows."""
        self.store.check_files(text, self.ranks)
        return fetch_arrow(self._cursor, text, params, limit=limit)

    def _remembered(self, kind: str, text: str, params: Any, run: Callable[[], T]) -> T:
        if not self._remembers_queries:
            return run()
        try:
            key = (kind, text, json.dumps(params))
        except (TypeError, ValueError):
            return run()
        return self._memo.get_or_compute(key, run)

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
    def with_temp_tables(self, schema: str, tables: Mapping[str, pa.Table]) -> Iterator[None]:
        """Adds tables as `schema.name` while the context lasts; queries in it are not remembered."""
        remembered, self._remembers_queries = self._remembers_queries, False
        try:
            with self.store.with_temp_tables(self._cursor, schema, tables):
                yield
        finally:
            self._remembers_queries = remembered

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
            self.store.check_files(text, self.ranks)
            cursor = self._cursor
            # All rows, though one is wanted: DuckDB 2 does nothing else until the last row is fetched.
            rows = interruptible(cursor, lambda: cursor.execute(text, params).fetchall())
            return rows[0][0] if rows else None

        return self._remembered("value", text, params, run)

    def cached(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Returns a value that several questions about this scope share; computes it at the first call.

        Args:
            key: identifies the value: the name of the module that computes it, and the inputs.
            compute: computes the value from this scope.
        """
        return self._memo.get_or_compute(("cached", key), compute)

    def close(self) -> None:
        """Closes its cursor, and with it the narrowed tables."""
        self._cursor.close()

    def __enter__(self) -> Scope:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _as_numpy(column: pa.ChunkedArray) -> np.ndarray[Any, Any]:
    if not column.null_count:
        return column.to_numpy()
    import numpy as np
    import pyarrow as pa

    filler = "" if pa.types.is_string(column.type) else pa.scalar(0).cast(column.type)
    return np.ma.MaskedArray(column.fill_null(filler).to_numpy(), mask=column.is_null().to_numpy())


class _Memo:
    """Results by key. Beyond `_MEMO_BYTES` the large ones are dropped first, the least recently used first."""

    def __init__(self) -> None:
        self._results: dict[Hashable, Any] = {}
        self._bytes = 0

    def get_or_compute(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Returns the result under a key, computed at the first call."""
        if key in self._results:
            self._results[key] = result = self._results.pop(key)
            return cast("T", result)
        value = compute()
        if (size := _size(value)) <= _MEMO_BYTES:
            self._bytes += size
            self._results[key] = value
        while self._bytes > _MEMO_BYTES:
            sizes = {key: size for key, result in self._results.items() if (size := _size(result))}
            dropped = next((key for key, size in sizes.items() if size > _MEMO_BYTES // 100), next(iter(sizes)))
            self._bytes -= sizes[dropped]
            del self._results[dropped]
        return value


def _size(value: Any) -> int:
    """Bytes of a table or an array; other values count as none."""
    return int(getattr(value, "nbytes", 0))
