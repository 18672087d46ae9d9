"""The events of a rank's host or devices, laid out on the lanes of their tracks.

Events without blocks in the store are laid out when first needed. Otherwise blocks are used (`store/drawn.py`), and
only the events of an interval for which these are too coarse are read.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stepscope.link.columns import codes, places
from stepscope.link.device import KINDS as WORK_KINDS
from stepscope.link.lanes import in_lanes
from stepscope.schema.arrays import Int64s
from stepscope.store.columns import read_columns
from stepscope.store.write import placed
from stepscope.timeline.lanes import Columns, Lane, Lanes, Merged, laid_out, lanes_from_rows

if TYPE_CHECKING:
    from stepscope.store.open import Store
    from stepscope.timeline.tracks import Track

KINDS = (
    "computation", "communication", "copy", "fill", "sync", "operator", "annotation", "runtime",
    "python", "dataloader", "overhead", "step", "module", "other",
)  # fmt: skip
"""Kinds of events by number: those of the tables, and the roles that parts of a step are made of."""

ROLES = ("dataloader", "communication")
"""Roles of host events that count as kinds here."""

MAX_EVENTS_DECODED = 4_000_000
"""Events of row groups that stay decoded: some 130 MB."""

_KIND_CODES = {word: code for code, word in enumerate(KINDS)}
_OTHER = KINDS.index("other")
_BLOCK_COLUMNS = (
    "span", "lane", "start_ns", "end_ns", "events", "busy_ns", "bin_ns", "max_ns",
    "max_event_id", "name", "kind",
)  # fmt: skip


class Words:
    """Distinct names of events, by number."""

    def __init__(self) -> None:
        self._numbers: dict[str | None, int] = {}
        self._array = pa.array([], pa.string())

    def codes(self, column: pa.ChunkedArray) -> NDArray[np.int32]:
        """The numbers of a column of names."""
        parts = []
        for chunk in column.chunks:
            coded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
            numbers = [self._numbers.setdefault(name, len(self._numbers)) for name in coded.dictionary.to_pylist()]
            table = np.array([*numbers, self._numbers.setdefault(None, len(self._numbers))], np.int32)
            indices = coded.indices.fill_null(len(numbers)) if coded.indices.null_count else coded.indices
            parts.append(table[indices.to_numpy(zero_copy_only=False)])
        return np.concatenate([np.zeros(0, np.int32), *parts])

    @property
    def array(self) -> pa.StringArray:
        """All names so far."""
        if len(self._array) != len(self._numbers):
            self._array = pa.array(list(self._numbers), pa.string())
        return self._array


@dataclass(frozen=True, slots=True)
class Table:
    """The table of a side's events, and how its rows are told apart."""

    name: str
    keys: tuple[str, str]
    blocks: str

    def kinds(self, rows: pa.Table) -> NDArray[np.int8]:
        """The kind of each row, as an index into `KINDS`."""
        kind = codes(rows, "kind", _KIND_CODES, missing=_OTHER)
        if self.name == "host_event":
            for role in ROLES:
                kind[codes(rows, "role", {role: 1}) == 1] = _KIND_CODES[role]
        return kind

    def tracks(self, rows: pa.Table, kind: NDArray[np.int8], tracks: Sequence[Track]) -> NDArray[np.int16]:
        """The number of each row's track; 0 for none."""
        first, second = (_values(rows, name) for name in self.keys)
        works = kind < len(WORK_KINDS)
        number = np.zeros(rows.num_rows, np.int16)
        for place, track in enumerate(tracks):
            for a, b in track.keys:
                rows_of = (first == a) & (second == b)
                if track.kind != "thread":
                    rows_of &= works if track.kind == "stream" else ~works
                number[rows_of] = place
        return number


TABLES = {
    "host": Table("host_event", ("span", "thread"), "host_block"),
    "device": Table("device_event", ("device", "stream"), "device_block"),
}


class _Group(NamedTuple):
    """A row group: its place, starts of its first and last event, and the duration (ns) below which blocks merge its
    events."""

    file: pq.ParquetFile
    number: int
    span: int
    first: int
    last: int
    bin: int


class _Read(NamedTuple):
    """A rank's events in a row group, and the lane of each among all lanes."""

    events: Columns
    lane: NDArray[np.int32]


