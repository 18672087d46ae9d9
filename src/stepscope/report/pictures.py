"""The pictures of answers, by the `drawing` of their question."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from stepscope.query.declare import Drawing
    from stepscope.query.table import Table


class Picture(NamedTuple):
    """A picture of an answer.

    Args:
        flags: its option on the command line.
        figure: makes a matplotlib figure of an answer with all its rows and columns.
    """

    flags: tuple[str, ...]
    figure: Callable[[Table], Any]


def _roofline(table: Table) -> Any:
    from stepscope.report.roofline_plot import roofline_figure

    return roofline_figure(table)


def _map(table: Table) -> Any:
    from stepscope.report.rank_map_plot import map_figure

    return map_figure(table)


def _runs(table: Table) -> Any:
    from stepscope.report.scaling_chart import scaling_chart

    return scaling_chart(table)


PICTURES: Mapping[Drawing, Picture] = {
    "roofline": Picture(("--plot",), _roofline),
    "map": Picture(("--plot",), _map),
    "runs": Picture(("-o", "--output"), _runs),
}
