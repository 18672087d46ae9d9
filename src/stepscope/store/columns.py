"""Columns of one rank's rows, read past DuckDB: texts stay dictionaries, which it would spell out."""

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
        names: the columns.
        without_spans: recordings whose rows are left out; each has files of its own.

    Returns:
        The columns; each column of role `WORD` or `TEXT` is a dictionary, the same in all chunks.

    Raises:
        StoreError: a file is missing or is not as it was written.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    declared = {one.name: one for one in TABLES[table].columns}
    words = [name for name in names if declared[name].role in (Role.WORD, Role.TEXT)]
    store.check_files(table, [rank])
    parts = []
    for path in store.files(table, rank):
        if placed(path)[0] in without_spans:
            continue
        read = list(dict.fromkeys((*names, "rank", "span")))
        part = pq.read_table(path, columns=read, read_dictionary=words, memory_map=False)
        if pc.min_max(part["rank"]).as_py() != {
            "min": rank,
            "max": rank,
        }:  # small ranks share files
            part = part.filter(pc.equal(part["rank"], rank))
        for span in pc.unique(part["span"]).to_pylist():
            if shift := store.shift_ns(rank, span):
                own = pc.if_else(pc.equal(part["span"], span), shift, 0)
                for name in (name for name in names if declared[name].role is Role.MOMENT):
                    place = part.schema.get_field_index(name)
                    part = part.set_column(place, name, pc.add(part[name], own))
        parts.append(part.select(list(names)))
    if not parts:
        chosen = ", ".join(declared[name].quoted for name in names)
        with closing(store.cursor()) as cursor:  # several threads read
            listed = ", ".join(str(int(one)) for one in without_spans)
            where = f"rank = {int(rank)}" + (f" AND span NOT IN ({listed})" if listed else "")
            parts = [fetch_arrow(cursor, f"SELECT {chosen} FROM {table} WHERE {where}")]
    whole = pa.concat_tables([_with_codes(part, words) for part in parts])
    return whole.unify_dictionaries()


def _with_codes(part: pa.Table, words: Sequence[str]) -> pa.Table:
    for name in words:
        part = part.set_column(part.schema.get_field_index(name), name, _coded(part[name]))
    return part


def _coded(column: Any) -> Any:
    import pyarrow as pa

    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
