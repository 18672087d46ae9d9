"""Reads columns of one rank's rows without DuckDB, which would expand the dictionaries of texts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from stepscope.schema.declare import Role
from stepscope.schema.tables import TABLES
from stepscope.store.open import Store, fetch_arrow
from stepscope.store.write import placed

if TYPE_CHECKING:
    import pyarrow as pa

_AT_ONCE = 1 << 16
"""Rows that are decoded at a time before they are copied: a large column is never in memory twice."""


def read_columns(
    store: Store, table: str, rank: int, names: Sequence[str], *, without_spans: Collection[int] = ()
) -> pa.Table:
    """Some columns of all rows of a rank, with times as in an open store.

    Args:
        names: the columns: numbers that are never NULL, or of role `WORD` or `TEXT`.
        without_spans: recordings whose rows are left out; each has files of its own.

    Returns:
        The columns; each column of role `WORD` or `TEXT` is a dictionary, the same in all chunks. Numbers are in
        one chunk.

    Raises:
        StoreError: a file is missing or damaged.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    declared = {item.name: item for item in TABLES[table].columns}
    store.check_files(table, [rank])
    if store.directory is None:
        chosen = ", ".join(declared[name].quoted for name in names)
        with closing(store.cursor()) as cursor:  # several threads read
            text = f"SELECT {chosen} FROM {table} WHERE rank = {int(rank)}"
            read = fetch_arrow(cursor, text).combine_chunks()
    else:
        texts: dict[str, list[Any]] = {name: [] for name in names if declared[name].role in (Role.WORD, Role.TEXT)}
        files = [
            pq.ParquetFile(path, read_dictionary=list(texts))
            for path in store.files(table, rank)
            if placed(path)[0] not in without_spans
        ]
        empty = TABLES[table].arrow(names).empty_table()
        room = sum(file.metadata.num_rows for file in files)
        numbers = {
            field.name: np.empty(room, field.type.to_pandas_dtype())
            for field in empty.schema
            if field.name not in texts
        }
        at = 0
        read_names = list(dict.fromkeys((*names, "rank", "span")))
        batches = (
            batch for file in files for batch in file.iter_batches(_AT_ONCE, columns=read_names, use_threads=False)
        )
        for batch in batches:
            mine = batch["rank"].to_numpy() == rank
            rows = batch if mine.all() else batch.filter(pa.array(mine))  # small ranks share files
            place = slice(at, at + rows.num_rows)
            at = place.stop
            for name, chunks in texts.items():
                chunks.append(rows[name])
            for name, values in numbers.items():
                values[place] = rows[name].to_numpy()
            spans = rows["span"].to_numpy()
            for span in np.unique(spans).tolist():
                if shift := store.shift_ns(rank, span):
                    for name in (name for name in numbers if declared[name].role is Role.MOMENT):
                        numbers[name][place] += np.where(spans == span, shift, 0)
        columns = {name: pa.chunked_array([pa.array(item[:at])]) for name, item in numbers.items()}
        columns |= {name: pa.chunked_array(item) for name, item in texts.items() if item}
        read = pa.table({name: columns.get(name, empty[name]) for name in names})
    for column, name in enumerate(names):
        if pa.types.is_string(read.schema.field(name).type):
            read = read.set_column(column, name, read[name].dictionary_encode())
    return read.unify_dictionaries()
