"""Figures of matplotlib: made without a screen, safe for any text, written whole or not at all."""

from __future__ import annotations

import io
import os
import warnings
from functools import cache
from pathlib import Path
from typing import Any

from stepscope.floor.complete_file import complete_output
from stepscope.floor.errors import StepScopeError, UsageError
from stepscope.floor.quoting import printable

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
    """An empty figure of a size in inches, which a notebook shows; no window is opened and no global
    state is touched.

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

    class Shown(Figure):
        """A figure that a notebook shows: matplotlib has those of pyplot shown alone."""

        def _repr_png_(self) -> bytes:
            written = io.BytesIO()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # scripts that the font lacks
                self.savefig(written, format="png", dpi=100)
            return written.getvalue()

    return Shown


def finish_axes(axes: Any, grid: str, *, hidden: tuple[str, ...], title: str | None) -> None:
    """Gives axes a light grid along `grid` behind what is drawn, takes spines away, and sets the title."""
    axes.grid(axis=grid, linewidth=0.4, color="#dddddd")
    axes.set_axisbelow(True)
    for side in hidden:
        axes.spines[side].set_visible(False)
    if title:
        axes.set_title(title, fontsize=9, loc="left")


def check_name(path: str | os.PathLike[str]) -> None:
    """Refuses a name that ends in neither .png nor .svg, before anything is computed.

    Raises:
        UsageError: it does.
    """
    target = Path(path)
    if target.suffix.lower() not in SUFFIXES:
        raise UsageError(
            f"{target}: a chart is a .png or .svg file",
            hint=f"for example {target.with_suffix('.svg').name}",
            slug="bad-chart-name",
        )


def save_figure(figure: Any, path: str | os.PathLike[str]) -> Path:
    """Writes a figure as PNG or SVG, by the name's ending; returns where it is.

    Raises:
        StepScopeError: the file cannot be written. Nothing is left behind then.
        UsageError: the name ends in neither .png nor .svg.
    """
    target = Path(path)
    check_name(target)
    suffix = target.suffix.lower()
    import matplotlib

    # Text stays text: smaller, searchable, and the same file for the same figure.
    settings = {"svg.fonttype": "none", "svg.hashsalt": "stepscope"}
    kept = {"metadata": {"Date": None}} if suffix == ".svg" else {}
    with complete_output(target) as unfinished, warnings.catch_warnings(), matplotlib.rc_context(settings):
        # Labels may be in scripts that the font lacks: they get boxes, and need no warning each.
        warnings.simplefilter("ignore")
        figure.savefig(unfinished, format=suffix[1:], dpi=100, **kept)
    return target


def plain_text(text: str, most: int = 56) -> str:
    """A label as matplotlib can draw it in one line: no line breaks, no formulas, not too long.

    >>> plain_text("a\\nb$c", 10)
    'a b\\\\$c'
    """
    clean = printable(text, " ")
    if len(clean) > most:
        ahead = most // 3
        clean = f"{clean[:ahead]}…{clean[-(most - ahead - 1) :]}"
    return clean.replace("$", r"\$")
