"""Draws the answer to `roofline`: achieved operations per second over operations per byte, log-log.

With hardware counters, a row also has a hollow circle for each memory, at the operations per counted byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from stepscope.base.errors import UsageError
from stepscope.base.quoting import one_line
from stepscope.base.units import bandwidth_text, flops_text
from stepscope.report.figures import COLOURS, finish_axes, new_figure, plain_text
from stepscope.report.renderers import Plot, Renderer

if TYPE_CHECKING:
    from stepscope.query.table import Table

_MAX_POINTS = 400
_MAX_NAMES = 6
_MIN_SHARE = 0.0005
"""Rows with less of the device time are left out, because they would stretch the axes."""

ERRORS = {
    "nothing-to-draw": (
        "No row of the roofline has operations, bytes and device time. The column `note` says why; usually "
        "the recording was made without `record_shapes=True`. For `rank-overview`: no measure is chosen, or no step has the requested "
        "measure."
    )
}


class Point(NamedTuple):
    """A row with operations and bytes; `measured` is the memory whose bytes were counted, empty if they come from the
    formula."""

    name: str
    intensity: float
    rate: float
    share: float
    dtype: str
    measured: str = ""


class Ceiling(NamedTuple):
    """A device's limits for an element type: operations and bytes per second."""

    dtype: str
    peak: float
    bandwidth: float


class Picture(NamedTuple):
    """What to draw: points, the longest first, and the ceilings above them."""

    title: str
    points: tuple[Point, ...]
    ceilings: tuple[Ceiling, ...]


def picture_of(table: Table) -> Picture:
    """Collects what an answer to `roofline` shows.

    Raises:
        UsageError: no row has operations, bytes and device time.
    """
    points: list[Point] = []
    ceilings: dict[Ceiling, None] = {}
    devices: dict[str, None] = {}
    for row in table.rows():
        points += _counted(row)
        if not row["flop_per_s"] or not row["intensity"]:
            continue
        dtype = row["dtype"] or "several types"
        share = row["share_ratio"] or 0.0
        points.append(Point(row["name"], row["intensity"], row["flop_per_s"], share, dtype))
        if row["peak_flop_per_s"] and row["peak_bytes_per_s"] and row["bound"] in _BOUNDS:
            ceiling = Ceiling(dtype, row["peak_flop_per_s"], row["peak_bytes_per_s"])
            ceilings[ceiling] = None
        devices[one_line(row["device_name"] or "unknown device")] = None
    if not points:
        raise UsageError(
            "there is nothing to draw: no row has operations and bytes",
            hint=table.note or "record with record_shapes=True, and see the column `note`",
            slug="nothing-to-draw",
        )
    large = [point for point in points if point.share >= _MIN_SHARE] or points
    return Picture(f"Roofline of {', '.join(devices)}", tuple(large[:_MAX_POINTS]), tuple(ceilings))


_BOUNDS = ("compute", "memory")
_MEMORIES = {"counted_dram_bytes": "DRAM", "counted_l2_bytes": "L2", "counted_l1_bytes": "L1"}
_ALL = 0.99
"""Part of a row's time that must be measured for its formula's operations to be compared with counted bytes."""


def _counted(row: Mapping[str, Any]) -> Iterator[Point]:
    """The points of a row at the counted bytes of each memory."""
    part = row.get("measured_ratio") or 0.0
    flops = row.get("counted_flops") or (row["flops"] if part >= _ALL else None)
    for column, memory in _MEMORIES.items():
        moved = row.get(column)
        if flops and moved and row["device_ns"]:
            rate = flops / (row["device_ns"] * part) * 1e9
            share = (row["share_ratio"] or 0.0) * part
            dtype = row["dtype"] or "several types"
            yield Point(row["name"], flops / moved, rate, share, dtype, memory)


def roofline_figure(table: Table) -> Any:
    """Draws an answer to `roofline` with matplotlib; a larger circle means more device time.

    Raises:
        StepScopeError: matplotlib is missing.
        UsageError: there is nothing to draw.
    """
    picture = picture_of(table)
    figure = new_figure(9.0, 5.6)
    axes = figure.add_subplot()
    axes.set(xscale="log", yscale="log", xlabel="operations per byte", ylabel="FLOP/s")
    dtypes = dict.fromkeys([*(item.dtype for item in picture.ceilings), *(item.dtype for item in picture.points)])
    colours = {name: COLOURS[at % len(COLOURS)] for at, name in enumerate(dtypes)}
    for dtype, colour in colours.items():
        for measured in (False, True):
            points = [p for p in picture.points if p.dtype == dtype and bool(p.measured) is measured]
            axes.scatter(
                [point.intensity for point in points],
                [point.rate for point in points],
                s=[12 + 600 * point.share for point in points],
                facecolors="none" if measured else colour,
                edgecolors=colour,
                alpha=1 if measured else 0.6,
                label=None if measured else plain_text(dtype),
            )
            for point in points if measured else ():
                axes.annotate(point.measured, (point.intensity, point.rate), fontsize=7)
    named = {point.name: point for point in reversed(picture.points) if not point.measured}
    for name, point in sorted(named.items(), key=lambda item: -item[1].share)[:_MAX_NAMES]:
        axes.annotate(
            plain_text(name, 32), (point.intensity, point.rate), (8, -2),
            textcoords="offset points", fontsize=6.5,
        )  # fmt: skip
    ridges = [item.peak / item.bandwidth for item in picture.ceilings]
    across = [*(point.intensity for point in picture.points), *ridges]
    low, high = min(across) / 2, max(across) * 4
    for (dtype, peak, bandwidth), ridge in zip(picture.ceilings, ridges, strict=True):
        ends = [low * bandwidth, peak, peak]
        axes.plot([low, ridge, high], ends, color=colours[dtype], linewidth=1.2)
        label = f"{dtype}: {flops_text(peak, per_second=True)}, {bandwidth_text(bandwidth)}"
        axes.annotate(plain_text(label), (high, peak), color=colours[dtype], ha="right", va="bottom", fontsize=7)
    finish_axes(axes, "both", hidden=("top", "right"), title=plain_text(picture.title, 90))
    axes.legend(loc="lower right", fontsize=7)
    return figure


RENDERER = Renderer(plot=Plot(figure=roofline_figure))
