"""What a question is asked of: an open store, narrowed to the ranks, steps and events asked for."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from stepscope.answers.part import EVERYTHING, Part
from stepscope.floor.chosen_numbers import check_known
from stepscope.floor.errors import StoreError, UsageError
from stepscope.floor.quoting import path_text
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
"""The largest files of a table that are read into memory: some 200,000 events, which take 30 MB there."""
_HELD_ROWS = 200_000
"""The most rows of such a table: files of steps that are all alike hold a hundred times as many."""

_MOST_FOUND_BYTES = 64 << 20
"""What of the results of queries stays in memory, for who asks much."""

_STEPS = "SELECT DISTINCT step FROM {table} ORDER BY step"


@dataclass(frozen=True, slots=True)
class Recording:
    """One of several recordings that a question is asked of.

    Args:
        name: what to call it.
        role: what it is to the others: `before`, `after`, or its name.
        scope: its tables.
    """

    name: str
    role: str
    scope: Scope

    def __post_init__(self) -> None:
        """Makes texts that can be stored of the names of files that are not UTF-8."""
        object.__setattr__(self, "name", path_text(self.name))
        object.__setattr__(self, "role", path_text(self.role))


class Scope:
    """The tables of a store, narrowed to ranks, steps and a part of the events; all by default.

    In the SQL given to `sql`, a table's name stands for its rows of these ranks and steps, and of the
    part. Work that belongs to no step is out of scope as soon as steps are given. Times stay relative
    to the start of the whole run. Close it, or use it as a context manager; the store stays open.

    Raises:
        UsageError: a rank or a step that the recording does not have, or a part that it has nothing of.
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
            part: the events to keep of these.
            all_times: also what else the store holds of the times of the steps it was narrowed to.
            may_lack: the part may name what the recording does not have; `lacks` is then the error.
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
        """Refuses steps that the recording's phases have, and its traces have not.

        Raises:
            UsageError: there are traces with steps, and one that was asked for is not among them.
        """
        if self.steps is not None and self.traced_steps:
            check_known(self.steps, self.traced_steps, "step", of="the traces of this recording")

    @property
    def keeps(self) -> bool:
        """Whether what is worked out of it is kept in the store: of all that this holds, and of no small one."""
        return self._kept is not None

    def has_none(self, *tables: str) -> bool:
        """Whether the store has no row of any of these: what is made of them alone need not be asked."""
        return not any(map(self.store.may_have, tables))

    def every(self, table: str) -> str:
        """The name under which SQL finds the rows of a table that the asked ranks and steps have,
        whatever part of them is asked for: what a kept event leads to need not be kept itself.
        """
        if not self.part:
            return table
        name = f"every_{table}"
        if name not in self._complete:
            self._cursor.execute(f"CREATE TEMP VIEW {name} AS {self.complete_rows(table, self.ranks)}")
            self._complete.add(name)
        return name

    def complete_rows(self, table: str, ranks: Iterable[int]) -> str:
        """The SELECT that reads what the asked steps have of a table on these ranks, from their files
        alone, whatever part of it is asked for.
        """
        rows = self.store.select_text(TABLES[table], ranks)
        return f"SELECT * FROM ({rows}) WHERE {self._conditions.get(table, 'true')}"

    def _narrow(self, part: Part) -> None:
        """Puts what is kept of the events before the tables, whose complete rows `every` names."""
        # Imported here: most questions are asked of everything, and need none of link.
        from stepscope.answers.narrow import kept_tables, named_nothing, narrowing_views

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
        """Puts a temporary view of the same name before each table that has rows, on this cursor alone."""
        self.store.check_files(" ".join(filters.values()), self.ranks)
        self._conditions |= filters
        for name in filter(filters.__contains__, self.store.filled()):
            rows = self.complete_rows(name, self.ranks)
            self._cursor.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {rows}")

    def hold(self, tables: Iterable[str] = ("host_event", "device_event", "step")) -> None:
        """Reads tables into memory that are small, and remembers what queries found: for who asks dozens of questions,
        each of which would read and decode the files again, and ask in part what another has asked.
        """
        self._found = self._found or {}
        if not (self._conditions or self.part):
            small = (name for name in tables if 0 < self.store.stored_bytes(name) <= _HELD_BYTES)
            self._held = dict.fromkeys(small, False) | self._held
            if self._kept is None:
                self._hold()

    @contextmanager
    def of_rank(self, rank: int, steps: Iterable[int] | None = None, *, all_times: bool = False) -> Iterator[Scope]:
        """One of its ranks, whatever part is asked for, for who asks one after the other: from that rank's files alone,
        with all ranks' it would be quadratic. Itself where it has no other, or has the events in memory.
        """
        events = [name for name in ("host_event", "device_event") if self.store.stored_bytes(name)]
        held = bool(events) and all(name in self._held for name in events)
        if not self.part and (held or self.ranks == (rank,)):
            yield self
            return
        with Scope(self.store, [rank], steps, all_times=all_times) as own:
            yield own

    def _hold(self) -> None:
        """Does so; where results are kept, when one is not."""
        import duckdb

        for name in [name for name, done in self._held.items() if not done]:
            self._held[name] = True
            # Damage is told by the question that first asks the table.
            with suppress(StoreError, duckdb.Error):
                self.store.check_files(name, self.ranks)
                ((rows,),) = self._cursor.execute(f"SELECT count(*) FROM {name}").fetchall()
                if rows > _HELD_ROWS:
                    del self._held[name]
                else:
                    self._cursor.execute(f"CREATE TEMP TABLE {name} AS FROM {name}")

    def sql(self, text: str, params: Any = None) -> pa.Table:
        """Runs a query of our own over the narrowed tables. `params` are bound, by position or by name.

        Of all that a store holds, what the same query found before is kept (`store.kept`).
        """
        return self._from_kept(("sql", text, params), lambda: self.rows(text, params), _is_small)

    def rows(self, text: str, params: Any = None, *, most: int | None = None) -> pa.Table:
        """Runs a query, which may ask for the time or a random number, for so many rows at `most`."""
        self._hold()
        self.store.check_files(text, self.ranks)
        return fetch_arrow(self._cursor, text, params, most=most)

    def kept(self, key: Hashable, make: Callable[[], T], *records: type) -> T:
        """The same as `once`, of a value that hangs on the tables alone: of all that a store holds, it is kept.

        Args:
            key: what it is, of texts and numbers.
            make: makes it of this scope.
            records: the classes that it is made of, beside numbers, texts, arrays and what holds these.
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
        """What is remembered under a key, which was now asked for last."""
        assert self._found is not None  # noqa: S101 - the key was found in it
        self._found[key] = known = self._found.pop(key)
        return known

    def _remember(self, key: Hashable, value: Any) -> None:
        """Remembers a value for who asks much. For its room what is large and was asked for least lately is forgotten."""
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
        """Names of a schema's tables that SQL which only reads names; they need not be there."""
        return tables_of_schema(self._cursor, text, schema)

    @contextmanager
    def beside(self, schema: str, tables: Mapping[str, pa.Table]) -> Iterator[None]:
        """Sets tables beside the narrowed ones, as `schema.name`, for queries made meanwhile, which are never answered
        from what was found before.
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

        A column that holds NULL comes as a masked array.
        """
        # Through Arrow: DuckDB's own way to NumPy imports pandas where there is one.
        table = self.sql(text, params)
        return {name: _as_numpy(table.column(name)) for name in table.column_names}

    def value(self, text: str, params: Any = None) -> Any:
        """Runs a query of one row and one column and returns its value, None for NULL."""

        def run() -> Any:
            self._hold()
            self.store.check_files(text, self.ranks)
            cursor = self._cursor
            # All rows, though one is wanted: DuckDB 2 does nothing else until the last one is taken.
            rows = interruptible(cursor, lambda: cursor.execute(text, params).fetchall())
            return rows[0][0] if rows else None

        return self._from_kept(("value", text, params), run, lambda _: True)

    def remembered(self, key: Hashable, make: Callable[[], T]) -> T:
        """The same as `once`, of a value with a size (`nbytes`): remembered by who asks much (`hold`), while there is room."""
        if self._found is not None and key in self._found:
            return cast("T", self._again(key))
        value = make()
        self._remember(key, value)
        return value

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What several questions asked of one scope share: made when it is first asked for.

        Args:
            key: what it is; the module that makes it, by its name, and what it was made with.
            make: makes it of this scope.
        """
        if key not in self._once:
            self._once[key] = make()
        known: T = self._once[key]
        return known

    def close(self) -> None:
        """Closes its cursor, and with it the narrowed tables; what is new is kept."""
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
