"""Writes the tables of one recording as Parquet files.

One file per table, rank and span, in row groups that a question about a stretch of time can skip. Here ids become
unique within the rank: those of span n begin at n × 2⁴⁰.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stepscope.schema.declare import Role, SchemaColumn, SchemaTable
from stepscope.schema.tables import TABLES
from stepscope.store.drawn import drawn_tables

ARROW = ".arrow"
"""Ending of the files of ranks that will be joined (`store.joined`): Arrow, which is written and read in a tenth of the
time of Parquet for a few thousand rows."""

ROW_GROUP = 122_880
"""Rows per row group: DuckDB distributes row groups to its threads, and this is its preferred size."""

LONG_TABLE = 4 * ROW_GROUP
WRITERS = 2

SPAN_IDS = 1 << 40

_FEW = {Role.KEY, Role.STEP, Role.ROW}
"""Numbers with few distinct values: a dictionary makes them small."""

_RISING = {Role.EVENT, Role.MOMENT, Role.NUMBER}
"""Numbers that mostly rise from row to row: their differences are small and quick to read."""


def rank_folder(directory: Path, rank: int) -> Path:
    """The folder with the files of a rank."""
    return directory / f"rank={rank:05d}"


def placed(file: Path) -> tuple[int, int]:
    """Span of a file of a table, and its number among those of the table and span."""
    numbers = [int(number) for number in file.name.split(".")[1:-1]]
    return numbers[0], numbers[1] if len(numbers) > 1 else 0


def write_tables(
    directory: Path, tables: dict[str, pa.Table], *, rank: int, span: int, shift_ns: int = 0, to_be_joined: bool = False
) -> None:
    """Writes tables of one recording; removes each from `tables` as it is written, to free memory.

    Args:
        tables: by name, with the schema's columns except rank and span; other missing columns become NULL.
        shift_ns: what is added to every time (ns), so that it counts from the rank's start.
        to_be_joined: whether `joined.join_small_ranks` makes Parquet of it, together with other ranks.

    Raises:
        OSError: a file cannot be written.
    """
    folder = rank_folder(directory, rank)
    folder.mkdir(parents=True, exist_ok=True)
    tables |= drawn_tables(tables)
    end = ARROW if to_be_joined else ".parquet"
    with ThreadPoolExecutor(WRITERS) as pool:
        for name, declared in TABLES.items():
            table = tables.pop(name, None)
            if table is None or not table.num_rows:
                continue
            # Arrow encodes with one thread per file: a long table becomes two files, written in parallel.
            parts = WRITERS if table.num_rows >= LONG_TABLE else 1
            rows = -(-table.num_rows // parts)
            writing = [
                pool.submit(
                    _write,
                    folder / (f"{name}.{span}.{part}{end}" if part else f"{name}.{span}{end}"),
                    declared,
                    table.slice(part * rows, rows),
                    rank,
                    span,
                    shift_ns,
                )
                for part in range(parts)
            ]
            del table
            for future in writing:
                future.result()


def _write(path: Path, declared: SchemaTable, table: pa.Table, rank: int, span: int, shift_ns: int) -> None:
    schema = _stored_schema(declared, table)

    def stored(part: pa.Table) -> pa.Table:
        columns = [
            _stored(column, field.type, part, rank=rank, span=span, shift_ns=shift_ns)
            for column, field in zip(declared.columns, schema, strict=True)
        ]
        return pa.Table.from_arrays(columns, schema=schema)

    _write_parts(path, declared, schema, map(stored, _groups(table)))


def write_stored(path: Path, declared: SchemaTable, table: pa.Table) -> None:
    """Writes rows of a store, with all their columns, unchanged.

    Raises:
        OSError: the file cannot be written.
    """
    schema = _stored_schema(declared, table)
    parts = (part.select(schema.names).cast(schema) for part in _groups(table))
    _write_parts(path, declared, schema, parts)


def read_stored(file: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of a file of a store, complete or being made; some of its columns, or all.

    Raises:
        OSError: the file cannot be read.
    """
    if file.suffix != ARROW:
        return pq.ParquetFile(file).read(columns)
    rows = pa.ipc.open_stream(pa.py_buffer(file.read_bytes())).read_all()
    return rows if columns is None else rows.select(columns)


def join_stored(path: Path, declared: SchemaTable, files: Iterable[Path]) -> None:
    """Writes the rows of some files of a table as one file, in order.

    Raises:
        OSError: a file cannot be read or written.
    """
    tables = [read_stored(file) for file in files]
    texts = {field.name for table in tables for field in table.schema if pa.types.is_dictionary(field.type)}
    coded = pa.dictionary(pa.int32(), pa.string())  # decoding would mean finding the distinct texts again
    schema = pa.schema([field.with_type(coded) if field.name in texts else field for field in _fields(declared.name)])
    rows = pa.concat_tables([table.select(schema.names).cast(schema) for table in tables])
    _write_parts(path, declared, schema, _groups(rows.unify_dictionaries()))


def _groups(table: pa.Table) -> Iterator[pa.Table]:
    for start in range(0, table.num_rows, ROW_GROUP):
        yield table.slice(start, ROW_GROUP)


def _write_parts(path: Path, declared: SchemaTable, schema: pa.Schema, parts: Iterable[pa.Table]) -> None:
    if path.suffix == ARROW:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, schema) as stream:
            for part in parts:
                stream.write_table(part)
        return
    with pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        compression_level=1,
        use_dictionary=[
            column.name
            for column in declared.columns
            if column.role in _FEW or _is_text(schema.field(column.name).type)
        ],
        column_encoding={column.name: "DELTA_BINARY_PACKED" for column in declared.columns if column.role in _RISING},
        write_statistics=[field.name for field in schema if not _is_text(field.type)],
        store_schema=False,
    ) as writer:
        for part in parts:
            writer.write_table(part)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_dictionary(kind))


def _stored_schema(declared: SchemaTable, table: pa.Table) -> pa.Schema:
    """The declared schema, except that texts stay dictionaries."""
    kinds = dict(zip(table.schema.names, table.schema.types, strict=True))
    coded = {name: kind for name, kind in kinds.items() if pa.types.is_dictionary(kind)}
    fields = _fields(declared.name)
    return pa.schema([pa.field(field.name, coded[field.name]) if field.name in coded else field for field in fields])


@cache
def _fields(table: str) -> list[pa.Field]:
    """The stored columns of a table, with no text as a dictionary."""
    return [pa.field(field.name, field.type) for field in TABLES[table].arrow()]


def _stored(declared: SchemaColumn, kind: pa.DataType, part: pa.Table, *, rank: int, span: int, shift_ns: int) -> Any:
    """A column in its stored form: event ids and moments are shifted to those of the rank."""
    rows = part.num_rows
    if declared.name == "rank":
        return pa.array(np.full(rows, rank, dtype=np.int32))
    if declared.name == "span":
        return pa.array(np.full(rows, span, dtype=np.int16))
    if declared.name not in part.column_names:
        return pa.nulls(rows, kind)
    column = part.column(declared.name)
    if span and declared.role is Role.EVENT:
        column = pc.add(column, pa.scalar(span * SPAN_IDS, pa.int64()))
    if shift_ns and declared.role is Role.MOMENT:
        column = pc.add(column, pa.scalar(shift_ns, pa.int64()))
    return column if column.type == kind else column.cast(kind)
