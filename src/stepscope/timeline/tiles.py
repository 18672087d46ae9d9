"""Tiles: a time interval at a zoom, with events that are too narrow to see merged.

A tile has `BINS` bins of 2^level ns. Events at least as long as a bin appear in each tile that they overlap. Shorter
ones that start in the same bin become a block with their count, summed time and longest event. So a tile's counts add
up to the shorter events that start in it and the longer ones that overlap it. A long interval's tile is made of stored
blocks (`store/drawn.py`), which lie in the bin in which their first event starts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stepscope.formats.consecutive import run_starts
from stepscope.link.lanes import longest_of
from stepscope.schema.arrays import Int64s
from stepscope.timeline.lanes import Columns, Lane, Lanes, Merged

BINS = 512
MAX_LEVEL = 50
"""Tiles of 2^59 ns: eighteen years."""
LONGEST_NAME = 160
"""Characters of a name in a tile; the event's details have the full name."""


@dataclass
class Names:
    """The distinct names of an answer; rows refer to them by number."""

    texts: list[str] = field(default_factory=list)
    _places: dict[str, int] = field(default_factory=dict)

    def numbers(self, codes: NDArray[np.integer], names: pa.StringArray) -> list[int]:
        """The numbers of some names in this answer."""
        distinct, which = np.unique(codes, return_inverse=True)
        places = [self.add(name) for name in names.take(pa.array(distinct)).to_pylist()]
        return np.array(places, np.int64)[which.reshape(-1)].tolist() if places else []

    def add(self, text: str | None) -> int:
        """Returns the number of one name."""
        short = shortened(text or "")
        place = self._places.setdefault(short, len(self.texts))
        if place == len(self.texts):
            self.texts.append(short)
        return place


def shortened(name: str) -> str:
    """A name, shortened for tiles."""
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def tile(lanes: Lanes, level: int, index: int, names: Names) -> dict[str, list[int]]:
    """One track of a tile, as columns with one row per block.

    Returns:
        `lane` from the top, `start` and `end` from the tile's start (ns), `count` of events, `busy`, their summed
        durations (ns), and `name`, `kind` and `id` of the longest event.
    """
    start = index * BINS << level
    parts = []
    for number, lane in enumerate(lanes.lanes):
        blocks = _blocks(lane, start, level)
        if len(blocks[0]):
            parts.append((np.full(len(blocks[0]), number, np.int64), *blocks))
    if not parts:
        return {name: [] for name in _COLUMNS}
    columns = dict(zip(_COLUMNS, (np.concatenate(columns_of) for columns_of in zip(*parts, strict=True)), strict=True))
    columns["start"] -= start
    columns["end"] -= start
    codes = columns.pop("name")
    columns_shown = {name: column.tolist() for name, column in columns.items()}
    return {**columns_shown, "name": names.numbers(codes, lanes.names)}


_COLUMNS = ("lane", "start", "end", "count", "busy", "name", "kind", "id")


def _blocks(lane: Lane, start: int, level: int) -> tuple[NDArray[Any], ...]:
    """The blocks of a lane in a tile: start, end, count, busy, name, kind and id of each."""
    rows = lane.touching(start, start + (BINS << level))
    events, pieces = lane.events.at(rows), lane.pieces(rows)
    short = (pieces.longest < 1 << level) | (pieces.events > 1)
    long = np.flatnonzero(~short & (events.end > start))
    short_rows = np.flatnonzero(short & (events.start >= start))
    merged = _merged(events.at(short_rows), pieces.at(short_rows), start, level)
    if not len(long):
        return merged
    single = events.at(long)
    length = single.end - single.start
    singles: tuple[NDArray[Any], ...] = (
        single.start,
        single.end,
        pieces.events[long],
        length,
        single.name,
        single.kind,
        single.id,
    )
    both = [np.concatenate(pair) for pair in zip(merged, singles, strict=True)]
    order = np.argsort(both[0], kind="stable")
    return tuple(column[order] for column in both)


def _merged(events: Columns, pieces: Merged, start: int, level: int) -> tuple[NDArray[Any], ...]:
    bins = (events.start - start) >> level
    first = np.flatnonzero(run_starts(bins))
    if not len(first):
        no_events = events.at(slice(0, 0))
        return (no_events.start, no_events.end, no_events.id, no_events.id, *no_events[2:])
    longest = longest_of(pieces.longest, first)
    end = np.maximum.reduceat(events.end, first)
    count, busy = (np.add.reduceat(column, first) for column in (pieces.events, pieces.busy))
    return (events.start[first], end, count, busy, *(column[longest] for column in events[2:]))


@dataclass(frozen=True, slots=True)
class Curve:
    """A value over time: times (ns, in order), and the value from each on."""

    time: Int64s
    value: NDArray[np.float64]

    @property
    def rows(self) -> int:
        """The number of values."""
        return len(self.time)


def curve_tile(curve: Curve, level: int, index: int) -> dict[str, list[Any]]:
    """A curve's tile: a row per bin with values, and one for the last value before the tile.

    Returns:
        `start` of the bin's first value from the tile's start (ns), `count` (0 for the value before), `low`, `high`,
        `last`.
    """
    start = index * BINS << level
    first, last = np.searchsorted(curve.time, [start, start + (BINS << level)]).tolist()
    time, value = curve.time[first:last], curve.value[first:last]
    runs = np.flatnonzero(run_starts((time - start) >> level))
    ends = np.append(runs[1:], len(time)) - 1 if len(runs) else runs
    columns = {
        "start": (time[runs] - start).tolist(),
        "count": (ends - runs + 1).tolist(),
        "low": np.minimum.reduceat(value, runs).tolist() if len(runs) else [],
        "high": np.maximum.reduceat(value, runs).tolist() if len(runs) else [],
        "last": value[ends].tolist(),
    }
    if first:
        before_value = float(curve.value[first - 1])
        before = {"start": int(curve.time[first - 1]) - start, "count": 0}
        for name, values in columns.items():
            values.insert(0, before.get(name, before_value))
    return columns
