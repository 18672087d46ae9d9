"""Checks that a plug-in's reader returns what the schema declares, before anything is linked.

The tests of our own readers ensure it for them. A row number without a row, or a time beyond all clocks, would fail far
from the reader that made it.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from stepscope.formats.tables import READ, RankTables
from stepscope.schema.declare import Role, SchemaColumn
from stepscope.schema.tables import DECLARED

LARGEST = 1 << 60
"""Times and sizes are below it (36 years in ns), so that sums of a few of them fit into 64 bits."""

_BOUNDED = (Role.MOMENT, Role.DURATION, Role.BYTES, Role.EPOCH)


def accepted(tables: RankTables) -> RankTables:
    """The tables with columns of the declared types, in the declared order.

    Raises:
        ValueError: a column is missing, not declared, NULL where it must not be, or out of range.
        TypeError, pyarrow.ArrowInvalid: values are of another type.
    """
    for declared in DECLARED:
        schema = READ.get(declared.name)
        if schema is None:
            continue
        table = getattr(tables, declared.name)
        if missing := [name for name in schema.names if name not in table.column_names]:
            raise ValueError(f"table {declared.name} lacks {', '.join(missing)}")
        if unknown := [name for name in table.column_names if name not in schema.names]:
            raise ValueError(f"table {declared.name} has no column {', '.join(unknown)}")
        setattr(tables, declared.name, _typed(table, schema))
    for declared in DECLARED:
        for column in declared.declared if declared.name in READ else ():
            if column.name in READ[declared.name].names:
                where = f"{declared.name}.{column.name}"
                _check(where, column, getattr(tables, declared.name).column(column.name), tables)
    return tables


def _typed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = []
    for field in schema:
        column = table.column(field.name).combine_chunks()
        if pa.types.is_dictionary(field.type):
            column = column.cast(pa.string()).dictionary_encode()
        columns.append(column.cast(field.type))
    return pa.table(columns, schema=schema)


def _check(where: str, column: SchemaColumn, values: pa.ChunkedArray, tables: RankTables) -> None:
    if not column.nullable and values.null_count:
        raise ValueError(f"{where} is NULL in {values.null_count} rows")
    if column.role is Role.ROW and column.of is not None:
        low, high, rows = 0, getattr(tables, column.of).num_rows - 1, f" rows of {column.of}"
    elif column.role in _BOUNDED:
        low, high, rows = 0 if column.role is Role.DURATION else -LARGEST, LARGEST, ""
    else:
        return
    extent = pc.min_max(values).as_py()
    for value in (extent["min"], extent["max"]):
        if value is not None and not low <= value <= high:
            raise ValueError(f"{where} is {value}, beyond {low} to {high}{rows}")
