"""Columns of one rank's rows, read past DuckDB: texts stay dictionaries, which it would spell out."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from stepscope.schema.declare import Role
from stepscope.schema.tables import TABLES
from stepscope.store.open import Store, fetch_arrow
from stepscope.store.write import placed

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

_AT_ONCE = 1 << 16
"""Rows that are decoded before they are copied to their place: a large column is never in memory twice."""


def read_columns(
    store: Store,
    table: str,
    rank: int,
    names: Sequence[str],
    *,
    without_spans: Collection[int] = (),
) -> pa.Table:
    """Some columns of all rows that a store has of a rank, times moved as an open store has them.

    Args:
        store: the store.
        table: of the schema.
        rank: whose rows.
        names: the columns: numbers that are never NULL, or of role `WORD` or `TEXT`.
        without_spans: recordings whose rows are left out; each has files of its own.

    Returns:
        The columns; each column of role `WORD` or `TEXT` is a dictionary, the same in all chunks. Numbers lie in
        one chunk.

    Raises:
        StoreError: a file is missing or is not as it was written.
    """
    import pyarrow as pa

    declared = {one.name: one for one in TABLES[table].columns}
    words = [name for name in names if declared[name].role in (Role.WORD, Role.TEXT)]
    store.check_files(table, [rank])
    if store.directory is None:
        chosen = ", ".join(declared[name].quoted for name in names)
        with closing(store.cursor()) as cursor:  # several threads read
            text = f"SELECT {chosen} FROM {table} WHERE rank = {int(rank)}"
            read = fetch_arrow(cursor, text).combine_chunks()
    else:
        parts = [
            _opened(path, rank, words)
            for path in store.files(table, rank)
            if placed(path)[0] not in without_spans
        ]
        empty = TABLES[table].arrow(names).empty_table()
        columns = []
        for name in names:
            if name in words or not parts:
                chunks = [chunk for part in parts for chunk in part.column(name).chunks]
                columns.append(pa.chunked_array(chunks) if chunks else empty[name])
            else:
                moves = declared[name].role is Role.MOMENT
                columns.append(pa.chunked_array([_numbers(store, rank, parts, name, moves=moves)]))
        read = pa.table(columns, names=list(names))
    for name in words:
        read = read.set_column(read.schema.get_field_index(name), name, _coded(read[name]))
    return read.unify_dictionaries()


class _Part(NamedTuple):
    """A file with rows of a rank: which these are (None for all), how many, and the span of all or of each."""

    file: Any
    mine: Any
    rows: int
    span: Any

    def column(self, name: str) -> pa.ChunkedArray:
        """A column of these rows."""
        read = self.file.read(columns=[name], use_threads=False)[name]
        return read if self.mine is None else read.filter(self.mine)


def _opened(path: Path, rank: int, words: Sequence[str]) -> _Part:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path, read_dictionary=list(words))
    span = _only(file, "span")
    if span is not None and _only(file, "rank") == rank:
        return _Part(file, None, file.metadata.num_rows, span)
    told = file.read(columns=["rank", "span"])  # small ranks share files
    mine = pc.equal(told["rank"], rank)
    spans = told["span"].filter(mine).to_numpy()
    return _Part(file, mine, len(spans), spans)


def _only(file: Any, name: str) -> int | None:
    """The value that all rows have in a column; None where they differ, or nothing tells."""
    place = file.schema_arrow.get_field_index(name)
    known: set[int | None] = set()
    for number in range(file.num_row_groups):
        told = file.metadata.row_group(number).column(place).statistics
        known |= {told.min, told.max} if told is not None and told.has_min_max else {None}
    return known.pop() if len(known) == 1 else None


def _numbers(
    store: Store, rank: int, parts: Sequence[_Part], name: str, *, moves: bool
) -> pa.Array:
    """A column of numbers; with `moves` of moments, shifted as those of their span are."""
    import numpy as np
    import pyarrow as pa

    kind = parts[0].file.schema_arrow.field(name).type.to_pandas_dtype()
    values = np.empty(sum(part.rows for part in parts), kind)
    at = 0
    for part in parts:
        first = at
        if part.mine is None:
            batches = part.file.iter_batches(_AT_ONCE, columns=[name], use_threads=False)
            chunks = (batch.column(0) for batch in batches)
        else:
            chunks = iter(part.column(name).chunks)
        for chunk in chunks:
            values[at : at + len(chunk)] = chunk.to_numpy()
            at += len(chunk)
        for span in np.unique(part.span).tolist() if moves else ():
            shift = store.shift_ns(rank, span)
            values[first:at] += (
                shift if part.mine is None else np.where(part.span == span, shift, 0)
            )
    return pa.array(values)


def _coded(column: Any) -> Any:
    import pyarrow as pa

    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
