"""Draws the answer to `roofline`: achieved operations a second over operations a byte, log-log.

Where the answer has what counters counted, a row has a hollow circle for each memory, at the operations over its bytes.
SVG is written by hand and needs nothing; PNG needs matplotlib (`pip install matplotlib`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.floor.complete_file import complete_output
from stepscope.floor.errors import UsageError
from stepscope.floor.quoting import one_line
from stepscope.floor.units import bandwidth_text, flops_text, ratio_text, time_text
from stepscope.report.figures import check_name, new_figure

if TYPE_CHECKING:
    from stepscope.answers.table import Table

_WIDTH, _HEIGHT = 900, 560
_LEFT, _RIGHT, _TOP, _BOTTOM = 92, 24, 46, 64
_COLOURS = ("#1f6f8b", "#c8553d", "#5b8c3a", "#8a5a9e", "#b8860b", "#44546a", "#a23b72", "#2a7f62")
_MOST_POINTS = 400
_LEAST_SHARE = 0.0005
"""Rows with less of the device time are left out: they would stretch the axes and hide the rest."""

ERRORS = {
    "nothing-to-draw": (
        "No row of the roofline has operations, bytes and device time. The column `note` says "
        "why; usually the recording was made without `record_shapes=True`. Of `rank-map`: no step has the "
        "measure that was asked for."
    ),
}


@dataclass(frozen=True, slots=True)
class Point:
    """A row of the answer that has operations and bytes; `measured` is the memory whose bytes were counted, empty
    where they are the formula's."""

    name: str
    detail: str
    intensity: float
    rate: float
    share: float
    dtype: str
    measured: str = ""


@dataclass(frozen=True, slots=True)
class Ceiling:
    """A device's limits for an element type: operations and bytes a second."""

    dtype: str
    peak: float
    bandwidth: float


@dataclass(frozen=True, slots=True)
class Picture:
    """What is drawn: points, the longest first, and the ceilings above them."""

    title: str
    points: tuple[Point, ...]
    ceilings: tuple[Ceiling, ...]


