"""Counters of kernels as rows of `measured_kernel` and `kernel_metric`, for all tools."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from stepscope.formats.bounded import INT32
from stepscope.formats.counters.kinds import kind_of
from stepscope.formats.counters.units import base_unit
from stepscope.formats.tables import READ, from_rows

Row = dict[str, Any]
_LARGEST = 1 << 62
NVPROF = "nvprof"


class _Words:
    def __init__(self) -> None:
        self.of: dict[str, int] = {}
        self.numbers = array("i")

    def add(self, text: str | None) -> None:
        self.numbers.append(-1 if text is None else self.of.setdefault(text, len(self.of)))

    def column(self) -> pa.Array:
        numbers = np.array(self.numbers, np.int32)
        return pa.DictionaryArray.from_arrays(pa.array(numbers, mask=numbers < 0), pa.array(list(self.of), pa.string()))


@dataclass(slots=True)
class Measured:
    """What was measured so far: in columns, because a report may have millions of values."""

    launches: list[Row] = field(default_factory=list)
    _of: array[int] = field(default_factory=lambda: array("i"))
    _metrics: _Words = field(default_factory=_Words)
    _units: _Words = field(default_factory=_Words)
    _values: array[float] = field(default_factory=lambda: array("d"))
    _extremes: dict[int, tuple[float, float]] = field(default_factory=dict)

    def launch(self, name: str, tool: str, **details: Any) -> int:
        """Adds a launch of a kernel with further columns of `measured_kernel`; returns its number."""
        self.launches.append({"name": name, "tool": tool, "launches": 1, **details, "measured": len(self.launches)})
        return len(self.launches) - 1

    def add(
        self,
        launch: int,
        metric: str,
        value: float | None,
        unit: str = "",
        *,
        extremes: tuple[float, float] | None = None,
    ) -> None:
        """Adds a value of a launch, in any unit; None if it was measured and has none."""
        base, factor = base_unit(unit)
        if extremes is not None:
            self._extremes[len(self._values)] = extremes[0] * factor, extremes[1] * factor
        self._of.append(launch)
        self._metrics.add(metric)
        self._units.add(base)
        self._values.append(float("nan") if value is None else value * factor)

    def tables(self) -> dict[str, pa.Table]:
        """The rows that readers return. The launch's shape and duration come from its metrics if nothing else
        states them."""
        rows = len(self._values)
        of = np.array(self._of, np.int32)
        values = np.array(self._values, np.float64)
        metric = self._metrics.column()
        self._complete(of, values)
        kinds = [kind_of(name) for name in self._metrics.of]
        distinct = sorted({kind for kind in kinds if kind is not None})
        place = {kind: number for number, kind in enumerate(distinct)}
        kind_numbers = np.array([-1 if kind is None else place[kind] for kind in kinds] or [-1], np.int32)[
            np.array(self._metrics.numbers, np.int64)
        ]
        names, tools = _Words(), _Words()
        for launch in self.launches:
            names.add(launch["name"])
            tools.add(launch["tool"])
        extremes = [np.full(rows, np.nan), np.full(rows, np.nan)]
        for row, pair in self._extremes.items():
            extremes[0][row], extremes[1][row] = pair
        device_rows = pa.array([launch.get("device_row") for launch in self.launches], pa.int64()).take(pa.array(of))
        columns = {
            "measured": pa.array(of),
            "device_row": device_rows,
            "kernel": names.column().take(pa.array(of)),
            "metric": metric,
            "kind": pa.DictionaryArray.from_arrays(
                pa.array(kind_numbers, mask=kind_numbers < 0), pa.array(distinct, pa.string())
            ),
            "value": _with_nulls(values),
            "min": _with_nulls(extremes[0]),
            "max": _with_nulls(extremes[1]),
            "unit": self._units.column(),
            "tool": tools.column().take(pa.array(of)),
        }
        return {
            "measured_kernel": from_rows("measured_kernel", self.launches),
            "kernel_metric": pa.table([columns[name] for name in READ["kernel_metric"].names],
                                      schema=READ["kernel_metric"]),
        }  # fmt: skip

    def _complete(self, of: np.ndarray[Any, Any], values: np.ndarray[Any, Any]) -> None:
        number = self._metrics.of
        codes = np.array(self._metrics.numbers, np.int32)

        def stated(metric: str) -> dict[int, int]:
            if metric not in number:
                return {}
            rows = np.flatnonzero(codes == number[metric])
            pairs = zip(of[rows].tolist(), values[rows].tolist(), strict=True)
            return {launch: round(value) for launch, value in pairs if 0 <= value < _LARGEST}

        for column, total, name in (
            ("grid", "blocks", "launch__grid"), ("block", "threads", "launch__block"),
        ):  # fmt: skip
            axes = [stated(f"{name}_dim_{axis}") for axis in "xyz"]
            size = stated(f"{name}_size")
            for launch, row in enumerate(self.launches):
                if column not in row and all(launch in axis for axis in axes):
                    row[column] = ",".join(str(axis[launch]) for axis in axes)
                if row.get(column):
                    row[total] = _product(row[column])
                elif launch in size:
                    row[total] = size[launch]
        for column, metric in (
            ("dur_ns", "gpu__time_duration.sum"), ("device", "launch__device_id"),
            ("stream", "launch__stream_id"),
        ):  # fmt: skip
            for launch, value in stated(metric).items():
                if column != "device" or value < INT32:
                    self.launches[launch].setdefault(column, value)


def _product(shape: str) -> int | None:
    total = 1
    for axis in shape.split(","):
        total *= int(axis)
    return total if total < _LARGEST else None


def _with_nulls(values: np.ndarray[Any, Any]) -> pa.Array:
    return pa.array(values, mask=~np.isfinite(values))


def of_events(measured: Iterable[Row], event_of: Callable[[int], Row]) -> dict[str, pa.Table]:
    """Tables of metrics that a recording has for its own device events.

    Args:
        measured: for each value the row of its event, `metric`, `value`, and, if known, `unit`.
        event_of: the device event of a row; grid, block, device, stream and duration are copied from it.
    """
    numbers: dict[int, int] = {}
    tables = Measured()
    for metric in measured:
        row = metric["device_row"]
        if row not in numbers:
            event = event_of(row)
            shape = {
                axes: ",".join(str(event[f"{axes}_{axis}"]) for axis in "xyz")
                for axes in ("grid", "block")
                if all(event.get(f"{axes}_{axis}") is not None for axis in "xyz")
            }
            details = {key: event.get(key) for key in ("device", "stream", "dur_ns")}
            numbers[row] = tables.launch(event["name"], NVPROF, device_row=row, **details, **shape)
        tables.add(numbers[row], metric["metric"], metric["value"], metric.get("unit") or "")
    return tables.tables()
