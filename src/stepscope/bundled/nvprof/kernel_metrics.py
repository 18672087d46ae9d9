"""Events and metrics that nvprof measured of kernels (`nvprof --events ... --metrics ...`).

A database has their numbers but not their names, for which nvprof asks CUPTI; `cupti_names.txt` has CUPTI's answers. A
number of another version that is not there becomes the name: `metric 7`. Nor does a database say whether a metric is a
double or an integer; eight bytes that would be a double smaller than any measured value are an integer.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stepscope.formats.counters.measured import of_events
from stepscope.formats.sqlite import Database

Row = dict[str, Any]

_TABLES = {
    "METRIC": ("metric", "blob"),
    "METRIC_INSTANCE": ("metric", "blob"),
    "EVENT": ("event", "integer"),
    "EVENT_INSTANCE": ("event", "integer"),
}
_MIN_REAL = 1e-290
"""Doubles nearer to 0 are really integers below 2^51."""


def kernel_metrics(database: Database, device_event: pa.Table) -> dict[str, pa.Table]:
    """Tables of what was measured of the kernels among the device events."""
    measured = list(_measured(database, device_event))
    rows = sorted({row["device_row"] for row in measured})
    events = device_event.take(pa.array(rows, pa.int64())).to_pylist()
    return of_events(measured, dict(zip(rows, events, strict=True)).__getitem__)


def _measured(database: Database, device_event: pa.Table) -> Iterator[Row]:
    kernels = np.flatnonzero(pc.equal(device_event["category"], "kernel"))
    correlations = device_event["correlation"].take(kernels).to_pylist()
    place = dict(zip(correlations, kernels.tolist(), strict=True))
    for ending, (word, kind) in _TABLES.items():
        table = f"CUPTI_ACTIVITY_KIND_{ending}"
        columns = ("correlationId", "id", "instance", "value")
        for correlation, number, instance, value in database.rows(table, columns, value=kind):
            if correlation in place and number is not None and value is not None:
                name = cupti_names().get((word, number), f"{word} {number}")
                within = "" if instance is None else f" [{instance}]"
                yield {
                    "device_row": place[correlation],
                    "metric": f"{name}{within}",
                    "value": float(value) if isinstance(value, int) else _value(value),
                }


def _value(blob: bytes) -> float | None:
    """The value in `CUpti_MetricValue`, a union of a double and integers."""
    if len(blob) < 8:
        return None
    (real,) = struct.unpack_from("<d", blob)
    (integer,) = struct.unpack_from("<q", blob)
    if integer == 0 or (math.isfinite(real) and abs(real) >= _MIN_REAL):
        return float(real)
    return float(integer)


@cache
def cupti_names() -> dict[tuple[str, int], str]:
    """The names by kind (`metric`, `event`, `runtime`, `driver`) and number, from `cupti_names.txt`."""
    text = resources.files("stepscope.bundled.nvprof").joinpath("cupti_names.txt").read_text("utf-8")
    names: dict[tuple[str, int], str] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            word, first, *listed = line.split()
            names |= {(word, number): name for number, name in enumerate(listed, int(first))}
    return names
