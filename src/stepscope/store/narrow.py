"""Keeps some steps, or a stretch of time, of a recording that was read and linked.

Narrowing comes after linking, so that what is kept is linked as it is in the complete recording. An event keeps
its numbers; a parent, launch or forward that is not kept is no longer named, and depth counts those
that are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stepscope.link.columns import assembled, numbers, words
from stepscope.link.modules import levels
from stepscope.link.rank import attributed
from stepscope.link.recursion import inside_alike
from stepscope.schema.declare import Role
from stepscope.schema.tables import TABLES

Tables = dict[str, pa.Table]


def narrowed(tables: Tables, steps: Sequence[int] | None, window: tuple[int, int] | None) -> Tables:
    """The tables with the chosen rows.

    Args:
        tables: a linked recording, by name of the table.
        steps: numbers of the steps to keep; None for all.
        window: start and end of the stretch to keep (ns from the recording's start); an event is
            kept when it starts inside. None for all.
    """
    if steps is None and window is None:
        return tables
    kept = dict(tables)
    spans: list[tuple[int, int]] = []
    if steps is not None:
        chosen = pa.array(list(steps), pa.int64())
        for name in _having("step"):
            kept[name] = kept[name].filter(pc.is_in(kept[name]["step"], chosen))
        step = kept["step"]
        spans = list(zip(step["start_ns"].to_pylist(), step["end_ns"].to_pylist(), strict=True))
    if window is not None:
        start, end = window
        for name in _having("start_ns"):
            table = kept[name]
            inside = (
                pc.and_(pc.less(table["start_ns"], end), pc.greater(table["end_ns"], start))
                if "end_ns" in table.column_names
                else _inside(table["start_ns"], [window])
            )
            kept[name] = table.filter(inside)
        within = [window] if steps is None else spans
        spans = [(max(low, start), min(high, end)) for low, high in within]
    for name in _having("time_ns"):
        kept[name] = kept[name].filter(_inside(kept[name]["time_ns"], spans))
    for name, table in kept.items():
        if events := TABLES[name].describes:
            kept[name] = table.filter(pc.is_in(table["id"], kept[events]["id"]))
    kept = {name: _without_lost_links(name, kept) for name in kept}
    kept["host_event"] = _nested_anew(kept["host_event"])
    kept["attribution"] = attributed(kept["device_event"])
    return kept


def _having(column: str) -> list[str]:
    """The tables of a linked recording that have a column."""
    return [name for name, table in TABLES.items() if column in table.linked_names]


def _inside(times: Any, spans: list[tuple[int, int]]) -> Any:
    """Whether each time lies in one of a few stretches."""
    found = pa.array(np.zeros(len(times), dtype=bool))
    for start, end in spans:
        found = pc.or_(found, pc.and_(pc.greater_equal(times, start), pc.less(times, end)))
    return found


def _nested_anew(host: pa.Table) -> pa.Table:
    """What was left out encloses nothing any more: depths follow, and what is recursive."""
    parent = numbers(host, "parent_id", missing=-1)
    above = np.where(parent >= 0, np.searchsorted(host["id"].to_numpy(), parent), -1)
    name, _ = words(host, "name")
    kind, kinds = words(host, "kind")
    alike = name.astype(np.int64) * len(kinds) + kind
    anew = {
        "depth": pa.array(np.minimum(levels(above), (1 << 15) - 1).astype(np.int16)),
        "recursive": pa.array(inside_alike(above, alike, host["recursive"].to_numpy())),
    }
    return assembled("host_event", host, anew)


def _without_lost_links(name: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    """A table that names no event which was left out, and repeats nothing of one."""
    table, declared = tables[name], TABLES[name].columns
    for link in declared:
        if link.role is not Role.EVENT or link.of is None or not table.num_rows:
            continue
        there = pc.is_in(table[link.name], tables[link.of]["id"])
        for lost in (column for column in declared if link.name in (column.name, column.along)):
            index = table.schema.get_field_index(lost.name)
            column = table.column(index)
            table = table.set_column(
                index,
                table.schema.field(index),
                pc.if_else(there, column, pa.scalar(None, column.type)),
            )
    return table