class Side:
    """A rank's events in one table; raises StoreError for a missing or damaged file. Threads may share it."""

    def __init__(self, store: Store, rank: int, table: Table, tracks: Sequence[Track]) -> None:
        self._store, self._rank, self._table, self._tracks = store, rank, table, tracks
        self._lock = threading.Lock()
        self._read: OrderedDict[tuple[str, int], _Read] = OrderedDict()
        self._words = Words()
        self._latest: tuple[int, int, Mapping[str, Lanes]] | None = None
        blocks = self._blocks()
        spans, bins = _values(blocks, "span"), _values(blocks, "bin_ns")
        self._bins = {
            span: int(bins[np.argmax(spans == span)])
            for span in {placed(path)[0] for path in store.files(table.blocks, rank)}
            if (spans == span).any()
        }
        self.level = max((size.bit_length() - 1 for size in self._bins.values()), default=-1)
        """Up to this zoom level blocks are too coarse; -1 without blocks."""
        self._places: dict[tuple[int, ...], int] = {}
        self._lanes, self._counts = self._laid_out(blocks, bins)
        self._groups = self._row_groups()
        self._extra_lanes = self._further_lanes()

    @property
    def rows(self) -> int:
        """The number of rows that its lanes keep in memory."""
        return sum(lanes.rows for lanes in self._lanes.values())

    def coarse(self) -> Mapping[str, Lanes]:
        """The complete time of each track: events, or blocks of one bin of the zoom `level`."""
        return self._lanes

    def lanes(self, start: int, end: int) -> Mapping[str, Lanes]:
        """For each track, single events that overlap a time interval or start in it; may contain others."""
        if self.level < 0:
            return self._lanes
        latest = self._latest
        if latest is not None and latest[:2] == (start, end):
            return latest[2]
        near_groups = [group for group in self._groups if group.first < end and group.last >= start - group.bin]
        with self._lock:
            read = [self._decoded(group) for group in near_groups]
            names = self._words.array
        parts, lanes = [], []
        for (events, lane), bin_ns in zip(read, (group.bin for group in near_groups), strict=True):
            near = (events.start < end) & (events.start >= start - bin_ns)
            near &= (events.end > start) | (events.start >= start)
            near &= events.end - events.start < bin_ns
            parts.append(events.at(near))
            lanes.append(lane[near])
        number = 0
        for track in self._tracks:
            for lane_of in self._lanes[track.id].lanes:
                rows = lane_of.touching(start, end)
                single = lane_of.pieces(rows).single
                parts.append(lane_of.events.at(rows).at(single))
                lanes.append(np.full(int(single.sum()), number, np.int32))
                number += 1
        events = Columns(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
        laid = lanes_from_rows(events, None, np.concatenate(lanes), self._counts)
        by_track = {group.id: Lanes(lanes_of, names) for group, lanes_of in zip(self._tracks, laid, strict=True)}
        self._latest = (start, end, by_track)
        return by_track

    def _blocks(self) -> pa.Table:
        of = [name for name in self._table.keys if name != "span"]
        of += ["depth", "role"] if self._table.name == "host_event" else []
        return read_columns(self._store, self._table.blocks, self._rank, [*of, *_BLOCK_COLUMNS])

    def _laid_out(self, blocks: pa.Table, bins: Int64s) -> tuple[dict[str, Lanes], list[int]]:
        rows = read_columns(self._store, self._table.name, self._rank, self._columns, without_spans=self._bins.keys())
        events, track = self._events(rows, 0)
        depth = _values(rows, "depth")
        if self._bins:
            laid = self._with_blocks(events, track, depth, blocks, bins)
        else:
            laid = laid_out(events, track, depth, len(self._tracks))
        names = self._words.array
        lanes = {track_of.id: Lanes(of, names) for track_of, of in zip(self._tracks, laid, strict=True)}
        return lanes, [len(of) for of in laid]

    @property
    def _columns(self) -> list[str]:
        more = ["role", "depth"] if self._table.name == "host_event" else []
        return ["id", "kind", "name", *self._table.keys, "start_ns", "dur_ns", *more]

    def _events(self, rows: pa.Table, shift_ns: int) -> tuple[Columns, NDArray[np.int16]]:
        kind, start = self._table.kinds(rows), _values(rows, "start_ns")
        start = start + shift_ns if shift_ns else start  # a copy of millions takes time
        names = self._words.codes(rows["name"])
        events = Columns(start, start + _values(rows, "dur_ns"), names, kind, _values(rows, "id"))
        return events, self._table.tracks(rows, kind, self._tracks)

    def _with_blocks(
        self, events: Columns, track: NDArray[np.int16], depth: NDArray[np.int64], blocks: pa.Table, bins: Int64s
    ) -> list[tuple[Lane, ...]]:
        """Lanes of blocks, with the events of recordings that have no blocks."""
        kind = self._table.kinds(blocks)
        block = Columns(
            _values(blocks, "start_ns"), _values(blocks, "end_ns"), self._words.codes(blocks["name"]),
            kind, _values(blocks, "max_event_id"),
        )  # fmt: skip
        count, longest = _values(blocks, "events"), _values(blocks, "max_ns")
        single_event = (count == 1) & (longest >= bins)
        merged = Merged(count, _values(blocks, "busy_ns"), longest, single_event)
        length = events.end - events.start
        single = np.ones(len(events), np.int64)
        both = Merged(*_joined(merged, (single, length, length, single.astype(bool))))
        key = track.astype(np.int64) * (int(depth.max(initial=0)) + 1) + depth
        lane_of = np.zeros(len(events), np.int64)
        for _, rows, lane in in_lanes(key, events.start, events.end):
            lane_of[rows] = lane
        place = (self._table.tracks(blocks, kind, self._tracks), _values(blocks, "depth"), _values(blocks, "lane"))
        distinct, number = _distinct(*_joined(place, (track, depth, lane_of)))
        self._places = {tuple(place_of): at for at, place_of in enumerate(distinct.tolist())}
        counts = np.bincount(distinct[:, 0], minlength=len(self._tracks)).tolist()
        return lanes_from_rows(Columns(*_joined(block, events)), both, number, counts)

    def _row_groups(self) -> list[_Group]:
        groups = []
        for path in self._store.files(self._table.name, self._rank) if self._bins else ():
            span = placed(path)[0]
            if span not in self._bins:
                continue
            file = pq.ParquetFile(path, read_dictionary=["name", "kind", "role"])
            place = file.schema_arrow.get_field_index("start_ns")
            shift = self._store.shift_ns(self._rank, span)
            for number in range(file.num_row_groups):
                statistics = file.metadata.row_group(number).column(place).statistics
                first, last = (
                    (statistics.min, statistics.max)
                    if statistics is not None and statistics.has_min_max
                    else (-_EVER, _EVER)
                )
                groups.append(_Group(file, number, span, first + shift, last + shift, self._bins[span]))
        return groups

    def _further_lanes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Events that are not on the first lane of their depth, in order, and their lanes."""
        if not self._bins:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        rows = read_columns(self._store, "event_lane", self._rank, ["event_id", "lane"])
        events, lane = _values(rows, "event_id"), _values(rows, "lane")
        order = np.argsort(events, kind="stable")
        return events[order], lane[order]

    def _decoded(self, group: _Group) -> _Read:
        key = (str(id(group.file)), group.number)
        if key in self._read:
            self._read.move_to_end(key)
            return self._read[key]
        rows = group.file.read_row_group(group.number, columns=self._columns)
        events, track = self._events(rows, self._store.shift_ns(self._rank, group.span))
        listed, lane = self._extra_lanes
        further = np.append(lane, 0)[places(listed, events.id)]
        distinct, which = _distinct(track, _values(rows, "depth"), further)
        numbers_of = np.array([self._places.get(tuple(place_of), 0) for place_of in distinct.tolist()], np.int32)
        decoded = self._read[key] = _Read(events, numbers_of[which])
        stored = sum(len(place_of.lane) for place_of in self._read.values())
        while stored > MAX_EVENTS_DECODED and len(self._read) > 1:
            stored -= len(self._read.popitem(last=False)[1].lane)
        return decoded


_EVER = 1 << 62


def _values(rows: pa.Table, name: str) -> NDArray[Any]:
    """A column of numbers without a copy, which would be slow for millions; zeros if the table lacks it."""
    if name not in rows.column_names:
        return np.zeros(rows.num_rows, np.int16)
    column = rows[name]
    return (column.chunk(0) if column.num_chunks == 1 else column).to_numpy()


_MANY = 1 << 22


def _joined(first: Sequence[NDArray[Any]], second: Sequence[NDArray[Any]]) -> Sequence[NDArray[Any]]:
    if not len(second[0]):
        return first  # as it is: copying millions of rows takes time
    return [np.concatenate(pair) for pair in zip(first, second, strict=True)]


def _distinct(
    first: NDArray[Any], second: NDArray[Any], third: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct triples of small numbers, in order, and the index of each row's triple."""
    of_two, of_three = (int(some.max(initial=0)) + 1 for some in (second, third))
    key = (first.astype(np.int64) * of_two + second) * of_three + third
    if int(key.max(initial=0)) > _MANY:
        distinct, which = np.unique(key, return_inverse=True)
    else:
        distinct = np.flatnonzero(np.bincount(key))
        place = np.zeros(int(distinct[-1]) + 1 if len(distinct) else 0, np.int64)
        place[distinct] = np.arange(len(distinct))
        which = place[key]
    two_of, three_of = distinct // of_three % of_two, distinct % of_three
    return np.stack((distinct // of_three // of_two, two_of, three_of), axis=1), which.reshape(-1)
