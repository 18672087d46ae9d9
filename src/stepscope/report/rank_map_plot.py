"""A map of ranks and steps as a picture."""

from __future__ import annotations

import math
from typing import Any

from stepscope.base.errors import StepScopeError
from stepscope.query.table import Table
from stepscope.report.figures import new_figure
from stepscope.report.rank_map_text import scale_of

_MOST_LABELS = 24


def map_figure(table: Table) -> Any:
    """Draws an answer to `rank-overview` with a measure: ranks downwards, steps to the right, the darker the higher.

    Raises:
        StepScopeError: there is nothing to draw, or matplotlib is not installed.
    """
    if table.asked.get("measure") is None:
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
    every = -(-len(ranks) // _MOST_LABELS)
    axes.set_yticks(range(0, len(ranks), every), [str(rank) for rank in ranks[::every]], fontsize=7)
    every = -(-len(places) // _MOST_LABELS)
    axes.set_xticks(range(0, len(places), every), [str(step) for _, step in places[::every]], fontsize=7)
    axes.set_xlabel("step", fontsize=8)
    axes.set_ylabel("rank", fontsize=8)
    measure = str(table.asked.get("measure", "step")).replace("-", " ")
    bar = figure.colorbar(image, ax=axes)
    bar.set_label(f"{measure} (ms)", fontsize=8)
    bar.ax.tick_params(labelsize=7)
    return figure
