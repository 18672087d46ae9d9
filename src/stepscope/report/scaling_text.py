"""Several runs in a terminal: all rows, and below them which labels stop scaling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.answers.text_grid import Line
from stepscope.floor.units import ratio_text

if TYPE_CHECKING:
    from stepscope.answers.table import Table


def scaling_lines(table: Table, *, width: int) -> list[Line]:
    """The answer of `scaling` as lines.

    Args:
        table: the answer.
        width: columns of text to fit into.
    """
    lines = table.lines(width=width, most=None)
    limit = f"{table.asked['mode']}-scaling efficiency below {ratio_text(table.asked['below'])}"
    found = stopped(table)
    if found:
        return [
            *lines,
            Line(""),
            Line(f"Stop scaling ({limit}) at this many ranks:"),
            *(Line(f"  {ranks:>4}  {' '.join(label.split())}") for label, ranks in found.items()),
        ]
    if len({(row["run"], row["ranks"]) for row in table.rows()}) > 1:
        lines += [Line(""), Line(f"No label stops scaling ({limit}).")]
    return lines


def stopped(table: Table) -> dict[str, int]:
    """Labels of a `scaling` table that stop scaling, and at how many ranks."""
    return {
        row["label"]: row["stops_at_ranks"]
        for row in table.rows()
        if row["stops_at_ranks"] is not None
    }
