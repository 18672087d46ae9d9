"""A map of ranks and steps, in a terminal and as a picture: a line per rank, a column per step, the darker the higher."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from stepscope.base.chosen_numbers import numbers_text
from stepscope.base.errors import StepScopeError
from stepscope.base.statistics import quantile
from stepscope.base.units import time_text
from stepscope.query.table import Table
from stepscope.query.text_grid import MARK, Line, note_lines, wrapped
from stepscope.report.figures import new_figure
from stepscope.report.renderers import Layout, Plot, Renderer

SHADES = "·░▒▓█"
MAX_LINES = 32
"""Lines of ranks that fit on a screen."""
MIN_RANGE = 0.10
"""The scale covers at least this part of the median."""
_WIDEST_CELL = 2
_MAX_PLOT_LABELS = 24


@dataclass(frozen=True, slots=True)
class Scale:
    """The lowest and highest value of the shades (ns)."""

    low: float
    high: float
    median: float

    def shade(self, value: float) -> str:
        """The shade of a value; values beyond the ends get the shades of the ends."""
        place = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.0
        return SHADES[min(len(SHADES) - 1, max(0, int(place * len(SHADES))))]


def scale_of(rows: Sequence[dict[str, Any]]) -> Scale:
    """The scale of a map: from its lowest to its highest counted value, at least 10 % of the
    median."""
    values = sorted(row["value_ns"] for row in rows if row["counted"])
    values = values or sorted(row["value_ns"] for row in rows)
    middle = quantile(values, 0.5)
    low, high = float(values[0]), float(values[-1])
    missing = max(0.0, MIN_RANGE * middle - (high - low))
    return Scale(max(0.0, low - missing / 2), high + missing / 2, middle)


def map_lines(table: Table, layout: Layout) -> list[Line]:
    """An answer to `rank-overview` as lines: a map of a measure, else a grid."""
    width = layout.width
    if "value_ns" not in table.arrow.column_names:
        return table.lines(width=width, limit=layout.max_rows)
    title = f"{MARK if table.unreliable else ''} {table.question.asks}".strip()
    lines = [Line(text, "title") for text in wrapped(title, width)]
    rows = [row for row in table.rows() if row["value_ns"] is not None]
    if rows:
        lines += _map(rows, width, str(table.arguments.get("measure", "step")))
    return [*lines, *note_lines(table.note, width), *table.warnings(width)]


def _map(rows: list[dict[str, Any]], width: int, measure: str) -> list[Line]:
    scale = scale_of(rows)
    cells = {(row["rank"], row["span"], row["step"]): row["value_ns"] for row in rows}
    ranks = sorted({rank for rank, _, _ in cells})
    places = sorted({(span, step) for _, span, step in cells})
    fold_ranks = -(-len(ranks) // MAX_LINES)
    labels = [ranks[at : at + fold_ranks] for at in range(0, len(ranks), fold_ranks)]
    names = ["rank", *(numbers_text(group) for group in labels)]
    margin = max(map(len, names)) + 2
    room = max(1, width - margin)
    fold_steps = -(-len(places) // room)
    columns = [places[at : at + fold_steps] for at in range(0, len(places), fold_steps)]
    cell = min(_WIDEST_CELL, max(1, room // len(columns)))

    def drawn(group: Sequence[int], of: Sequence[tuple[int, int]]) -> str:
        keys = [(rank, *place) for rank in group for place in of]
        values = [cells[key] for key in keys if key in cells]
        if not values:
            return " " * cell
        return scale.shade(max(values, key=lambda value: abs(value - scale.median))) * cell

    lines = [Line(f"{'rank':>{margin - 2}}  {_steps(columns, cell)}".rstrip(), "head")]
    for name, group in zip(names[1:], labels, strict=True):
        lines.append(Line(f"{name:>{margin - 2}}  {''.join(drawn(group, of) for of in columns)}".rstrip(), "map"))
    edges = [scale.low + (scale.high - scale.low) * n / len(SHADES) for n in range(len(SHADES) + 1)]
    legend = "  ".join(f"{shade} {time_text(low)}" for shade, (low, _) in zip(SHADES, pairwise(edges), strict=True))
    note = f"{measure}: {legend} and more; {_range_text(rows, scale)}"
    return [*lines, *note_lines(note, width), *note_lines(_folded(fold_ranks, fold_steps), width)]


def _range_text(rows: list[dict[str, Any]], scale: Scale) -> str:
    """The range of the values, beside the scale, which is wider where they hardly differ."""
    values = [row["value_ns"] for row in rows]
    if len(values) == 1:
        return f"one value, {time_text(values[0])}"
    return f"lowest {time_text(min(values))}, median {time_text(scale.median)}, highest {time_text(max(values))}"


def _steps(columns: list[list[tuple[int, int]]], cell: int) -> str:
    """The step numbers above their columns, as many as fit."""
    text = ""
    for place, ((_, step), *_) in enumerate(columns):
        number = str(step)
        at = place * cell
        if not text or at >= len(text) + 2:
            text = text.ljust(at) + number
    return text


def _folded(ranks: int, steps: int) -> str:
    parts = [
        f"{number} {what} to a {where}"
        for number, what, where in ((ranks, "ranks", "line"), (steps, "steps", "column"))
        if number > 1
    ]
    if not parts:
        return ""
    return f"Folded, {' and '.join(parts)}: a cell is the value farthest from the median."


def map_figure(table: Table) -> Any:
    """Draws an answer to `rank-overview` with a measure: ranks downwards, steps to the right, the darker the higher.

    Raises:
        StepScopeError: there is nothing to draw, or matplotlib is not installed.
    """
    if table.arguments.get("measure") is None:
        raise StepScopeError(
            "there is nothing to draw", hint="choose what to draw, as in --measure step", slug="nothing-to-draw"
        )
    rows = [row for row in table.rows() if row["value_ns"] is not None]
    if not rows:
        raise StepScopeError(
            "there is nothing to draw", hint=table.note or "the answer is empty", slug="nothing-to-draw"
        )
    scale = scale_of(rows)
    ranks = sorted({row["rank"] for row in rows})
    places = sorted({(row["span"], row["step"]) for row in rows})
    line, column = ({key: n for n, key in enumerate(keys)} for keys in (ranks, places))
    cells = [[math.nan] * len(places) for _ in ranks]
    for row in rows:
        cells[line[row["rank"]]][column[row["span"], row["step"]]] = row["value_ns"] / 1e6
    figure = new_figure(min(16.0, 3.0 + 0.22 * len(places)), min(12.0, 1.6 + 0.18 * len(ranks)))
    axes = figure.subplots()
    image = axes.imshow(
        cells, aspect="auto", interpolation="nearest", cmap="cividis_r",
        vmin=scale.low / 1e6, vmax=scale.high / 1e6,
    )  # fmt: skip
    interval = -(-len(ranks) // _MAX_PLOT_LABELS)
    axes.set_yticks(range(0, len(ranks), interval), [str(rank) for rank in ranks[::interval]], fontsize=7)
    interval = -(-len(places) // _MAX_PLOT_LABELS)
    axes.set_xticks(range(0, len(places), interval), [str(step) for _, step in places[::interval]], fontsize=7)
    axes.set_xlabel("step", fontsize=8)
    axes.set_ylabel("rank", fontsize=8)
    measure = str(table.arguments.get("measure", "step")).replace("-", " ")
    bar = figure.colorbar(image, ax=axes)
    bar.set_label(f"{measure} (ms)", fontsize=8)
    bar.ax.tick_params(labelsize=7)
    return figure


RENDERER = Renderer(lines=map_lines, chart="map", plot=Plot(figure=map_figure), is_grid_if_cut=True, is_per_job=True)
