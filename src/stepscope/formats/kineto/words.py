"""Turns texts of events into words of the canonical tables, once per distinct text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stepscope.formats import vocabulary
from stepscope.formats.kineto.gathering import codes
from stepscope.formats.scratch import spill_column

Ints = np.ndarray[Any, np.dtype[Any]]
Columns = dict[str, Any]
Word = Callable[[str, str], str | None]


class Words:
    """The categories and names of some events.

    Args:
        columns: has the columns `cat`, `name` and `pid`.
    """

    def __init__(self, columns: Columns) -> None:
        self._category_codes, raw = codes(columns["cat"])
        self._name_codes, names = codes(columns["name"])
        self._names = [*names, ""]
        meanings = [vocabulary.category(category) for category in raw]
        categories = [meaning.name if meaning else spelled for meaning, spelled in zip(meanings, raw, strict=True)]
        self._kinds = [meaning.kind if meaning else "other" for meaning in meanings]
        # The last entry is for events without a category, which only the oldest exporter wrote.
        _, pids = codes(columns["pid"])
        nameless = next((meaning for pid in pids if (meaning := vocabulary.category(None, pid))), None)
        self._categories = [*categories, nameless.name if nameless else "none"]
        self._kinds.append(nameless.kind if nameless else "other")

    def category(self) -> pa.Array:
        """Each event's category, as it is spelled today."""
        return recoded(self._category_codes, self._categories)

    def each(self, *words: Word) -> list[pa.Array]:
        """Columns that depend on the kind of an event's category and on its name.

        Args:
            words: functions of that kind and the name that return a word, or None for no word.
        """
        width = len(self._names)
        pairs = np.where(self._category_codes < 0, len(self._kinds) - 1, self._category_codes)
        pairs = pairs.astype(np.int64) * width
        pairs += np.where(self._name_codes < 0, width - 1, self._name_codes)
        seen = np.zeros(len(self._kinds) * width, dtype=bool)
        seen[pairs] = True
        distinct = np.flatnonzero(seen).tolist()
        columns = []
        for word in words:
            number_of: dict[str, int] = {}
            code = np.full(len(seen), -1, dtype=np.int32)
            for index in distinct:
                category, name = divmod(index, width)
                value = word(self._kinds[category], self._names[name])
                if value is not None:
                    code[index] = number_of.setdefault(value, len(number_of))
            columns.append(dictionary(code[pairs], list(number_of)))
        return columns


def dictionary(code: Ints, values: list[str]) -> pa.DictionaryArray:
    """A text column from numbers of words; NULL if a number is below 0."""
    mask = code < 0
    small = code.astype(np.int8) if len(values) < 128 else code
    indices = pa.array(small, mask=mask) if mask.any() else pa.array(small)
    return pa.DictionaryArray.from_arrays(indices, pa.array(values, pa.string()))


def recoded(code: Ints, words: list[str]) -> pa.DictionaryArray:
    """A text column with each distinct value replaced by a word; the last word is for nulls."""
    distinct = list(dict.fromkeys(words))
    table = np.array([distinct.index(word) for word in words], dtype=np.int32)
    return dictionary(table[code], distinct)


def text(column: pa.ChunkedArray, default: str | None = None) -> Any:
    """A text column as a dictionary, its nulls filled if there is a default."""
    if default is not None and column.null_count:
        return pc.fill_null(column.cast(pa.string()), default).dictionary_encode()
    return column


def place_of(column: pa.ChunkedArray, sets: dict[int, tuple[Any, ...]]) -> Any:
    """Hashes as the index of what they stand for among all known ones."""
    if not pa.types.is_dictionary(column.type):
        return column
    code, hashes = codes(column)
    place = {hashed: number for number, hashed in enumerate(sets)}
    table = np.array([*(place[hashed] for hashed in hashes), -1], dtype=np.int32)
    numbers = table[code]
    return pa.array(numbers, mask=numbers < 0)


def as_table(columns: Columns, schema: pa.Schema) -> pa.Table:
    """A table with a schema's columns, in little memory.

    A column that is absent or has no values gets the null type; integers that fit into 32 bits keep
    32 bits.
    """
    rows = len(next(iter(columns.values())))
    arrays, fields = [], []
    for field in schema:
        value = columns.pop(field.name, None)
        array = pa.array(_small(value)) if isinstance(value, np.ndarray) else value
        if array is None or pa.types.is_null(array.type):
            array = pa.nulls(rows)
        elif array.type != field.type and not (_is_text(array.type) and _is_text(field.type)):
            array = array.cast(field.type) if not pa.types.is_integer(array.type) else array
        if isinstance(array, pa.Array):
            array = spill_column(array)
        arrays.append(array)
        fields.append(pa.field(field.name, array.type))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_dictionary(kind) or pa.types.is_string(kind))


def _small(values: Ints) -> Ints:
    if values.dtype != np.int64 or not len(values):
        return values
    fits = values.min() >= -(2**31) and values.max() < 2**31
    return values.astype(np.int32) if fits else values
