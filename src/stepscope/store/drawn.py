"""What the timeline draws for recordings with very many events, computed once, when they are stored.

Laying out the lanes of 20 million events takes seconds and gigabytes. So a view of a long time is drawn from blocks,
some hundred thousand rows, and a closer view from only the events of its time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stepscope.link.columns import codes, numbers, small_numbers, times
from stepscope.link.device import KINDS, NO_WORK
from stepscope.link.lanes import blocks, in_lanes
from stepscope.schema.tables import TABLES

LARGE = 1 << 20
"""Host events, or device events, from which on a recording has blocks."""

EVENTS_OF_A_BIN = 256
"""Average number of events on all lanes in the time of a bin: a tile of 512 bins that is drawn from events then
reads some hundred thousand of them."""


def drawn_tables(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """The tables `host_block`, `device_block` and `event_lane` of a recording; without rows for small tables.

    Args:
        tables: a linked recording, by name of the table.
    """
    made: dict[str, pa.Table] = {}
    lanes = [TABLES["event_lane"].arrow(["event_id", "lane"]).empty_table()]
    for events, name, keys in (
        ("host_event", "host_block", _host_keys),
        ("device_event", "device_block", _device_keys),
    ):
        table = tables.get(events)
        if table is not None and table.num_rows >= LARGE:
            made[name], further = _drawn(table, *keys(table))
            lanes.append(further)
        else:
            made[name] = TABLES[name].arrow().empty_table()
    return made | {"event_lane": pa.concat_tables(lanes)}


Key = NDArray[np.integer]
Place = Callable[[int], dict[str, int]]


def _host_keys(table: pa.Table) -> tuple[Key, Place]:
    """A key for each row, equal for events that share lanes, and where the events of a key are drawn."""
    depth = small_numbers(table, "depth")
    depths = int(depth.max(initial=0)) + 1
    key = numbers(table, "thread") * depths + depth
    return _narrow(key), lambda one: {"thread": one // depths, "depth": one % depths}


def _device_keys(table: pa.Table) -> tuple[Key, Place]:
    known = np.sort(pc.unique(table["stream"]).to_numpy())
    stream = np.searchsorted(known, numbers(table, "stream"))
    # Events that are no work are drawn on a track of their own beside the stream.
    rests = codes(table, "kind", KINDS, missing=NO_WORK) == NO_WORK
    key = (numbers(table, "device") * len(known) + stream) * 2 + rests

    def place(one: int) -> dict[str, int]:
        return {"device": one // 2 // len(known), "stream": int(known[one // 2 % len(known)])}

    return _narrow(key), place


def _narrow(key: Key) -> Key:
    small = int(key.min(initial=0)) >= 0 and int(key.max(initial=0)) < 1 << 16
    return key.astype(np.uint16) if small else key


def _drawn(table: pa.Table, key: Key, place: Place) -> tuple[pa.Table, pa.Table]:
    """The blocks of a table of events, and the events that are not on the first lane."""
    start, end = times(table, "start_ns"), times(table, "dur_ns")
    end += start
    level = _level(int(end.max()) - int(start.min()), len(start))
    made: list[dict[str, NDArray[Any]]] = []
    longest = []
    further: list[tuple[NDArray[Any], NDArray[Any]]] = []
    for number, rows, lane in in_lanes(key, start, end):
        overlaps = bool(lane.any())
        for beside in range(int(lane.max()) + 1):
            own = rows[lane == beside] if overlaps else rows
            some = blocks(start[own], end[own], level)
            longest.append(own[some.row])
            count = len(some.row)
            made.append(
                {name: np.full(count, one) for name, one in place(number).items()}
                | {"lane": np.full(count, beside), "start_ns": some.start, "end_ns": some.end}
                | {"events": some.events, "busy_ns": some.busy, "max_ns": some.longest}
            )
        if overlaps:
            moved = np.flatnonzero(lane)
            further.append((rows[moved], lane[moved]))
    row = pa.array(np.concatenate(longest))
    columns = {name: pa.array(np.concatenate([one[name] for one in made])) for name in made[0]}
    columns["bin_ns"] = pa.array(np.full(len(row), 1 << level))
    columns["max_event_id"] = table["id"].take(row)
    columns |= {name: table[name].take(row) for name in ("name", "kind", "role") if name in table.column_names}
    nowhere = np.zeros(0, np.int64)
    events = np.concatenate([nowhere, *(rows for rows, _ in further)])
    lanes = np.concatenate([nowhere, *(lane for _, lane in further)]).astype(np.int16)
    moved_events = pa.table({"event_id": table["id"].take(pa.array(events)), "lane": lanes})
    return pa.table(columns), moved_events.cast(TABLES["event_lane"].arrow(["event_id", "lane"]))


def _level(lasts: int, rows: int) -> int:
    return max(0, (lasts * EVENTS_OF_A_BIN // rows).bit_length() - 1)
