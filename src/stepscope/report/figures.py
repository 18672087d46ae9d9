"""Makes matplotlib figures without a screen, safe for any text, and writes them completely or not at all."""

from __future__ import annotations

import io
import os
import warnings
from functools import cache
from pathlib import Path
from typing import Any

from stepscope.base.complete_file import complete_output
from stepscope.base.errors import StepScopeError, UsageError
from stepscope.base.quoting import printable

SUFFIXES = (".png", ".svg")

# Colour-blind safe (Tol's "muted" with its grey last), and dark enough for thin bars on white.
COLOURS = (
    "#332288", "#88ccee", "#44aa99", "#117733", "#999933", "#ddcc77", "#cc6677", "#882255",
    "#aa4499", "#6699cc", "#661100", "#0077bb",
)  # fmt: skip
GREY = "#bbbbbb"

ERRORS = {
    "bad-chart-name": ("Charts are written as PNG or SVG, chosen by the name's ending: `-o timeline.svg`."),
    "no-matplotlib": "Charts are drawn by matplotlib: `pip install matplotlib`.",
}


def new_figure(width: float, height: float) -> Any:
    """Makes an empty figure of a size in inches that a notebook shows; opens no window and changes no global state.

    Raises:
        StepScopeError: matplotlib is not installed.
    """
    try:
        return _figure_class()(figsize=(width, height), layout="constrained")
    except ImportError:
        raise StepScopeError(
            "charts are drawn by matplotlib, which is not installed",
            hint="pip install matplotlib",
            slug="no-matplotlib",
        ) from None


@cache
def _figure_class() -> Any:
    from matplotlib.figure import Figure

    class NotebookFigure(Figure):
        """A figure that a notebook shows: matplotlib only arranges that for figures of pyplot."""

        def _repr_png_(self) -> bytes:
            written = io.BytesIO()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # scripts that the font lacks
                self.savefig(written, format="png", dpi=100)
            return written.getvalue()

    return NotebookFigure


def finish_axes(axes: Any, grid: str, *, hidden: tuple[str, ...], title: str | None) -> None:
    """Adds a light grid along `grid` behind the drawing, removes spines and sets the title."""
    axes.grid(axis=grid, linewidth=0.4, color="#dddddd")
    axes.set_axisbelow(True)
    for side in hidden:
        axes.spines[side].set_visible(False)
    if title:
        axes.set_title(title, fontsize=9, loc="left")


def check_name(path: str | os.PathLike[str]) -> None:
    """Refuses names that end in neither .png nor .svg, before anything is computed.

    Raises:
        UsageError: the ending is another one.
    """
    target = Path(path)
    if target.suffix.lower() not in SUFFIXES:
        raise UsageError(
            f"{target}: a chart is a .png or .svg file",
            hint=f"for example {target.with_suffix('.svg').name}",
            slug="bad-chart-name",
        )


def save_figure(figure: Any, path: str | os.PathLike[str]) -> Path:
    """Writes a figure as PNG or SVG, by the name's ending; returns its path.

    Raises:
        StepScopeError: the file cannot be written. Then nothing is left behind.
        UsageError: the name ends in neither .png nor .svg.
    """
    target = Path(path)
    check_name(target)
    suffix = target.suffix.lower()
    import matplotlib

    # SVG keeps text as text: smaller, searchable, and the same file for the same figure.
    settings = {"svg.fonttype": "none", "svg.hashsalt": "stepscope"}
    options = {"metadata": {"Date": None}} if suffix == ".svg" else {}
    with complete_output(target) as unfinished, warnings.catch_warnings(), matplotlib.rc_context(settings):
        # Labels may be in scripts that the font lacks: they are drawn as boxes, without a warning for each.
        warnings.simplefilter("ignore")
        figure.savefig(unfinished, format=suffix[1:], dpi=100, **options)
    return target


def plain_text(text: str, max_length: int = 56) -> str:
    """Prepares a label that matplotlib can draw in one line: no line breaks, no formulas, limited length.

    >>> plain_text("a\\nb$c", 10)
    'a b\\\\$c'
    """
    clean = printable(text, " ")
    if len(clean) > max_length:
        ahead = max_length // 3
        clean = f"{clean[:ahead]}…{clean[-(max_length - ahead - 1) :]}"
    return clean.replace("$", r"\$")