def picture_of(table: Table) -> Picture:
    """What there is to draw of an answer to `roofline`.

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
        ratio = row["attainable_ratio"]
        told = [
            time_text(row["device_ns"]),
            flops_text(row["flop_per_s"], per_second=True),
            f"{ratio_text(ratio)} of the limit" if ratio is not None else row["note"] or "",
        ]
        points.append(
            Point(
                one_line(" ".join(filter(None, (row["name"], row.get("input_dims"))))),
                ", ".join(filter(None, told)),
                row["intensity"],
                row["flop_per_s"],
                row["share_ratio"] or 0.0,
                dtype,
            )
        )
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
    large = [point for point in points if point.share >= _LEAST_SHARE] or points
    return Picture(
        f"Roofline of {', '.join(devices)}", tuple(large[:_MOST_POINTS]), tuple(ceilings)
    )


_BOUNDS = ("compute", "memory")
_MEMORIES = {"counted_dram_bytes": "DRAM", "counted_l2_bytes": "L2", "counted_l1_bytes": "L1"}
_ALL = 0.99
"""Part of a row's time that has to be measured, so that its formula's operations go with counted bytes."""


def _counted(row: Mapping[str, Any]) -> Iterator[Point]:
    """The points of a row at the bytes that counters counted of each memory."""
    part = row.get("measured_ratio") or 0.0
    flops = row.get("counted_flops") or (row["flops"] if part >= _ALL else None)
    for column, memory in _MEMORIES.items():
        moved = row.get(column)
        if flops and moved and row["device_ns"]:
            rate = flops / (row["device_ns"] * part) * 1e9
            yield Point(
                one_line(" ".join(filter(None, (row["name"], row.get("input_dims"))))),
                f"{time_text(row['device_ns'])}, {flops_text(rate, per_second=True)}, {memory} as counters have it",
                flops / moved,
                rate,
                (row["share_ratio"] or 0.0) * part,
                row["dtype"] or "several types",
                memory,
            )


def write_plot(table: Table, path: Path) -> None:
    """Draws an answer to `roofline` into a file whose name ends in `.svg` or `.png`.

    Raises:
        StepScopeError: the file cannot be written, or matplotlib is missing for a PNG.
        UsageError: the name ends in neither, or there is nothing to draw.
    """
    check_name(path)
    picture = picture_of(table)
    with complete_output(path) as unfinished:
        if path.suffix.lower() == ".svg":
            unfinished.write_text(svg_text(picture), encoding="utf-8")
        else:
            roofline_figure(table).savefig(unfinished, format="png", dpi=150)


@dataclass(frozen=True, slots=True)
class _Frame:
    """Ranges of both axes, as powers of ten."""

    x: tuple[int, int]
    y: tuple[int, int]

    def place(self, intensity: float, rate: float) -> tuple[float, float]:
        """Where a point lies in the picture."""
        across = (math.log10(intensity) - self.x[0]) / (self.x[1] - self.x[0])
        up = (math.log10(rate) - self.y[0]) / (self.y[1] - self.y[0])
        return (
            _LEFT + across * (_WIDTH - _LEFT - _RIGHT),
            _HEIGHT - _BOTTOM - up * (_HEIGHT - _TOP - _BOTTOM),
        )


def _frame(picture: Picture) -> _Frame:
    ridges = [c.peak / c.bandwidth for c in picture.ceilings]
    across = [p.intensity for p in picture.points] + ridges
    up = [p.rate for p in picture.points] + [c.peak for c in picture.ceilings]

    def powers(values: list[float]) -> tuple[int, int]:
        low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values) * 1.5))
        return low, max(high, low + 1)

    return _Frame(powers(across), powers(up))


def svg_text(picture: Picture) -> str:
    """The picture as an SVG document; every text from the recording is escaped."""
    return "\n".join(_svg(picture, _frame(picture))) + "\n"


def _svg(picture: Picture, frame: _Frame) -> Iterator[str]:
    colours = _colours(picture)
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" font-family="sans-serif" font-size="12" role="img" '
        f'aria-label="{escape(picture.title)}">'
    )
    yield f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>'
    yield f'<text x="{_LEFT}" y="24" font-size="15" fill="#222">{escape(picture.title)}</text>'
    yield from _axes(frame)
    for ceiling in picture.ceilings:
        yield from _ceiling(ceiling, frame, colours[ceiling.dtype])
    for point in reversed(picture.points):  # the longest on top
        x, y = frame.place(point.intensity, point.rate)
        radius = 3 + 14 * math.sqrt(min(1.0, point.share))
        colour = colours[point.dtype]
        drawn = (
            f'fill="none" stroke="{colour}" stroke-width="1.5"'
            if point.measured
            else f'fill="{colour}" fill-opacity="0.6" stroke="#fff"'
        )
        yield (
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" {drawn}><title>{escape(point.name)}\n'
            f"{escape(point.detail)}, {ratio_text(point.share)} of device work</title></circle>"
        )
        if point.measured:
            yield (
                f'<text x="{x:.1f}" y="{y - radius - 3:.1f}" text-anchor="middle" font-size="10" '
                f'fill="{colour}">{point.measured}</text>'
            )
    for number, (dtype, colour) in enumerate(colours.items()):
        y = _HEIGHT - _BOTTOM - 14 - 17 * number
        x = _WIDTH - _RIGHT - 110
        yield f'<circle cx="{x}" cy="{y}" r="5" fill="{colour}"/>'
        yield f'<text x="{x + 11}" y="{y + 4}" fill="#333">{escape(dtype)}</text>'
    yield "</svg>"


def _axes(frame: _Frame) -> Iterator[str]:
    left, bottom = frame.place(10.0 ** frame.x[0], 10.0 ** frame.y[0])
    right, top = frame.place(10.0 ** frame.x[1], 10.0 ** frame.y[1])
    for power in range(frame.x[0], frame.x[1] + 1):
        x, _ = frame.place(10.0**power, 10.0 ** frame.y[0])
        yield f'<path d="M{x:.1f} {bottom:.1f}V{top:.1f}" stroke="#e3e3e3"/>'
        text = f"{10.0**power:g}"
        yield f'<text x="{x:.1f}" y="{bottom + 18:.1f}" text-anchor="middle" fill="#555">{text}</text>'
    for power in range(frame.y[0], frame.y[1] + 1):
        _, y = frame.place(10.0 ** frame.x[0], 10.0**power)
        text = _power_text(power)
        yield f'<path d="M{left:.1f} {y:.1f}H{right:.1f}" stroke="#e3e3e3"/>'
        yield f'<text x="{left - 8:.1f}" y="{y + 4:.1f}" text-anchor="end" fill="#555">{text}</text>'
    middle = (left + right) / 2
    yield (
        f'<text x="{middle:.1f}" y="{_HEIGHT - 18}" text-anchor="middle" fill="#333">'
        "operations per byte; a larger circle is more device time</text>"
    )


def _power_text(power: int) -> str:
    prefixes = {0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}
    step = max(0, min(18, power // 3 * 3))
    return f"{10.0 ** (power - step):g} {prefixes[step]}FLOP/s"


def _ceiling(ceiling: Ceiling, frame: _Frame, colour: str) -> Iterator[str]:
    low, high = 10.0 ** frame.x[0], 10.0 ** frame.x[1]
    ridge = ceiling.peak / ceiling.bandwidth
    floor = 10.0 ** frame.y[0]
    begin = min(max(low, floor / ceiling.bandwidth), ridge)
    corners = [(begin, begin * ceiling.bandwidth), (ridge, ceiling.peak), (high, ceiling.peak)]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in (frame.place(*corner) for corner in corners))
    yield f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
    x, y = frame.place(high, ceiling.peak)
    label = (
        f"{escape(ceiling.dtype)}: {flops_text(ceiling.peak, per_second=True)}, "
        f"{bandwidth_text(ceiling.bandwidth)}"
    )
    yield (
        f'<text x="{x - 4:.1f}" y="{y - 5:.1f}" text-anchor="end" font-size="11" '
        f'fill="{colour}">{label}</text>'
    )


def _colours(picture: Picture) -> dict[str, str]:
    names = dict.fromkeys([c.dtype for c in picture.ceilings] + [p.dtype for p in picture.points])
    return {name: _COLOURS[number % len(_COLOURS)] for number, name in enumerate(names)}


def roofline_figure(table: Table) -> Any:
    """An answer to `roofline` as a matplotlib figure.

    Raises:
        StepScopeError: matplotlib is missing.
        UsageError: there is nothing to draw.
    """
    picture = picture_of(table)
    elsewhere = ", or give a name that ends in .svg"
    figure = new_figure(_WIDTH / 100, _HEIGHT / 100, otherwise=elsewhere)
    axes = figure.add_subplot()
    frame, colours = _frame(picture), _colours(picture)
    axes.set(
        xscale="log",
        yscale="log",
        xlim=(10.0 ** frame.x[0], 10.0 ** frame.x[1]),
        ylim=(10.0 ** frame.y[0], 10.0 ** frame.y[1]),
        xlabel="operations per byte",
        ylabel="FLOP/s",
        title=picture.title,
    )
    axes.grid(visible=True, color="#e3e3e3")
    for dtype, colour in colours.items():
        for measured in (False, True):
            own = [p for p in picture.points if p.dtype == dtype and bool(p.measured) is measured]
            axes.scatter(
                [point.intensity for point in own],
                [point.rate for point in own],
                s=[12 + 600 * point.share for point in own],
                facecolors="none" if measured else colour,
                edgecolors=colour,
                alpha=1 if measured else 0.6,
                label=None if measured else dtype,
            )
            for point in own if measured else ():
                axes.annotate(point.measured, (point.intensity, point.rate), fontsize=7)
    for ceiling in picture.ceilings:
        ridge = ceiling.peak / ceiling.bandwidth
        low, high = 10.0 ** frame.x[0], 10.0 ** frame.x[1]
        axes.plot(
            [min(low, ridge), ridge, high],
            [min(low, ridge) * ceiling.bandwidth, ceiling.peak, ceiling.peak],
            color=colours[ceiling.dtype],
        )
    axes.legend(loc="lower right")
    return figure
