"""The events of a rank's host or devices, laid out on the lanes of their tracks.

Events for which a store keeps no blocks are laid out when first needed. For the others the blocks are used
(`store/drawn.py`), and where these are too coarse for an interval, only the events of that interval are read.
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

from stepscope.link.columns import codes
from stepscope.link.device import KINDS as WORK_KINDS
from stepscope.link.lanes import in_lanes
from stepscope.schema.arrays import Int64s
from stepscope.store.columns import read_columns
from stepscope.store.write import placed
from stepscope.timeline.lanes import Columns, Lane, Lanes, Merged, laid_out, put

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

MOST_READ = 4_000_000
"""Events of row groups that stay decoded: some 130 MB."""

_KIND_CODES = {word: code for code, word in enumerate(KINDS)}
_OTHER = KINDS.index("other")
_BLOCK_COLUMNS = (
    "span", "lane", "start_ns", "end_ns", "events", "busy_ns", "bin_ns", "longest_ns",
    "longest_id", "name", "kind",
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
            known = [self._numbers.setdefault(one, len(self._numbers)) for one in coded.dictionary.to_pylist()]
            table = np.array([*known, self._numbers.setdefault(None, len(self._numbers))], np.int32)
            indices = coded.indices.fill_null(len(known)) if coded.indices.null_count else coded.indices
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
        one, other = (_values(rows, name) for name in self.keys)
        works = kind < len(WORK_KINDS)
        number = np.zeros(rows.num_rows, np.int16)
        for place, track in enumerate(tracks):
            for a, b in track.keys:
                own = (one == a) & (other == b)
                if track.kind != "thread":
                    own &= works if track.kind == "stream" else ~works
                number[own] = place
        return number


TABLES = {
    "host": Table("host_event", ("span", "thread"), "host_block"),
    "device": Table("device_event", ("device", "stream"), "device_block"),
}


class _Group(NamedTuple):
    """A row group: its place, the starts of its first and last event, and the duration (ns) below which blocks have
    none of its events by themselves."""

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
    """A rank's events in one table. Threads may share it.

    Raises:
        StoreError: a file is missing or damaged.
    """

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
        self.level = max((one.bit_length() - 1 for one in self._bins.values()), default=-1)
        """Up to this zoom level blocks are too coarse; -1 without blocks."""
        self._places: dict[tuple[int, ...], int] = {}
        self._lanes, self._counts = self._laid_out(blocks, bins)
        self._groups = self._row_groups()
        self._beside = self._further_lanes()

    @property
    def rows(self) -> int:
        """The number of rows that its lanes keep in memory."""
        return sum(one.rows for one in self._lanes.values())

    def coarse(self) -> Mapping[str, Lanes]:
        """The complete time of each track: events, or blocks of one bin of the zoom `level`."""
        return self._lanes

    def lanes(self, start: int, end: int) -> Mapping[str, Lanes]:
        """For each track, single events that overlap a time interval or start in it; may contain others."""
        if self.level < 0:
            return self._lanes
        known = self._latest
        if known is not None and known[:2] == (start, end):
            return known[2]
        near_groups = [one for one in self._groups if one.first < end and one.last >= start - one.bin]
        with self._lock:
            read = [self._decoded(one) for one in near_groups]
            names = self._words.array
        parts, lanes = [], []
        for (events, lane), most in zip(read, (one.bin for one in near_groups), strict=True):
            near = (events.start < end) & (events.start >= start - most)
            near &= (events.end > start) | (events.start >= start)
            near &= events.end - events.start < most
            parts.append(events.at(near))
            lanes.append(lane[near])
        number = 0
        for track in self._tracks:
            for lane_of in self._lanes[track.id].lanes:
                rows = lane_of.touching(start, end)
                alone = lane_of.pieces(rows).alone
                parts.append(lane_of.events.at(rows).at(alone))
                lanes.append(np.full(int(alone.sum()), number, np.int32))
                number += 1
        events = Columns(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
        made = put(events, None, np.concatenate(lanes), self._counts)
        shown = {one.id: Lanes(lanes_of, names) for one, lanes_of in zip(self._tracks, made, strict=True)}
        self._latest = (start, end, shown)
        return shown

    def _blocks(self) -> pa.Table:
        of = [name for name in self._table.keys if name != "span"]
        of += ["depth", "role"] if self._table.name == "host_event" else []
        return read_columns(self._store, self._table.blocks, self._rank, [*of, *_BLOCK_COLUMNS])

    def _laid_out(self, blocks: pa.Table, bins: Int64s) -> tuple[dict[str, Lanes], list[int]]:
        own = ["id", "kind", "name", *self._table.keys, "start_ns", "dur_ns"]
        own += ["role", "depth"] if self._table.name == "host_event" else []
        rows = read_columns(self._store, self._table.name, self._rank, own, without_spans=self._bins.keys())
        kind = self._table.kinds(rows)
        track = self._table.tracks(rows, kind, self._tracks)
        start = _values(rows, "start_ns")
        events = Columns(
            start, start + _values(rows, "dur_ns"), self._words.codes(rows["name"]), kind,
            _values(rows, "id"),
        )  # fmt: skip
        depth = _values(rows, "depth")
        if self._bins:
            made = self._with_blocks(events, track, depth, blocks, bins)
        else:
            made = laid_out(events, track, depth, len(self._tracks))
        names = self._words.array
        lanes = {one.id: Lanes(of, names) for one, of in zip(self._tracks, made, strict=True)}
        return lanes, [len(of) for of in made]

    def _with_blocks(
        self, events: Columns, track: NDArray[np.int16], depth: NDArray[np.int64], blocks: pa.Table, bins: Int64s
    ) -> list[tuple[Lane, ...]]:
        """Lanes of blocks, with the events of recordings that have no blocks."""
        kind = self._table.kinds(blocks)
        block = Columns(
            _values(blocks, "start_ns"), _values(blocks, "end_ns"), self._words.codes(blocks["name"]),
            kind, _values(blocks, "longest_id"),
        )  # fmt: skip
        count, longest = _values(blocks, "events"), _values(blocks, "longest_ns")
        alone = (count == 1) & (longest >= bins)
        merged = Merged(count, _values(blocks, "busy_ns"), longest, alone)
        length = events.end - events.start
        single = np.ones(len(events), np.int64)
        both = Merged(*_joined(merged, (single, length, length, single.astype(bool))))
        key = track.astype(np.int64) * (int(depth.max(initial=0)) + 1) + depth
        beside = np.zeros(len(events), np.int64)
        for _, rows, lane in in_lanes(key, events.start, events.end):
            beside[rows] = lane
        place = (self._table.tracks(blocks, kind, self._tracks), _values(blocks, "depth"), _values(blocks, "lane"))
        known, number = _distinct(*_joined(place, (track, depth, beside)))
        self._places = {tuple(one): at for at, one in enumerate(known.tolist())}
        counts = np.bincount(known[:, 0], minlength=len(self._tracks)).tolist()
        return put(Columns(*_joined(block, events)), both, number, counts)

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
                told = file.metadata.row_group(number).column(place).statistics
                first, last = (told.min, told.max) if told is not None and told.has_min_max else (-_EVER, _EVER)
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
        names = ["id", "kind", "name", *self._table.keys, "start_ns", "dur_ns"]
        names += ["role", "depth"] if self._table.name == "host_event" else []
        rows = group.file.read_row_group(group.number, columns=names)
        kind = self._table.kinds(rows)
        track = self._table.tracks(rows, kind, self._tracks)
        start = _values(rows, "start_ns") + self._store.shift_ns(self._rank, group.span)
        ids = _values(rows, "id")
        events = Columns(start, start + _values(rows, "dur_ns"), self._words.codes(rows["name"]), kind, ids)
        further = np.zeros(len(ids), np.int64)
        known, lane = self._beside
        if len(known):
            at = np.minimum(np.searchsorted(known, ids), len(known) - 1)
            further = np.where(known[at] == ids, lane[at], 0)
        distinct, which = _distinct(track, _values(rows, "depth"), further)
        numbers_of = np.array([self._places.get(tuple(one), 0) for one in distinct.tolist()], np.int32)
        made = self._read[key] = _Read(events, numbers_of[which])
        kept = sum(len(one.lane) for one in self._read.values())
        while kept > MOST_READ and len(self._read) > 1:
            kept -= len(self._read.popitem(last=False)[1].lane)
        return made


_EVER = 1 << 62


def _values(rows: pa.Table, name: str) -> NDArray[Any]:
    """A column of numbers without a copy, which would be slow for millions; zeros if the table lacks it."""
    if name not in rows.column_names:
        return np.zeros(rows.num_rows, np.int16)
    column = rows[name]
    read: NDArray[Any] = (column.chunk(0) if column.num_chunks == 1 else column).to_numpy()
    return read


_MANY = 1 << 22


def _joined(one: Sequence[NDArray[Any]], other: Sequence[NDArray[Any]]) -> Sequence[NDArray[Any]]:
    if not len(other[0]):
        return one  # as it is: copying millions of rows takes time
    return [np.concatenate(pair) for pair in zip(one, other, strict=True)]


def _distinct(one: NDArray[Any], two: NDArray[Any], three: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct triples of small numbers, in order, and the index of each row's triple."""
    of_two, of_three = (int(some.max(initial=0)) + 1 for some in (two, three))
    key = (one.astype(np.int64) * of_two + two) * of_three + three
    if int(key.max(initial=0)) > _MANY:
        known, which = np.unique(key, return_inverse=True)
    else:
        known = np.flatnonzero(np.bincount(key))
        place = np.zeros(int(known[-1]) + 1 if len(known) else 0, np.int64)
        place[known] = np.arange(len(known))
        which = place[key]
    two_of, three_of = known // of_three % of_two, known % of_three
    return np.stack((known // of_three // of_two, two_of, three_of), axis=1), which.reshape(-1)
