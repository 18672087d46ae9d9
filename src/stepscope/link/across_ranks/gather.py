"""The collectives of all ranks as columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stepscope.link.columns import numbers
from stepscope.schema.arrays import Int32s, Int64s

_GROUP = ("group_name", "group_description", "group_ranks", "group_size", "communicator")
_KIND = ("operation", "dtype", "bytes", "source_rank", "destination_rank")
_COLUMNS = ("i4", "i4", "i2", "i4", "i4", "i8", "i8", "i8")
READ = ("start_ns", "end_ns", "sequence", *_GROUP, *_KIND)
"""The columns that are read of `collective`."""


@dataclass(frozen=True, slots=True)
class RankInfo:
    """What a rank's recordings say about its clock.

    Args:
        rank: the rank.
        host: its node, None if unknown.
        epoch_ns: Unix time from which its times count, by its clock; None if unknown.
        resolution_ns: smallest step of its times.
        guessed: whether only the order of files says that it is this rank.
        spans: first and last start of each of its recordings that has events (ns since its epoch).
    """

    rank: int
    host: str | None
    epoch_ns: int | None
    resolution_ns: int
    guessed: bool
    spans: dict[int, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Collectives:
    """The collectives of all ranks, rank by rank, by start.

    Args:
        row: index in the table it came from.
        rank: index of the rank among the ranks.
        span: recording.
        group: index in `groups`: name, description, ranks, size and communicator, as recorded.
        kind: index in `kinds`: operation, element type, bytes, source and destination, as recorded.
        sequence: number within the group; -1 if none was recorded.
        start, end: by the clock of the rank (ns since `origin_ns`, Unix time).
    """

    row: Int32s
    rank: Int32s
    span: NDArray[np.int16]
    group: Int32s
    kind: Int32s
    sequence: Int64s
    start: Int64s
    end: Int64s
    groups: list[tuple[Any, ...]]
    kinds: list[tuple[Any, ...]]
    origin_ns: int

    def __len__(self) -> int:
        """The number of collectives."""
        return len(self.row)


@dataclass(slots=True)
class _Distinct:
    """Numbers for distinct sets of values, over all tables."""

    names: Sequence[str]
    number: dict[tuple[Any, ...], int] = field(default_factory=dict)

    def of(self, table: pa.Table) -> Int32s:
        """The number of each row's set of values."""
        code = np.zeros(table.num_rows, np.int64)
        values: list[tuple[Int64s, int, list[Any]]] = []
        for name in self.names:
            column = table.column(name).combine_chunks()
            if not pa.types.is_dictionary(column.type):
                column = column.dictionary_encode()
            index = column.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
            listed = [*column.dictionary.to_pylist(), None]
            values.append((index, len(listed), listed))
            code = code * len(listed) + index + 1
            if int(code.max(initial=0)) > 1 << 40:
                code = pa.array(code).dictionary_encode().indices.to_numpy().astype(np.int64)
        encoded = pa.array(code).dictionary_encode()
        index = encoded.indices.to_numpy()
        first = np.zeros(len(encoded.dictionary), np.int64)
        first[index[::-1]] = np.arange(len(index) - 1, -1, -1)
        distinct = [tuple(listed[at[row]] for at, _, listed in values) for row in first.tolist()]
        row_numbers = [self.number.setdefault(values_of_row, len(self.number)) for values_of_row in distinct]
        return np.array([*row_numbers, -1], np.int32)[index]


def gather(ranks: Sequence[RankInfo], recordings: Iterable[tuple[int, int, pa.Table]]) -> Collectives:
    """Collects the collectives of all ranks."""
    place = {rank_info.rank: at for at, rank_info in enumerate(ranks)}
    origin = min((rank_info.epoch_ns for rank_info in ranks if rank_info.epoch_ns is not None), default=0)
    group, kind = _Distinct(_GROUP), _Distinct(_KIND)
    parts: list[list[NDArray[Any]]] = [[np.empty(0, kind)] for kind in _COLUMNS]
    first = 0
    for rank, span, table in recordings:
        rows, at = table.num_rows, place[rank]
        epoch = ranks[at].epoch_ns
        shift = 0 if epoch is None else epoch - origin
        start = numbers(table, "start_ns") + shift
        order = np.argsort(start, kind="stable")
        columns: tuple[NDArray[Any], ...] = (
            np.arange(first, first + rows, dtype=np.int32),
            np.full(rows, at, np.int32),
            np.full(rows, span, np.int16),
            group.of(table),
            kind.of(table),
            numbers(table, "sequence", missing=-1),
            start,
            numbers(table, "end_ns") + shift,
        )
        for part, column in zip(parts, columns, strict=True):
            part.append(column[order])
        first += rows
    # One column at a time; the parts of finished columns are freed.
    row, at_rank, at_span, groups, kinds, sequence, starts, ends = (np.concatenate(parts.pop(0)) for _ in _COLUMNS)
    return Collectives(
        row, at_rank, at_span, groups, kinds, sequence, starts, ends,
        list(group.number), list(kind.number), origin,
    )  # fmt: skip
