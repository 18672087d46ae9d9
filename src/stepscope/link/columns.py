"""Columns of Arrow tables as NumPy arrays, and back, without a Python object per row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stepscope.schema.tables import TABLES


def numbers(table: pa.Table, name: str, *, missing: int = 0) -> NDArray[np.int64]:
    """An integer column as int64, with `missing` where it is NULL or the table has no such column."""
    return _filled(table, name, np.dtype(np.int64), missing)


FARTHEST_NS = 1 << 56
"""Times beyond this (two years) are damage; cutting them keeps sums of times within 64 bits."""


def times(table: pa.Table, name: str) -> NDArray[np.int64]:
    """A column of times or durations (ns), cut to two years."""
    values = numbers(table, name)
    low = 0 if name == "dur_ns" else -FARTHEST_NS
    if len(values) and (int(values.max()) > FARTHEST_NS or int(values.min()) < low):
        np.clip(values, low, FARTHEST_NS, out=values)
    return values


def small_numbers(table: pa.Table, name: str, *, missing: int = -1) -> NDArray[np.int32]:
    """The same for values that fit into int32."""
    return _filled(table, name, np.dtype(np.int32), missing)


def _filled(table: pa.Table, name: str, dtype: np.dtype[Any], missing: int) -> NDArray[Any]:
    if name not in table.column_names or pa.types.is_null(table.schema.field(name).type):
        return np.full(table.num_rows, missing, dtype=dtype)
    values = np.empty(table.num_rows, dtype=dtype)
    at = 0
    for chunk in table.column(name).chunks:
        filled = chunk.fill_null(missing) if 0 < chunk.null_count < len(chunk) else chunk
        is_absent = 0 < chunk.null_count == len(chunk)
        values[at : at + len(chunk)] = missing if is_absent else filled.to_numpy(zero_copy_only=False)
        at += len(chunk)
    return values


def codes(table: pa.Table, name: str, code_of: Mapping[str, int], *, missing: int = -1) -> NDArray[np.int8]:
    """A column of few distinct words as small numbers; `missing` for NULL and other words."""
    values = np.full(table.num_rows, missing, dtype=np.int8)
    at = 0
    for indices, words in _dictionaries(table, name):
        table_of_codes = np.array([*(code_of.get(word, missing) for word in words), missing], "i1")
        values[at : at + len(indices)] = table_of_codes[indices]
        at += len(indices)
    return values


def words(table: pa.Table, name: str) -> tuple[NDArray[np.int32], list[str]]:
    """A text column as numbers of distinct words, -1 for NULL, and the words."""
    values = np.full(table.num_rows, -1, dtype=np.int32)
    number_of: dict[str, int] = {}
    at = 0
    numbers_of: list[str] | None = None
    for indices, chunk_words in _dictionaries(table, name):
        if chunk_words is not numbers_of:
            numbers_of = chunk_words
            numbers_of_chunk = [number_of.setdefault(word, len(number_of)) for word in chunk_words]
            numbers_of_words = np.array([*numbers_of_chunk, -1], "i4")
        values[at : at + len(indices)] = numbers_of_words[indices]
        at += len(indices)
    return values, list(number_of)


def _dictionaries(table: pa.Table, name: str) -> list[tuple[NDArray[np.int32], list[str]]]:
    """Each chunk of a text column as indices and words; index -1 is NULL.

    Consecutive chunks with the same words share one list; those of a reader, one for each slice of a file, mostly do.
    """
    parts: list[tuple[NDArray[np.int32], list[str]]] = []
    previous: pa.Array | None = None
    if name not in table.column_names or pa.types.is_null(table.schema.field(name).type):
        return []
    for chunk in table.column(name).chunks:
        encoded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        indices = encoded.indices
        if indices.null_count:
            indices = indices.fill_null(-1)
        if previous is None or not encoded.dictionary.equals(previous):
            previous = encoded.dictionary
            spoken = previous.to_pylist()
        parts.append((indices.to_numpy(zero_copy_only=False), spoken))
    return parts


def texts_at(table: pa.Table, name: str, rows: NDArray[Any]) -> list[str | None]:
    """The texts of a few rows."""
    column = table.column(name)
    ends = np.cumsum([len(chunk) for chunk in column.chunks])
    texts: list[str | None] = [None] * len(rows)
    for number, chunk in enumerate(column.chunks):
        inside = np.flatnonzero((rows >= ends[number] - len(chunk)) & (rows < ends[number]))
        taken = chunk.take(pa.array(rows[inside] - (ends[number] - len(chunk))))
        for place, text in zip(inside.tolist(), taken.to_pylist(), strict=True):
            texts[place] = text
    return texts


def assembled(name: str, read: pa.Table, added: Mapping[str, pa.Array]) -> pa.Table:
    """A table with the declared columns, from a reader's table and what link adds."""
    names = TABLES[name].linked_names
    return pa.table([added[column] if column in added else read.column(column) for column in names], names=list(names))


def places(rising: NDArray[Any], values: NDArray[Any]) -> NDArray[np.int64]:
    """Index of the first of some rising values that equals each asked one, or -1."""
    if not len(rising):
        return np.full(len(values), -1, dtype=np.int64)
    at = np.searchsorted(rising, values)
    at[at == len(rising)] = 0
    return np.where(rising[at] == values, at, -1)


def integers(values: NDArray[Any], *, missing: int | None = -1, type: pa.DataType) -> pa.Array:
    """An integer column; NULL for values that are `missing`.

    A 64-bit column gets 32 bits if its values fit; it gets its declared type when it is written.
    """
    mask = None if missing is None else values == missing
    if mask is not None and not mask.any():
        mask = None
    if not pa.types.is_int64(type):
        return pa.array(values, type=type, mask=mask)
    if values.dtype == np.int64 and len(values):
        fits = int(values.min()) >= -(1 << 31) and int(values.max()) < 1 << 31
        values = values.astype(np.int32) if fits else values
    return pa.array(values, mask=mask)


def from_codes(values: NDArray[Any], meaning: Sequence[str]) -> pa.Array:
    """A text column from numbers of words; NULL for numbers below 0."""
    few = np.int8 if len(meaning) <= np.iinfo(np.int8).max else np.int32
    indices = pa.array(values.astype(few), mask=values < 0)
    return pa.DictionaryArray.from_arrays(indices, pa.array(meaning, pa.string()))
