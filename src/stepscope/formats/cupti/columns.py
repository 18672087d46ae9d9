"""Converts columns of a database to columns of the canonical tables, once for each distinct value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stepscope.formats.bounded import INT32, LIMIT
from stepscope.formats.tables import ReadReport

LATEST_NS = LIMIT
"""Later times are damage."""


def timed(table: pa.Table, name: str, report: ReadReport) -> pa.Table:
    """The rows with a time in a column; those without are counted."""
    times = table[name]
    valid = pc.and_(pc.greater_equal(times, 0), pc.less(times, LATEST_NS)).fill_null(False)
    lost = table.num_rows - (pc.sum(valid).as_py() or 0)
    if not lost:
        return table
    report.drop("no_time", lost)
    return table.filter(valid)


def in_time(table: pa.Table, report: ReadReport) -> pa.Table:
    """Rows with a time, `start` and `end` as `start_ns` and `dur_ns`; rows without are counted."""
    table = timed(table, "start", report)
    start, end = table["start"], table["end"]
    # Without an end, or with one before the start, the duration is unknown.
    ended = pc.and_(pc.greater_equal(end, start), pc.less(end, LATEST_NS)).fill_null(False)
    cut = table.num_rows - (pc.sum(ended).as_py() or 0)
    if cut:
        report.repair("negative_duration", cut)
        end = pc.if_else(ended, end, start)
    return (
        table.drop_columns(["start", "end"])
        .append_column("start_ns", start)
        .append_column("dur_ns", pc.subtract(end, start))
    )


def small(values: pa.ChunkedArray, wrong: dict[tuple[str, str], int], *place: str) -> pa.ChunkedArray:
    """32-bit numbers, NULL for negative or larger ones, which `wrong` counts under their table and column."""
    fits = pc.and_(pc.greater_equal(values, 0), pc.less(values, INT32))
    result = pc.if_else(fits, values, pa.scalar(None, pa.int64())).cast(pa.int32())
    if result.null_count > values.null_count:
        wrong[place[0], place[1]] = result.null_count - values.null_count
    return result


def mapped(values: pa.Array, of: Callable[[Any], str | None]) -> pa.DictionaryArray:
    """A text for each value, worked out once for each distinct one; NULL if there is none."""
    coded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.combine_chunks()
    numbering: dict[str, int] = {}
    values = [of(value) for value in coded.dictionary.to_pylist()]
    place = [None if value is None else numbering.setdefault(value, len(numbering)) for value in values]
    indices = pa.array(place, pa.int32()).take(coded.indices)
    return pa.DictionaryArray.from_arrays(indices, pa.array(list(numbering), pa.string()))


def first_named(columns: Sequence[pa.Array | pa.ChunkedArray], otherwise: str) -> pa.DictionaryArray:
    """The first name in each row of some columns of names. Each text is kept once: they may be long."""
    texts: list[str] = []
    place = np.full(len(columns[0]), -1, np.int64)
    for column in columns:
        coded = mapped(column, str)
        indices = coded.indices.fill_null(-1).to_numpy()
        place = np.where((place < 0) & (indices >= 0), indices + len(texts), place)
        texts += coded.dictionary.to_pylist()
    place[place < 0] = len(texts)
    indices = pa.array(place, pa.int32())
    return mapped(pa.DictionaryArray.from_arrays(indices, pa.array([*texts, otherwise])), str)


def mapped_rows(
    columns: Mapping[str, pa.ChunkedArray], of: Callable[[dict[str, Any]], str | None]
) -> pa.DictionaryArray:
    """A text for each row of some columns, worked out once for each distinct row; NULL for None."""
    distinct, codes = distinct_rows(columns)
    return mapped(pa.array(codes), lambda code: of(distinct[code]))


def distinct_rows(
    columns: Mapping[str, pa.ChunkedArray],
) -> tuple[list[dict[str, Any]], np.ndarray[Any, np.dtype[np.int64]]]:
    """The distinct rows of some columns, and the number of its distinct row for each row."""
    codes = np.zeros(len(next(iter(columns.values()))), np.int64)
    distinct: list[dict[str, Any]] = [{}]
    for name, column in columns.items():
        coded = column.combine_chunks().dictionary_encode(null_encoding="encode")
        width = max(len(coded.dictionary), 1)
        packed = pa.array(codes * width + coded.indices.to_numpy()).dictionary_encode()
        values = coded.dictionary.to_pylist()
        distinct = [distinct[code // width] | {name: values[code % width]} for code in packed.dictionary.to_pylist()]
        codes = packed.indices.to_numpy().astype(np.int64)
    return distinct, codes


def constant(text: str, count: int) -> pa.DictionaryArray:
    """The same text in every row."""
    indices = pa.repeat(pa.scalar(0, pa.int32()), count)
    return pa.DictionaryArray.from_arrays(indices, pa.array([text]))


def on_host(rows: pa.Table, category: str | pa.Array, kind: str, **columns: pa.Array | pa.ChunkedArray) -> pa.Table:
    """Rows with `start` and `end` as host events, with these further columns."""
    count = rows.num_rows
    named = constant(category, count) if isinstance(category, str) else category
    fixed = {"start": rows["start"], "end": rows["end"], "category": named}
    return pa.table(fixed | {"kind": constant(kind, count)} | columns)


def on_track(rows: pa.Table, track: str, name: pa.Array, number: Callable[[str], int]) -> pa.Table:
    """Rows that belong to no thread as events on a track of their own, which gets a number if there are any."""
    place = number(track) if rows.num_rows else 0
    thread = pa.array(np.full(rows.num_rows, place, np.int32))
    return on_host(rows, track, track, name=name, thread=thread)
