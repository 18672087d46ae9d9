"""Columns that grow slice by slice and take as little memory as possible."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stepscope.formats.scratch import spill_column, spill_columns

Ints = np.ndarray[Any, np.dtype[Any]]


def small(column: pa.Array) -> pa.Array:
    """The column in the smallest type that holds its values."""
    if column.null_count == len(column):
        return pa.nulls(len(column))
    return column.dictionary_encode() if pa.types.is_string(column.type) else _narrow(column)


class Gathering:
    """Rows of many slices, column by column, in as little memory as possible."""

    def __init__(self) -> None:
        self._columns: dict[str, list[pa.Array]] = {}
        self.num_rows = 0

    def add(self, columns: Mapping[str, pa.Array]) -> None:
        """Adds the columns of further rows."""
        if not columns:
            return
        before, rows = self.num_rows, len(next(iter(columns.values())))
        self.num_rows += rows
        for name in self._columns.keys() - columns.keys():
            self._columns[name].append(pa.nulls(rows))
        for name, column in spill_columns(columns).items():
            parts = self._columns.setdefault(name, [pa.nulls(before)] if before else [])
            parts.append(column)

    def add_table(self, table: pa.Table) -> None:
        """Adds further rows from a table."""
        if table.num_rows:
            self.add({name: small(pa.concat_arrays(table[name].chunks)) for name in table.column_names})

    def columns(self, *names: str) -> dict[str, pa.ChunkedArray] | None:
        """Returns the columns with one dictionary each and empties itself; None if there are no rows.

        A column without values has Arrow's null type.

        Args:
            names: columns that are returned even if no slice had them.
        """
        if not self.num_rows:
            return None
        gathered = {}
        while self._columns:
            name = next(iter(self._columns))
            parts = self._columns.pop(name)
            kinds = {part.type for part in parts if not pa.types.is_null(part.type)}
            if kinds:
                # Integers that fitted into 32 bits in one slice but not in another.
                kind = max(kinds, key=lambda kind: kind.bit_width if pa.types.is_integer(kind) else 0)
                parts = [_as_kind(part, kind) for part in parts]
            column = pa.chunked_array(parts)
            if pa.types.is_dictionary(column.type):
                column = spill_column(column.unify_dictionaries())
            gathered[name] = column
        for name in names:
            gathered.setdefault(name, pa.chunked_array([pa.nulls(self.num_rows)]))
        self.num_rows = 0
        return gathered


def _as_kind(part: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_null(part.type):
        return _nulls(len(part), kind)
    return part if part.type == kind else part.cast(kind)


def _nulls(rows: int, kind: pa.DataType) -> pa.Array:
    if not pa.types.is_dictionary(kind):
        return pa.nulls(rows, kind)
    return pa.DictionaryArray.from_arrays(pa.nulls(rows, kind.index_type), pa.array([], kind.value_type))


def _narrow(column: pa.Array) -> pa.Array:
    """The column in 32 bits if its values fit: most ids and durations do."""
    if not pa.types.is_int64(column.type):
        return column
    extent = pc.min_max(column)
    if extent["min"].as_py() < -(2**31) or extent["max"].as_py() >= 2**31:
        return column
    return column.cast(pa.int32())


_DENSE = 1 << 20
"""Numbers may exceed their count by this much for a lookup table to be made."""


def distinct(numbers: Ints, below: int) -> tuple[Ints, Ints]:
    """The distinct numbers in rising order, and the index of each number among them.

    Args:
        numbers: at least 0.
        below: all numbers are less than this.
    """
    if below > len(numbers) + _DENSE:
        # A table is fastest for numbers from a small range; a hundred thousand processes with as many
        # threads each would fill the memory.
        return np.unique(numbers, return_inverse=True)
    occurs = np.zeros(below, dtype=bool)
    occurs[numbers] = True
    values = np.flatnonzero(occurs)
    place = np.zeros(below, dtype=np.int32)
    place[values] = np.arange(len(values), dtype=np.int32)
    return values, place[numbers]


def codes(column: pa.ChunkedArray) -> tuple[np.ndarray[Any, np.dtype[np.int32]], list[Any]]:
    """Codes (int32, -1 for null) of a dictionary column, and the values that they stand for."""
    if not pa.types.is_dictionary(column.type):
        return np.full(len(column), -1, dtype=np.int32), []
    numbers = np.empty(len(column), dtype=np.int32)
    at = 0
    for chunk in column.chunks:
        numbers[at : at + len(chunk)] = chunk.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        at += len(chunk)
    values: list[Any] = column.chunk(0).dictionary.to_pylist() if column.num_chunks else []
    return numbers, values
