"""The pictures that answers can be drawn into, by the `drawing` of their question."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepscope.answers.declare import Drawing
    from stepscope.answers.table import Table


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that an answer can be drawn into.

    Args:
        flags: the option that asks for it.
        draw: draws an answer with all its rows and columns into a .png or .svg file.
    """

    flags: tuple[str, ...]
    draw: Callable[[Table, Path], None]


def _roofline(table: Table, path: Path) -> None:
    from stepscope.report.roofline_plot import write_plot

    write_plot(table, path)


def _map(table: Table, path: Path) -> None:
    from stepscope.report.rank_map_plot import write_map

    write_map(table, path)


def _runs(table: Table, path: Path) -> None:
    from stepscope.report.figures import save_figure
    from stepscope.report.scaling_chart import scaling_chart

    save_figure(scaling_chart(table), path)


PICTURES: Mapping[Drawing, Picture] = {
    "roofline": Picture(("--plot",), _roofline),
    "map": Picture(("--plot",), _map),
    "runs": Picture(("-o", "--output"), _runs),
}
