"""Many rows of a table out of SQLite at once, without a Python object for each value.

SQLite writes the whole numbers of some ten thousand rows into one text, a line a row, and their texts
into another, and Arrow and NumPy read these: two to three times as fast as rows of Python objects. What
a text cannot carry (a text among numbers, a separator within a text) is left to the caller.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv

from stepscope.floor.quoting import sql_name

PACKED = frozenset({"integer", "name", "text"})
"""Kinds of columns that can be packed; a `name` has to be a number, not a text."""

_NOTHING, _NEXT = 29, 30
"""Characters that stand for no text, and between two texts."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows as SQLite packed them.

    Args:
        rows: how many they are.
        last: the largest of their row ids.
        mixed: how many names are texts.
        lines: the numbers, a line a row; None where no numbers were asked for.
        texts: each column of texts, and how many texts it has.
    """

    rows: int
    last: int
    mixed: int
    lines: bytes | None
    texts: tuple[tuple[int, bytes], ...]


def packing_query(source: str, kinds: Mapping[str, str]) -> str:
    """The query of a chunk's fields.

    Args:
        source: what follows FROM.
        kinds: kind of each column.
    """
    numbers = [
        f"CASE WHEN typeof({sql_name(name)}) = 'integer' THEN {sql_name(name)} END"
        for name in _numbers(kinds)
    ]
    names = [f"(typeof({sql_name(name)}) = 'text')" for name in kinds if kinds[name] == "name"]
    inner = [f"rowid AS row, {' + '.join(names) or 0} AS mixed"]
    outer = ["NULL"] if not numbers else []
    if numbers:
        inner.append(f"printf('{','.join(['%s'] * len(numbers))}', {', '.join(numbers)}) AS line")
        outer.append("CAST(group_concat(line, char(10)) AS BLOB)")
    for place, name in enumerate(_texts(kinds)):
        text = sql_name(name)
        inner.append(
            f"CASE WHEN typeof({text}) = 'text' THEN {text} ELSE char({_NOTHING}) END AS text{place}"
        )
        inner.append(f"typeof({text}) = 'text' AS is_text{place}")
        outer.append(f"sum(is_text{place})")
        outer.append(f"CAST(group_concat(text{place}, char({_NEXT})) AS BLOB)")
    asked = ", ".join(["count(*)", "max(row)", "sum(mixed)", *outer])
    return f"SELECT {asked} FROM (SELECT {', '.join(inner)} FROM {source})"


def unpacked(chunk: Chunk, kinds: Mapping[str, str], longest: int) -> dict[str, pa.Array] | None:
    """The columns of a chunk, or None where it has to be read row by row.

    Args:
        chunk: the rows.
        kinds: kind of each column, as `packing_query` was given them.
        longest: bytes that a text may have.
    """
    numbers = _numbers(kinds)
    columns: dict[str, pa.Array] = {}
    if numbers:
        table = None if chunk.mixed else _lines(chunk.lines or b"", numbers)
        if table is None or table.num_rows != chunk.rows:
            return None
        columns = {name: table[name].combine_chunks() for name in numbers}
    for name, (count, packed) in zip(_texts(kinds), chunk.texts, strict=True):
        found = _split(packed, chunk.rows, longest)
        if found is None or len(found) - found.null_count != count:
            return None
        columns[name] = found
    return columns


def _numbers(kinds: Mapping[str, str]) -> list[str]:
    return [name for name, kind in kinds.items() if kind in ("integer", "name")]


def _texts(kinds: Mapping[str, str]) -> list[str]:
    return [name for name, kind in kinds.items() if kind == "text"]


def _lines(packed: bytes, names: list[str]) -> pa.Table | None:
    try:
        return csv.read_csv(
            pa.BufferReader(packed + b"\n"),
            csv.ReadOptions(
                column_names=names, use_threads=False, block_size=max(len(packed) + 1, 1 << 16)
            ),
            csv.ParseOptions(quote_char=False, ignore_empty_lines=False),
            csv.ConvertOptions(column_types=dict.fromkeys(names, pa.int64()), null_values=[""]),
        )
    except pa.ArrowInvalid:
        return None


def _split(packed: bytes, rows: int, longest: int) -> pa.Array | None:
    """The texts that are packed, as many as there are rows; None where they cannot be told apart."""
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


def chunk_of(row: tuple[Any, ...]) -> Chunk:
    """The row that a packing query gives."""
    rows, last, mixed, lines, *texts = row
    counts, packed = texts[::2], texts[1::2]
    pairs = [(count or 0, one or b"") for count, one in zip(counts, packed, strict=True)]
    return Chunk(rows, last or 0, mixed or 0, lines, tuple(pairs))
