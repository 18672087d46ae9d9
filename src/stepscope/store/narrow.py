"""Keeps some steps, or a stretch of time, of a recording that was read and linked.

Narrowing comes after linking, so that kept events are linked as in the complete recording. An event keeps its numbers;
references to a parent, launch or forward that is not kept are removed, and depth counts only kept events.

With its steps a store keeps what else shows where their time went: events of other steps, or of none, that run within
their windows (the host is already at the next step while the device ends this one), and, on each stream, the work
before and after a window, which explains the gaps at its edges. Such events belong to no step of the store, so that a
question sees them only as times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stepscope.formats.consecutive import run_starts
from stepscope.formats.nesting import levels
from stepscope.link.columns import assembled, codes, numbers, places, words
from stepscope.link.device import KINDS, NO_WORK
from stepscope.link.rank import attributed
from stepscope.link.recursion import inside_same_key
from stepscope.schema.declare import Role
from stepscope.schema.tables import TABLES

Tables = dict[str, pa.Table]


def narrowed(tables: Tables, steps: Sequence[int] | None, window: tuple[int, int] | None) -> Tables:
    """The tables of a linked recording with the chosen rows; None keeps all.

    Args:
        window: start and end of the stretch to keep (ns from the recording's start); an event is
            kept if it starts inside.
    """
    if steps is None and window is None:
        return tables
    result = dict(tables)
    spans: list[tuple[int, int]] = []
    if steps is not None:
        chosen = pa.array(list(steps), pa.int64())
        for name in _having("step"):
            if name not in ("host_event", "device_event"):
                result[name] = result[name].filter(pc.is_in(result[name]["step"], chosen))
        step = result["step"]
        spans = list(zip(step["start_ns"].to_pylist(), step["end_ns"].to_pylist(), strict=True))
        for name, rows in _of_steps(result, chosen).items():
            result[name] = _without_other_steps(result[name].filter(pa.array(rows)), chosen)
    if window is not None:
        start, end = window
        for name in _having("start_ns"):
            if TABLES[name].describes:  # it follows its event
                continue
            table = result[name]
            inside = (
                pc.and_(pc.less(table["start_ns"], end), pc.greater(table["end_ns"], start))
                if "end_ns" in table.column_names
                else _inside(table["start_ns"], [window])
            )
            result[name] = table.filter(inside)
        for name in ("host_event", "device_event"):
            result[name] = _without_other_steps(result[name], result["step"]["step"])
        within = [window] if steps is None else spans
        spans = [(max(low, start), min(high, end)) for low, high in within]
    for name in _having("time_ns"):
        result[name] = result[name].filter(_inside(result[name]["time_ns"], spans))
    for name, table in result.items():
        if described := TABLES[name].describes:
            has_event = [
                pc.if_else(table[column].is_valid(), pc.is_in(table[column], result[of]["id"]), None)
                for column, of in described.items()
            ]
            # Rows that refer to no event describe the recording.
            result[name] = table.filter(pc.coalesce(*has_event, pa.scalar(True)))
    result = {name: _without_lost_links(name, result) for name in result}
    result["host_event"] = _nested_anew(result["host_event"])
    work = result["device_event"]
    result["attribution"] = attributed(work if steps is None else work.filter(pc.is_in(work["step"], chosen)))
    return result


def _of_steps(tables: Tables, chosen: pa.Array) -> dict[str, NDArray[np.bool_]]:
    """Which host and device events are kept with steps: those of the steps, what runs or waits for the
    device in their windows, the work beside these, and what launched any of it."""
    step, host, device = tables["step"], tables["host_event"], tables["device_event"]
    low = np.minimum(numbers(step, "start_ns"), numbers(step, "host_start_ns"))
    high = np.maximum(numbers(step, "end_ns"), numbers(step, "host_end_ns"))
    windows = _union(low, high)
    start, launched = numbers(device, "start_ns"), numbers(device, "launch_ns", missing=_LATE)
    end = start + numbers(device, "dur_ns")
    of_device = pc.is_in(device["step"], chosen).to_numpy() | windows.touch(np.minimum(start, launched), end)
    work = np.flatnonzero(codes(device, "kind", KINDS, missing=NO_WORK) != NO_WORK)
    track = [numbers(device, name)[work] for name in ("device", "stream")]
    of_device[work[_adjacent(windows, track, start[work], end[work])]] = True
    start = numbers(host, "start_ns")
    of_host = pc.is_in(host["step"], chosen).to_numpy() | windows.touch(start, start + numbers(host, "dur_ns"))
    # In a store that was narrowed before, an event's number is not its row.
    ids = host["id"].to_numpy()
    parent = places(ids, numbers(host, "parent_id", missing=-1))
    for link in ("launch_id", "operator_id"):
        at = places(ids, numbers(device, link, missing=-1)[of_device])
        while len(at := np.unique(at[at >= 0])) and len(at := at[~of_host[at]]):
            of_host[at] = True
            at = parent[at]
    return {"host_event": of_host, "device_event": of_device}


_LATE = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class _Windows:
    """Windows of time that do not touch one another, in order (ns)."""

    low: NDArray[np.int64]
    high: NDArray[np.int64]

    def touch(self, start: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each stretch of time has a moment in a window, or starts where one does."""
        if not len(self.low):
            return np.zeros(len(start), dtype=bool)
        at = np.searchsorted(self.high, start, side="right")
        low = np.append(self.low, _LATE)[at]
        return (end > low) | (start >= low)


def _union(low: NDArray[np.int64], high: NDArray[np.int64]) -> _Windows:
    """The windows that stretches of time form together."""
    order = np.argsort(low, kind="stable")
    low, reach = low[order], np.maximum.accumulate(high[order])
    first = np.ones(len(low), dtype=bool)
    first[1:] = low[1:] > reach[:-1]
    return _Windows(low[first], reach[np.append(first[1:], True)] if len(low) else reach)


def _adjacent(
    windows: _Windows, track: list[NDArray[np.int64]], start: NDArray[np.int64], end: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """The work that ends last before each window, and the work that starts first after it, on each track."""
    adjacent = np.zeros(len(start), dtype=bool)
    order = np.lexsort((start, *track))
    firsts = np.flatnonzero(run_starts(*(column[order] for column in track)))
    for rows in np.split(order, firsts[1:]):
        if not len(rows):
            continue
        longest = np.maximum.accumulate(end[rows])
        last = np.maximum.accumulate(np.where(end[rows] == longest, np.arange(len(rows)), 0))
        before = np.searchsorted(start[rows], windows.low) - 1
        after = np.searchsorted(start[rows], windows.high)
        adjacent[rows[last[before[before >= 0]]]] = True
        adjacent[rows[after[after < len(rows)]]] = True
    return adjacent


def _without_other_steps(events: pa.Table, chosen: pa.Array) -> pa.Table:
    """The events; those of other steps get no step."""
    index = events.schema.get_field_index("step")
    field, step = events.schema.field(index), events.column(index)
    step_of_event = pc.if_else(pc.is_in(step, chosen), step, pa.scalar(None, step.type))
    return events.set_column(index, field, step_of_event)


def _having(column: str) -> list[str]:
    return [name for name, table in TABLES.items() if column in table.linked_names]


def _inside(times: Any, spans: list[tuple[int, int]]) -> Any:
    inside = pa.array(np.zeros(len(times), dtype=bool))
    for start, end in spans:
        inside = pc.or_(inside, pc.and_(pc.greater_equal(times, start), pc.less(times, end)))
    return inside


def _nested_anew(host: pa.Table) -> pa.Table:
    """Updates depths and `recursive` after enclosing events were left out."""
    parent = numbers(host, "parent_id", missing=-1)
    above = np.where(parent >= 0, np.searchsorted(host["id"].to_numpy(), parent), -1)
    name, _ = words(host, "name")
    kind, kinds = words(host, "kind")
    identity = name.astype(np.int64) * len(kinds) + kind
    anew = {
        "depth": pa.array(np.minimum(levels(above), (1 << 15) - 1).astype(np.int16)),
        "recursive": pa.array(inside_same_key(above, identity, host["recursive"].to_numpy())),
    }
    return assembled("host_event", host, anew)


def _without_lost_links(name: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    """The table without references to events that were left out, and without copies of their values."""
    table, declared = tables[name], TABLES[name].columns
    for link in declared:
        if link.role is not Role.EVENT or link.of is None or not table.num_rows:
            continue
        ids = [tables[target]["id"].cast(pa.int64()) for target in link.targets]
        chunks = [chunk for column in ids for chunk in column.chunks]
        is_present = pc.is_in(table[link.name], pa.chunked_array(chunks, pa.int64()))
        for lost in (column for column in declared if link.name in (column.name, column.along)):
            index = table.schema.get_field_index(lost.name)
            column = table.column(index)
            table = table.set_column(
                index, table.schema.field(index), pc.if_else(is_present, column, pa.scalar(None, column.type))
            )
    return table
