"""Columns of many slices' rows, in as little memory as possible, and texts as words of the canonical tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stepscope.formats import vocabulary
from stepscope.formats.scratch import spill_column, spill_columns

Ints = np.ndarray[Any, np.dtype[Any]]
Columns = dict[str, Any]
Word = Callable[[str, str], str | None]


def small(column: pa.Array) -> pa.Array:
    """The column in the smallest type that holds its values."""
    if column.null_count == len(column):
        return pa.nulls(len(column))
    if pa.types.is_string(column.type):
        return column.dictionary_encode()
    if not pa.types.is_int64(column.type):
        return column
    extent = pc.min_max(column)
    fits = extent["min"].as_py() >= -(2**31) and extent["max"].as_py() < 2**31
    return column.cast(pa.int32()) if fits else column


class Gathering:
    """Rows of many slices, column by column."""

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

        A column without values has Arrow's null type; those in `names` are returned even if no slice had them.
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
    if not pa.types.is_null(part.type):
        return part if part.type == kind else part.cast(kind)
    if not pa.types.is_dictionary(kind):
        return pa.nulls(len(part), kind)
    return pa.DictionaryArray.from_arrays(pa.nulls(len(part), kind.index_type), pa.array([], kind.value_type))


_DENSE = 1 << 20  # numbers may exceed their count by this much for a lookup table to be made


def distinct(numbers: Ints, below: int) -> tuple[Ints, Ints]:
    """The distinct numbers, from 0 to `below`, in rising order, and the index of each number among them."""
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
    """Codes (int32, -1 for null) of a dictionary column, and its values."""
    if not pa.types.is_dictionary(column.type):
        return np.full(len(column), -1, dtype=np.int32), []
    numbers = np.empty(len(column), dtype=np.int32)
    at = 0
    for chunk in column.chunks:
        numbers[at : at + len(chunk)] = chunk.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        at += len(chunk)
    values: list[Any] = column.chunk(0).dictionary.to_pylist() if column.num_chunks else []
    return numbers, values


class Words:
    """The categories and names of events with the columns `cat`, `name` and `pid`."""

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
        """A column for each function of the kind of an event's category and its name, which returns a word or None."""
        width = len(self._names)
        kinds = list(dict.fromkeys(self._kinds))
        place = {kind: number * width for number, kind in enumerate(kinds)}
        pairs = np.array([place[kind] for kind in self._kinds])[self._category_codes]
        pairs += np.where(self._name_codes < 0, width - 1, self._name_codes)
        seen = np.zeros(len(kinds) * width, dtype=bool)
        seen[pairs] = True
        numbers: list[dict[str, int]] = [{} for _ in words]
        code = np.full((len(words), len(seen)), -1, dtype=np.int32)
        for index in np.flatnonzero(seen).tolist():
            kind, name = divmod(index, width)
            # All words of a name at once: they ask the same of it, and only the last names are remembered.
            for number_of, of_word, word in zip(numbers, code, words, strict=True):
                value = word(kinds[kind], self._names[name])
                if value is not None:
                    of_word[index] = number_of.setdefault(value, len(number_of))
        return [dictionary(of_word[pairs], list(number_of)) for number_of, of_word in zip(numbers, code, strict=True)]


def dictionary(code: Ints, values: list[str]) -> pa.DictionaryArray:
    """A text column from numbers of words; NULL if a number is below 0."""
    mask = code < 0
    narrow = code.astype(np.int8) if len(values) < 128 else code
    indices = pa.array(narrow, mask=mask) if mask.any() else pa.array(narrow)
    return pa.DictionaryArray.from_arrays(indices, pa.array(values, pa.string()))


def recoded(code: Ints, words: list[str]) -> pa.DictionaryArray:
    """A text column with each distinct value replaced by a word; the last word is for nulls."""
    values = list(dict.fromkeys(words))
    place = {value: number for number, value in enumerate(values)}
    table = np.array([place[word] for word in words], dtype=np.int32)
    return dictionary(table[code], values)


def text(column: pa.ChunkedArray, default: str) -> Any:
    """A text column as a dictionary, its nulls filled."""
    return pc.fill_null(column.cast(pa.string()), default).dictionary_encode() if column.null_count else column


def place_of(column: pa.ChunkedArray, sets: dict[int, tuple[Any, ...]]) -> Any:
    """Hashes as the index of their set among all sets."""
    if not pa.types.is_dictionary(column.type):
        return column
    code, hashes = codes(column)
    place = {hashed: number for number, hashed in enumerate(sets)}
    table = np.array([*(place[hashed] for hashed in hashes), -1], dtype=np.int32)
    numbers = table[code]
    return pa.array(numbers, mask=numbers < 0)
