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
    drawn: dict[str, pa.Table] = {}
    lanes = [TABLES["event_lane"].arrow(["event_id", "lane"]).empty_table()]
    for events, name, keys in (
        ("host_event", "host_block", _host_keys),
        ("device_event", "device_block", _device_keys),
    ):
        table = tables.get(events)
        if table is not None and table.num_rows >= LARGE:
            drawn[name], further = _drawn(table, *keys(table))
            lanes.append(further)
        else:
            drawn[name] = TABLES[name].arrow().empty_table()
    return drawn | {"event_lane": pa.concat_tables(lanes)}


Key = NDArray[np.integer]
Place = Callable[[int], dict[str, int]]


def _host_keys(table: pa.Table) -> tuple[Key, Place]:
    """A key for each row, equal for events that share lanes, and where the events of a key are drawn."""
    depth = small_numbers(table, "depth")
    depths = int(depth.max(initial=0)) + 1
    key = numbers(table, "thread") * depths + depth
    return _narrow(key), lambda key_value: {"thread": key_value // depths, "depth": key_value % depths}


def _device_keys(table: pa.Table) -> tuple[Key, Place]:
    streams = np.sort(pc.unique(table["stream"]).to_numpy())
    stream = np.searchsorted(streams, numbers(table, "stream"))
    # Events that are no work are drawn on a track of their own beside the stream.
    is_no_work = codes(table, "kind", KINDS, missing=NO_WORK) == NO_WORK
    key = (numbers(table, "device") * len(streams) + stream) * 2 + is_no_work

    def place(key_value: int) -> dict[str, int]:
        return {"device": key_value // 2 // len(streams), "stream": int(streams[key_value // 2 % len(streams)])}

    return _narrow(key), place


def _narrow(key: Key) -> Key:
    small = int(key.min(initial=0)) >= 0 and int(key.max(initial=0)) < 1 << 16
    return key.astype(np.uint16) if small else key


def _drawn(table: pa.Table, key: Key, place: Place) -> tuple[pa.Table, pa.Table]:
    """The blocks of a table of events, and the events that are not on the first lane."""
    start, end = times(table, "start_ns"), times(table, "dur_ns")
    end += start
    level = _level(int(end.max()) - int(start.min()), len(start))
    pieces: list[dict[str, NDArray[Any]]] = []
    longest = []
    further: list[tuple[NDArray[Any], NDArray[Any]]] = []
    for number, rows, lane in in_lanes(key, start, end):
        overlaps = bool(lane.any())
        for lane_number in range(int(lane.max()) + 1):
            lane_rows = rows[lane == lane_number] if overlaps else rows
            some = blocks(start[lane_rows], end[lane_rows], level)
            longest.append(lane_rows[some.row])
            count = len(some.row)
            pieces.append(
                {name: np.full(count, item) for name, item in place(number).items()}
                | {"lane": np.full(count, lane_number), "start_ns": some.start, "end_ns": some.end}
                | {"events": some.events, "busy_ns": some.busy, "max_ns": some.longest}
            )
        if overlaps:
            moved = np.flatnonzero(lane)
            further.append((rows[moved], lane[moved]))
    row = pa.array(np.concatenate(longest))
    columns = {name: pa.array(np.concatenate([item[name] for item in pieces])) for name in pieces[0]}
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
