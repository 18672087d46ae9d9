"""Small plain renderings of an answer, for the prompt and for notebooks. The command line has its own."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from stepscope.questions.declare import Column
from stepscope.units import (
    NOT_MEASURED,
    bandwidth_text,
    bytes_text,
    count_text,
    ratio_text,
    time_text,
)

if TYPE_CHECKING:
    from stepscope.questions.table import Table

_UNIT_TEXT = {
    "ns": time_text,
    "bytes": bytes_text,
    "bytes/s": bandwidth_text,
    "ratio": ratio_text,
    "count": count_text,
}
MARK = "⚠"
"""Stands beside an answer that a failing check bears on."""


def value_text(value: Any, column: Column) -> str:
    """A value as people read it, with its unit."""
    if value is None:
        return NOT_MEASURED
    if isinstance(value, bool):
        return "yes" if value else "no"
    if column.unit in _UNIT_TEXT:
        return _UNIT_TEXT[column.unit](value)
    if isinstance(value, float):
        return NOT_MEASURED if value != value else f"{value:.4g}"
    return str(value)


def shortened(text: str, width: int) -> str:
    """The text with its middle left out where it is longer than the width.

    Kernels' names begin with what they are and end with what sets them apart.
    """
    text = " ".join(text.split())
    if len(text) <= width:
        return text
    if width < 2:
        return text[:width]
    tail = (width - 1) // 3
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}"


def warnings_text(table: Table) -> list[str]:
    """One line for each check that bears on the answer, the severe ones first."""
    order = {"error": 0, "warning": 1}
    told = sorted(table.checks, key=lambda check: order.get(check["severity"], 2))
    lines = []
    for check in told:
        where = f" (rank {check['rank']})" if len({c["rank"] for c in table.checks}) > 1 else ""
        sign = MARK if check["severity"] in order else "·"
        lines.append(f"{sign} {check['check']}{where}: {check['explanation']}")
    return lines


def grid_text(table: Table, *, width: int, most: int) -> str:
    """The first rows as text that fits a width: as many of the shown columns as fit."""
    shown = [c for c in table.columns if c.shown] or list(table.columns)
    rows = table.arrow.slice(0, most).to_pylist()
    cells = [[c.name for c in shown]] + [[value_text(r[c.name], c) for c in shown] for r in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(shown))]
    widest = max(range(len(shown)), key=lambda i: widths[i], default=0)
    if shown and sum(widths) + 2 * (len(shown) - 1) > width:
        room = width - sum(widths) - 2 * (len(shown) - 1) + widths[widest]
        widths[widest] = max(min(widths[widest], 24), room)
    fitting, used = 0, -2
    while fitting < len(shown) and used + 2 + widths[fitting] <= width:
        used += 2 + widths[fitting]
        fitting += 1
    lines = [f"{MARK + ' ' if table.unreliable else ''}{table.question.asks}"[:width]]
    for line in cells:
        padded = [
            shortened(cell, widths[i]).ljust(widths[i])
            if shown[i].type == "text"
            else cell.rjust(widths[i])
            for i, cell in enumerate(line[:fitting])
        ]
        lines.append("  ".join(padded).rstrip())
    if len(table) > len(rows):
        lines.append(f"({len(table) - len(rows)} more rows)")
    hidden = [c.name for c in table.columns if c not in shown[:fitting]]
    if hidden and rows:
        lines.append(shortened(f"(more columns: {', '.join(hidden)})", width))
    lines += [shortened(text, width) for text in [table.note, *warnings_text(table)] if text]
    return "\n".join(lines)


def grid_html(table: Table, *, most: int) -> str:
    """The first rows as an HTML table; every text in it is escaped."""
    rows = table.arrow.slice(0, most).to_pylist()
    head = "".join(f'<th title="{escape(c.meaning)}">{escape(c.name)}</th>' for c in table.columns)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td style="text-align:{"left" if c.type == "text" else "right"}">'
            f"{escape(value_text(row[c.name], c))}</td>"
            for c in table.columns
        )
        + "</tr>"
        for row in rows
    )
    more = [f"{len(table) - len(rows)} more rows"] if len(table) > len(rows) else []
    notes = "".join(
        f"<p>{escape(text)}</p>" for text in [*more, table.note, *warnings_text(table)] if text
    )
    return (
        f"<p>{escape(table.question.asks)}</p>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}"
    )
