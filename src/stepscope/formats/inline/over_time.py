"""Reads what the recorder measured of its machine over time: rows of `counter`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from stepscope.formats.inline.document import number, whole
from stepscope.formats.tables import READ

_PROCESSES = "job's processes"
_MOST_ROWS = 100_000


class _Series(NamedTuple):
    name: str
    unit: str | None
    of_device: bool = True


_SERIES = {
    "processors_used": _Series("processors used", None, of_device=False),
    "memory_bytes": _Series("memory", "bytes", of_device=False),
    "read_bytes_per_s": _Series("read", "bytes/s", of_device=False),
    "written_bytes_per_s": _Series("written", "bytes/s", of_device=False),
    "compute_active": _Series("utilisation", "%"),
    "power": _Series("power", "W"),
    "temperature": _Series("temperature", "°C"),
    "clock": _Series("clock of multiprocessors", "Hz"),
    "max_clock": _Series("highest clock of multiprocessors", "Hz"),
    "memory_clock": _Series("clock of memory", "Hz"),
    "throttled": _Series("clock held down", "%"),
    "throttled_by_heat": _Series("clock held down by heat", "%"),
    "throttled_by_power": _Series("clock held down by power", "%"),
}
"""By their names in the file, which are those of `counter.kind` for a device."""


def counters(section: Any) -> pa.Table:
    """Rows of `counter` of what a document has under `host`; none where it has nothing over time."""
    found = section.get("over_time") if isinstance(section, dict) else None
    rows = list(_rows(found)) if isinstance(found, dict) else []
    return pa.Table.from_pylist(rows, schema=READ["counter"])


def _rows(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    columns, rows, device = found.get("columns"), found.get("rows"), found.get("device")
    if not isinstance(columns, list) or columns[:1] != ["time_ns"] or not isinstance(rows, list):
        return
    told = device if isinstance(device, dict) else {}
    tool, index = told.get("tool"), str(whole(told.get("index")) or 0)
    of_device: dict[str, str | None] = {
        "track": tool if isinstance(tool, str) else "device",
        "pid": index,
    }
    series: dict[int, dict[str, str | None]] = {
        place: {"series": one.name, "unit": one.unit}
        | (of_device | {"kind": name} if one.of_device else {"track": _PROCESSES})
        for place, name in enumerate(columns)
        if isinstance(name, str) and (one := _SERIES.get(name)) is not None
    }
    for row in rows[:_MOST_ROWS]:
        time_ns = whole(row[0]) if isinstance(row, list) and len(row) == len(columns) else None
        if time_ns is None:
            continue
        for place, words in series.items():
            value = number(row[place])
            if value is not None:
                yield words | {"time_ns": time_ns, "value": value}
