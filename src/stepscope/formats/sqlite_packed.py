"""Reads many rows of an SQLite table at once, without a Python object for each value.

SQLite writes each column of some ten thousand rows into one text, which Arrow and NumPy parse: several
times as fast as rows of Python objects. What a text cannot carry (a text among numbers, a separator
within a text) is left to the caller.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv

from stepscope.base.quoting import sql_name

PACKED = frozenset({"integer", "name", "text", "hex"})
"""Kinds of columns that can be packed; a `name` must be a number, not a text."""
TEXTS = {"text": "typeof({0}) = 'text'", "hex": "typeof({0}) IN ('blob', 'text')"}
"""Kinds that are read as texts, and which of their values are; `hex` has bytes as digits, or digits."""

_NOTHING, _NEXT = 29, 30
"""Characters for NULL, and between two texts."""


def packing_query(source: str, kinds: Mapping[str, str], whole: frozenset[str]) -> str:
    """The query for the row that `unpacked` reads.

    Args:
        source: the text after FROM.
        kinds: kind of each column.
        whole: columns that are declared as integer: a text of digits becomes an integer when it is
            stored, so that their types need not be checked.
    """
    asked = ["count(*)"]
    for name, kind in kinds.items():
        value = sql_name(name)
        if kind in TEXTS:
            is_text = TEXTS[kind].format(value)
            text = f"CASE WHEN {is_text} THEN {as_text(value, kind)} ELSE '{chr(_NOTHING)}' END"
            asked += [f"sum({is_text})", f"CAST(group_concat({text}, '{chr(_NEXT)}') AS BLOB)"]
            continue
        number = f"CASE WHEN typeof({value}) = 'integer' THEN {value} END"
        if name in whole:
            number = value
        asked += [
            f"sum(typeof({value}) = 'text')" if kind == "name" else "0",
            f"CAST(group_concat(ifnull({number}, ''), '\n') AS BLOB)",
        ]
    listed = ", ".join(sql_name(name) for name in kinds)
    return f"SELECT {', '.join(asked)} FROM (SELECT {listed} FROM {source})"


def as_text(value: str, kind: str) -> str:
    """SQL for a value of a kind that is read as text."""
    if kind == "text":
        return value
    return f"CASE WHEN typeof({value}) = 'blob' THEN hex({value}) ELSE {value} END"


def unpacked(row: tuple[Any, ...], kinds: Mapping[str, str], longest: int) -> dict[str, pa.Array] | None:
    """The columns of a chunk, or None if it has to be read row by row.

    Args:
        row: the result of `packing_query`: the number of rows, and for each column a number, how many texts
            it has, and its values.
        kinds: kind of each column, as given to `packing_query`.
        longest: bytes that a text may have.
    """
    rows: int = row[0]
    columns: dict[str, pa.Array] = {}
    for (name, kind), texts, packed in zip(kinds.items(), row[1::2], row[2::2], strict=True):
        if kind in TEXTS:
            found = _split(packed, rows, longest)
            good = found is not None and len(found) - found.null_count == texts
        else:
            found = None if texts else _numbers(packed)
            good = found is not None and len(found) == rows
        if not good:
            return None
        columns[name] = found
    return columns


def _numbers(packed: bytes) -> pa.Array | None:
    try:
        table = csv.read_csv(
            pa.BufferReader(packed + b"\n"),
            csv.ReadOptions(column_names=["value"], use_threads=False, block_size=max(len(packed) + 1, 1 << 16)),
            csv.ParseOptions(quote_char=False, ignore_empty_lines=False),
            csv.ConvertOptions(column_types={"value": pa.int64()}, null_values=[""]),
        )
    except pa.ArrowInvalid:
        return None
    return table["value"].combine_chunks()


def _split(packed: bytes, rows: int, longest: int) -> pa.Array | None:
    """The packed texts, one for each row; None if they cannot be separated."""
    data = np.frombuffer(packed, np.uint8)
    ends = np.flatnonzero(data == _NEXT)
    if len(ends) != rows - 1:
        return None
    offsets = np.zeros(rows + 1, np.int64)
    offsets[1:-1] = ends - np.arange(len(ends))
    offsets[-1] = len(data) - len(ends)
    kept = data[data != _NEXT] if len(ends) else data
    sizes = np.diff(offsets)
    if int(sizes.max(initial=0)) > longest or len(kept) >= 1 << 31:
        return None
    marks = np.flatnonzero(kept == _NOTHING)
    nothing = np.zeros(rows, bool)
    nothing[np.searchsorted(offsets, marks, side="right") - 1] = True
    if (sizes[nothing] != 1).any():
        return None
    texts = pa.Array.from_buffers(
        pa.string(),
        rows,
        [
            pa.array(~nothing).buffers()[1] if len(marks) else None,
            pa.py_buffer(offsets.astype(np.int32)),
            pa.py_buffer(np.ascontiguousarray(kept)),
        ],
    )
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return None
    return texts
