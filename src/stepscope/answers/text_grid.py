"""Lays an answer out as text: the one layout of the prompt, the command line and reports.

Which columns fit, how long names are shortened, and where the marks and notes go is decided here;
colour is added by whoever prints the lines.
"""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Literal

from stepscope.answers.declare import Column
from stepscope.floor.units import (
    NOT_MEASURED,
    bandwidth_text,
    bytes_text,
    count_text,
    flops_text,
    ratio_text,
    time_text,
)

if TYPE_CHECKING:
    from stepscope.answers.table import Table

_UNIT_TEXT = {
    "ns": time_text,
    "bytes": bytes_text,
    "bytes/s": bandwidth_text,
    "flop": flops_text,
    "flop/s": lambda value: flops_text(value, per_second=True),
    "ratio": ratio_text,
    "count": count_text,
}
_CONTROL = dict.fromkeys((*range(32), 127, *range(128, 160)), "�")
"""Names come from files: a control character in one must not reach the terminal."""
_GAP = 2
_NARROWEST_TEXT = 24
MARK = "⚠"
"""Stands beside an answer that a failing check bears on."""

Style = Literal["title", "head", "row", "note", "warning"]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text and what it is, for whoever gives it a colour."""

    text: str
    style: Style = "row"


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


def label(column: Column) -> str:
    """What stands above a column: its name without the unit, which each value has beside it."""
    endings = {"ns": "_ns", "bytes": "_bytes", "ratio": "_ratio"}
    return column.name.removesuffix(endings.get(column.unit, ""))


def heads(columns: Sequence[Column]) -> list[str]:
    """What stands above columns shown side by side: of `used_ns` and `used_ratio` one says share."""
    plain = [label(column) for column in columns]
    return [
        f"{head} share" if column.unit == "ratio" and plain.count(head) > 1 else head
        for head, column in zip(plain, columns, strict=True)
    ]


def printable(text: str) -> str:
    """The text on one line, without characters that would steer a terminal."""
    return " ".join(text.split()).translate(_CONTROL)


def shortened(text: str, width: int) -> str:
    """The text with its middle left out where it is longer than the width; a path its beginning.

    A kernel's name begins with what it is and ends with what sets it apart; of a path, the end does.

    >>> shortened("void at::native::elementwise_kernel<128, 4>", 24)
    'void at::native:…128, 4>'
    """
    if len(text) <= width:
        return text
    if width < 2:
        return text[:width]
    if "/" in text and " " not in text:
        return f"…{text[len(text) - width + 1 :]}"
    tail = (width - 1) // 3
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}"


def warning_lines(table: Table) -> list[Line]:
    """One line for each check that bears on the answer, the severe ones first."""
    order = {"error": 0, "warning": 1}
    several = len({check["rank"] for check in table.checks}) > 1
    lines = []
    for check in sorted(table.checks, key=lambda check: order.get(check["severity"], 2)):
        severe = check["severity"] in order
        where = f" (rank {check['rank']})" if several else ""
        lines.append(
            Line(
                f"{MARK if severe else '·'} {check['check']}{where}: "
                f"{printable(check['explanation'])}",
                "warning" if severe else "note",
            )
        )
    return lines


def grid_lines(table: Table, *, width: int, most: int | None, whole: bool = False) -> list[Line]:
    """An answer as lines: what was asked, the rows, what is left out, and how far to trust it.

    Args:
        table: the answer.
        width: columns of text to fit into.
        most: rows to show at most; None for all.
        whole: show every column that the answer has, and let lines grow wider where they must.
    """
    columns = list(table.columns) if whole else [c for c in table.columns if c.shown]
    rows = (table.arrow if most is None else table.arrow.slice(0, most)).to_pylist()
    title = f"{MARK} {table.question.asks}" if table.unreliable else table.question.asks
    lines = [] if table.question.name == "sql" else [Line(title, "title")]
    if rows:
        cells = [[_cell(row, column, table) for column in columns] for row in rows]
        labels = heads(columns)
        wrap = table.question.drawing == "text"
        if wrap and not whole:
            kept = _around_sentence(columns, labels, cells, width)
            columns, labels = [columns[i] for i in kept], [labels[i] for i in kept]
            cells = [[row[i] for i in kept] for row in cells]
        widths = _widths(columns, labels, cells, width)
        fitting = len(columns) if whole else _fitting(widths, width)
        columns, widths = columns[:fitting], widths[:fitting]
        lines.append(Line(_joined(labels[:fitting], columns, widths), "head"))
        for row in cells:
            shown = row[:fitting]
            parts = _wrapped(shown, columns, widths) if wrap else [shown]
            lines += [Line(_joined(part, columns, widths)) for part in parts]
        lines += _left_out(table, len(rows), columns, width)
    for words in table.note.splitlines():
        lines += [Line(part, "note") for part in textwrap.wrap(printable(words), max(width, 20))]
    return lines + warning_lines(table)


def grid_text(table: Table, *, width: int, most: int) -> str:
    """`grid_lines` as one text in which no line is wider than the width."""
    return "\n".join(
        shortened(line.text, width) for line in grid_lines(table, width=width, most=most)
    )


def _cell(row: dict[str, Any], column: Column, table: Table) -> str:
    text = value_text(row[column.name], column)
    if table.question.drawing == "text" and "\n" in text:
        return "\n".join(line.translate(_CONTROL) for line in text.splitlines())
    text = printable(text)
    first_text = next((c.name for c in table.columns if c.type == "text"), None)
    if table.question.drawing == "tree" and column.name == first_text and row.get("depth"):
        return "  " * int(row["depth"]) + text
    return text


def _widths(
    columns: list[Column], labels: list[str], cells: list[list[str]], width: int
) -> list[int]:
    """Natural widths, except that texts give way, the widest first, until the rest fits."""
    widths = [
        max(len(label), *(len(part) for row in cells for part in row[i].split("\n") or [""]))
        for i, label in enumerate(labels)
    ]
    while (excess := sum(widths) + _GAP * (len(widths) - 1) - width) > 0:
        texts = [
            i
            for i, c in enumerate(columns)
            if c.type == "text" and widths[i] > max(_NARROWEST_TEXT, len(labels[i]))
        ]
        if not texts:
            break
        widest = max(texts, key=lambda i: widths[i])
        narrowest = max(_NARROWEST_TEXT, len(labels[widest]))
        second = max((widths[i] for i in texts if i != widest), default=0)
        widths[widest] = max(narrowest, widths[widest] - excess, min(second, widths[widest] - 1))
    return widths


def _around_sentence(
    columns: list[Column], labels: list[str], cells: list[list[str]], width: int
) -> list[int]:
    """Which columns of an answer in words are shown: its sentences, the first column, and of the
    others what fits; those that say nothing go first, then from the right."""
    kept = list(range(len(columns)))
    texts = [i for i in kept if columns[i].type == "text"]
    if not texts:
        return kept
    sentence = max(texts, key=lambda i: max(len(row[i]) for row in cells))
    silent = [i for i in kept if all(row[i] == NOT_MEASURED for row in cells)]
    giving_way = sorted({*kept[1:]} - {sentence}, key=lambda i: (i in silent, i))
    while True:
        own = [[row[i] for i in kept] for row in cells]
        widths = _widths([columns[i] for i in kept], [labels[i] for i in kept], own, width)
        if _fitting(widths, width) == len(kept):
            return kept
        if not giving_way:
            return list(range(len(columns)))
        kept.remove(giving_way.pop())


def _fitting(widths: list[int], width: int) -> int:
    """How many of the first columns fit; at least one."""
    used, count = -_GAP, 0
    for column_width in widths:
        used += _GAP + column_width
        if used > width:
            break
        count += 1
    return max(1, count)


def _joined(cells: list[str], columns: list[Column], widths: list[int]) -> str:
    padded = [
        shortened(cell, width).ljust(width) if column.type == "text" else cell.rjust(width)
        for cell, column, width in zip(cells, columns, widths, strict=True)
    ]
    return (" " * _GAP).join(padded).rstrip()


def _wrapped(cells: list[str], columns: list[Column], widths: list[int]) -> list[list[str]]:
    """The cells over as many lines as the longest text needs: sentences are not shortened."""
    broken = [
        [part for line in cell.split("\n") for part in textwrap.wrap(line, width) or [""]]
        if column.type == "text"
        else [cell]
        for cell, column, width in zip(cells, columns, widths, strict=True)
    ]
    return [list(line) for line in itertools.zip_longest(*broken, fillvalue="")]


def _left_out(table: Table, rows: int, shown: list[Column], width: int) -> list[Line]:
    lines = []
    if len(table) > rows:
        lines.append(Line(f"({count_text(len(table) - rows)} more rows)", "note"))
    hidden = [c.name for c in table.columns if c not in shown]
    if hidden:
        lines.append(Line(shortened(f"(more columns: {', '.join(hidden)})", width), "note"))
    return lines


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
    notes = [f"{len(table) - len(rows)} more rows"] if len(table) > len(rows) else []
    notes += [table.note] if table.note else []
    notes += [line.text for line in warning_lines(table)]
    return (
        f"<p>{escape(table.question.asks)}</p>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        + "".join(f"<p>{escape(text)}</p>" for text in notes)
    )
