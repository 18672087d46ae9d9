"""Keeps some steps, or a stretch of time, of a recording that was read and linked.

Narrowing comes after linking, so that what is kept is linked as it is in the whole. An event keeps
its numbers; a parent, launch or forward that is not kept is no longer named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stepscope.floor.errors import UsageError
from stepscope.link.columns import numbers, words
from stepscope.link.linked import LinkedTables
from stepscope.link.recursion import inside_alike

_HOST_LINKS = ("parent_id", "forward_id")
_DEVICE_LINKS = ("launch_id", "operator_id")
_ALONG = {"launch_id": "launch_ns", "operator_id": "operator_name"}
"""What is known of a linked event, and is left out with the link."""


def narrowed(
    tables: LinkedTables, steps: Sequence[int] | None, window: tuple[int, int] | None
) -> LinkedTables:
    """The tables with the chosen rows.

    Args:
        tables: a linked recording.
        steps: numbers of the steps to keep; None for all.
        window: begin and end of the stretch to keep (ns from the recording's start); an event is
            kept when it begins inside. None for all.

    Raises:
        UsageError: none of the steps is in the recording.
    """
    if steps is None and window is None:
        return tables
    host, device, step = tables.host_event, tables.device_event, tables.step
    spans: list[tuple[int, int]] = []
    if steps is not None:
        chosen = pa.array(list(steps), pa.int64())
        known = step["step"].to_pylist()
        step = step.filter(pc.is_in(step["step"], chosen))
        if step.num_rows == 0:
            there = ", ".join(map(str, known[:20])) or "none"
            raise UsageError(
                f"no step {', '.join(map(str, steps))} in the recording",
                hint=f"it has the steps {there}",
                slug="unknown-step",
            )
        host = host.filter(pc.fill_null(pc.is_in(host["step"], chosen), False))
        device = device.filter(pc.fill_null(pc.is_in(device["step"], chosen), False))
        spans = list(zip(step["start_ns"].to_pylist(), step["end_ns"].to_pylist(), strict=True))
    if window is not None:
        host = host.filter(_inside(host["start_ns"], [window]))
        device = device.filter(_inside(device["start_ns"], [window]))
        step = step.filter(
            pc.and_(pc.less(step["start_ns"], window[1]), pc.greater(step["end_ns"], window[0]))
        )
        spans = [(max(begin, window[0]), min(end, window[1])) for begin, end in (spans or [window])]
    moments = {
        name: table.filter(_inside(table["time_ns"], spans))
        for name in ("memory_event", "flow", "instant", "counter")
        if (table := getattr(tables, name)).num_rows
    }
    host = _with_recursion(_without_lost_links(host, _HOST_LINKS, host["id"]))
    device = _without_lost_links(device, _DEVICE_LINKS, host["id"])
    collective = tables.collective.filter(pc.is_in(tables.collective["id"], device["id"]))
    collective = _without_lost_links(collective, ("host_id",), host["id"])
    return replace(
        tables, host_event=host, device_event=device, step=step, collective=collective, **moments
    )


def _inside(times: Any, spans: list[tuple[int, int]]) -> Any:
    """Whether each time lies in one of a few stretches."""
    found = pa.chunked_array([pa.array([False] * 0, pa.bool_())])
    for number, (begin, end) in enumerate(spans):
        here = pc.and_(pc.greater_equal(times, begin), pc.less(times, end))
        found = here if number == 0 else pc.or_(found, here)
    return found


def _with_recursion(host: pa.Table) -> pa.Table:
    """A call whose like was left out is recursive no more."""
    asked = host["recursive"].to_numpy()
    if not asked.any():
        return host
    parent = numbers(host, "parent_id", missing=-1)
    above = np.where(parent >= 0, np.searchsorted(host["id"].to_numpy(), parent), -1)
    name, _ = words(host, "name")
    kind, kinds = words(host, "kind")
    inside = inside_alike(above, name.astype(np.int64) * len(kinds) + kind, asked)
    index = host.schema.get_field_index("recursive")
    return host.set_column(index, host.schema.field(index), pa.array(inside))


def _without_lost_links(table: pa.Table, columns: tuple[str, ...], kept: Any) -> pa.Table:
    for name in columns:
        there = pc.is_in(table.column(name), pc.unique(kept))
        for lost in filter(None, (name, _ALONG.get(name))):
            index = table.schema.get_field_index(lost)
            column = table.column(index)
            table = table.set_column(
                index,
                table.schema.field(index),
                pc.if_else(there, column, pa.scalar(None, column.type)),
            )
    return table
