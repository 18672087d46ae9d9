"""The registry of drawings: what each has for a terminal, for Markdown, for the page and as a plot.

A question names its drawing. One that is not a grid has a module that declares one `RENDERER`; what that leaves out
looks like a grid.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from stepscope.query.text_grid import Line

if TYPE_CHECKING:
    from stepscope.query.declare import Drawing
    from stepscope.query.table import Table


class Layout(NamedTuple):
    """How an answer is fitted into text.

    Args:
        width: columns of text to fit into.
        max_rows: rows to show; None for all.
        all_columns: show all columns, as a grid.
        bars: in a grid, draw shares as bars if there is room.
        command: what starts this StepScope where the text is read; it replaces `stepscope` in the answer's text.
        source: the recording as the user typed it, for commands in the answer's text.
    """

    width: int
    max_rows: int | None = None
    all_columns: bool = False
    bars: bool = False
    command: str = "stepscope"
    source: str = ""


class MarkdownAnswer(NamedTuple):
    """An answer in Markdown: its title, its table, and how many rows that leaves out."""

    title: str
    table: str
    hidden_rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A picture of an answer.

    Args:
        flags: its option on the command line.
        figure: makes a matplotlib figure of an answer with all its rows and columns.
    """

    flags: tuple[str, ...] = ("--plot",)
    figure: Callable[[Table], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Renderer:
    """How answers of a drawing are shown; None: as a grid.

    Args:
        lines: their text in a terminal.
        markdown: what Markdown shows of them.
        conclusions: sentences about their rows, for the page.
        chart: what the page draws above the table.
        selects_rows: whether the text needs all rows, and selects the ones to show.
        is_grid_if_cut: whether the text needs all rows; with `--top` there is a grid.
        is_per_job: whether the text shows one job; several are shown one after the other.
        completes_commands: whether `lines` itself completes commands in the answer's text.
    """

    lines: Callable[[Table, Layout], list[Line]] | None = None
    markdown: Callable[[Table, int | None], MarkdownAnswer] | None = None
    conclusions: Callable[[Table], list[str]] | None = None
    chart: Literal["columns", "map", "none"] = "columns"
    plot: Plot | None = None
    selects_rows: bool = False
    is_grid_if_cut: bool = False
    is_per_job: bool = False
    completes_commands: bool = False


DRAWINGS: dict[Drawing, Renderer | str] = {
    "table": Renderer(),
    "tree": Renderer(),
    "rows": Renderer(),
    "plan": Renderer(),
    "text": Renderer(chart="none"),
    "overview": "summary_text",
    "paragraphs": "findings_text",
    "comparison": "diff_text",
    "measured": "inline_text",
    "runs": "scaling_text",
    "map": "rank_map",
    "roofline": "roofline_plot",
}
"""Drawings that are grids, and the modules in `stepscope.report` of the others."""


def renderer_of(drawing: Drawing) -> Renderer:
    """The declaration of a drawing."""
    declared = DRAWINGS[drawing]
    if isinstance(declared, str):
        declared = import_module(f"stepscope.report.{declared}").RENDERER
    return declared


def conclusions(table: Table) -> list[str]:
    """Sentences about an answer's rows; none if its drawing has none, or if it is about several jobs."""
    conclude = renderer_of(table.question.drawing).conclusions
    return [] if conclude is None or table.jobs or not len(table) else conclude(table)
