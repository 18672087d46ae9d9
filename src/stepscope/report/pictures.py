"""The pictures that answers can be drawn into, by the `drawing` of their question."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from stepscope.answers.declare import Drawing
    from stepscope.answers.table import Table


class Picture(NamedTuple):
    """A picture of an answer.

    Args:
        flags: the option of the command line that asks for it.
        figure: an answer with all its rows and columns as a figure of matplotlib.
    """

    flags: tuple[str, ...]
    figure: Callable[[Table], Any]


def _lazily(module: str, name: str) -> Callable[[Table], Any]:
    """A function of a module that is imported when it first draws: most commands draw nothing."""
    return lambda table: getattr(import_module(f"stepscope.report.{module}"), name)(table)


PICTURES: Mapping[Drawing, Picture] = {
    "roofline": Picture(("--plot",), _lazily("roofline_plot", "roofline_figure")),
    "map": Picture(("--plot",), _lazily("rank_map_plot", "map_figure")),
    "runs": Picture(("-o", "--output"), _lazily("scaling_chart", "scaling_chart")),
}
