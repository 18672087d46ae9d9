"""Writes the tables of one recording as Parquet files.

One file per table, rank and span, in row groups that a question about a stretch of time can pass
over. Ids are made unique within the rank here: those of span n begin at n × 2⁴⁰.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stepscope.store.schema import TIME_COLUMNS, SchemaTable, schema_tables

ROW_GROUP = 122_880
"""Rows per row group: DuckDB hands row groups to its threads, and this is the size it likes."""

LONG_TABLE = 4 * ROW_GROUP
WRITERS = 2

SPAN_IDS = 1 << 40
EVENT_IDS = frozenset({"id", "parent_id", "forward_id", "launch_id", "operator_id", "host_id"})


def rank_folder(directory: Path, rank: int) -> Path:
    """Where the files of a rank lie."""
    return directory / f"rank={rank:05d}"


def write_tables(
    directory: Path, tables: dict[str, pa.Table], *, rank: int, span: int, shift_ns: int = 0
) -> None:
    """Writes tables of one recording; takes each out of `tables` as it is written, to free memory.

    Args:
        directory: the store's directory.
        tables: by name, with the schema's columns except rank and span, or with some left out, which
            become NULL.
        rank: whose recording it is.
        span: which of the rank's recordings it is.
        shift_ns: what is added to every time (ns), so that it counts from the rank's start.

    Raises:
        OSError: a file cannot be written.
    """
    folder = rank_folder(directory, rank)
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(WRITERS) as pool:
        for name, declared in schema_tables().items():
            table = tables.pop(name, None)
            if table is None or not table.num_rows:
                continue
            # Arrow encodes with one thread per file: a long table is two files, written at a time.
            parts = WRITERS if table.num_rows >= LONG_TABLE else 1
            rows = -(-table.num_rows // parts)
            writing = [
                pool.submit(
                    _write,
                    folder
                    / (f"{name}.{span}.{part}.parquet" if part else f"{name}.{span}.parquet"),
                    declared,
                    table.slice(part * rows, rows),
                    rank,
                    span,
                    shift_ns,
                )
                for part in range(parts)
            ]
            del table
            for one in writing:
                one.result()


def _write(
    path: Path, declared: SchemaTable, table: pa.Table, rank: int, span: int, shift_ns: int
) -> None:
    schema = _stored_schema(declared, table)
    with pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        compression_level=1,
        use_dictionary=[
            field.name for field in schema if _is_text(field.type) or field.name in _FEW
        ],
        column_encoding={
            field.name: "DELTA_BINARY_PACKED" for field in schema if field.name in _RISING
        },
        write_statistics=[field.name for field in schema if not _is_text(field.type)],
        store_schema=False,
    ) as writer:
        for begin in range(0, table.num_rows, ROW_GROUP):
            part = table.slice(begin, ROW_GROUP)
            columns = [
                _stored(field, part, rank=rank, span=span, shift_ns=shift_ns) for field in schema
            ]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))


_FEW = frozenset(
    {
        "rank",
        "span",
        "thread",
        "depth",
        "step",
        "module_id",
        "input_id",
        "stack_id",
        "device",
        "stream",
    }
)
"""Numbers with few distinct values: a dictionary makes them small."""


_RISING = frozenset({"id", "start_ns", "launch_id", "launch_ns", "operator_id"})
"""Numbers that mostly rise from row to row: their differences are small, and quick to read."""


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_dictionary(kind))


def _stored_schema(declared: SchemaTable, table: pa.Table) -> pa.Schema:
    """The declared schema, with texts left as the dictionaries that they are."""
    fields = []
    for field in declared.arrow():
        has = field.name in table.column_names
        kind = table.schema.field(field.name).type if has else field.type
        fields.append(pa.field(field.name, kind if _is_text(kind) else field.type))
    return pa.schema(fields)


def _stored(field: pa.Field, part: pa.Table, *, rank: int, span: int, shift_ns: int) -> Any:
    rows = part.num_rows
    if field.name == "rank":
        return pa.array(np.full(rows, rank, dtype=np.int32))
    if field.name == "span":
        return pa.array(np.full(rows, span, dtype=np.int16))
    if field.name not in part.column_names:
        return pa.nulls(rows, field.type)
    column = part.column(field.name)
    if span and field.name in EVENT_IDS:
        column = pc.add(column, pa.scalar(span * SPAN_IDS, pa.int64()))
    if shift_ns and field.name in TIME_COLUMNS:
        column = pc.add(column, pa.scalar(shift_ns, pa.int64()))
    return column if column.type == field.type else column.cast(field.type)
