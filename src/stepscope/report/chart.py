"""Draws an answer for notebooks: its question's picture, or else bars of its shares."""

from __future__ import annotations

from typing import Any

from stepscope.base.errors import StepScopeError
from stepscope.base.quoting import one_line
from stepscope.base.units import ratio_text
from stepscope.query.kernel_names import short_names
from stepscope.query.table import Table
from stepscope.report.figures import COLOURS, finish_axes, new_figure, plain_text
from stepscope.report.renderers import renderer_of

MAX_BARS = 20

ERRORS = {
    "no-chart": (
        "`stepscope.chart` draws answers that have their own picture (`roofline`, `rank_overview` with a measure, `scaling`) or a "
        "column of shares; this one has neither, or no value in it."
    )
}


def chart(table: Table) -> Any:
    """Draws an answer as a matplotlib figure, which a notebook shows and `savefig` writes.

    Args:
        table: an answer with all its columns: `trace.roofline()` is drawn as a roofline, `trace.rank_overview(measure="step")` as a map,
            `stepscope.scaling(runs)` as curves, any other by its first column of shares, with the 20 largest rows.

    Raises:
        StepScopeError: matplotlib is not installed, or there is nothing to draw.

    Example:
        stepscope.chart(trace.kernels())
    """
    plot = renderer_of(table.question.drawing).plot
    return _bars(table) if plot is None else plot.figure(table)


def _bars(table: Table) -> Any:
    columns = table.columns
    share = next((c.name for c in columns if c.unit == "ratio" and c.name.endswith("share_ratio")), "")
    named = next((c for c in columns if c.type == "text"), None)
    rows = [] if not share or named is None else [r for r in table.rows() if r[share] is not None]
    if not rows or named is None:
        raise StepScopeError(
            f"there is no chart of this answer to {table.question.name}",
            hint=table.note or "it has no share to draw; trace.kernels() and trace.operators() have",
            slug="no-chart",
        )
    rows = sorted(rows, key=lambda row: -row[share])[:MAX_BARS]
    names = [one_line(row[named.name] or "") for row in rows]
    if named.kernels:
        names = short_names(names)
    figure = new_figure(8.0, 0.8 + 0.26 * len(rows))
    axes = figure.subplots()
    places = range(len(rows))
    bars = axes.barh(places, [100 * row[share] for row in rows], color=COLOURS[2])
    axes.bar_label(bars, [ratio_text(row[share]) for row in rows], padding=3, fontsize=7)
    axes.set_yticks(places, [plain_text(name) for name in names], fontsize=7)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set_xlabel(f"{share.removesuffix('_ratio').replace('_', ' ')} (%)", fontsize=8)
    finish_axes(axes, "x", hidden=("top", "right"), title=plain_text(table.question.asks, 90))
    return figure
