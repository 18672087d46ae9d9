"""An answer as Markdown, for a pull request or an issue."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stepscope.base.quoting import one_line, printable
from stepscope.query.kernel_names import cut_apart
from stepscope.query.text_grid import MARK, heads, shortened, shown_columns, value_text
from stepscope.report.diff_text import columns_of, gate_row_text, names_of, rows_in_short, verdict_sentence
from stepscope.report.question_page import markdown_table

if TYPE_CHECKING:
    from stepscope.query.table import Table

_LONGEST = 80
_WIDE = 100_000
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#~])")
"""Without bars, which the table escapes."""
_INDENT = "&nbsp;&nbsp;&nbsp;"


def markdown_text(table: Table, *, most: int | None) -> str:
    """Formats an answer as Markdown: conclusions, rows, how they were made and how far to trust them.

    Args:
        most: rows to show at most; None for all.
    """
    rows = table.rows()
    is_comparison = table.question.drawing == "comparison"
    title = verdict_sentence(rows) if is_comparison else table.question.asks
    parts = [f"**{f'{MARK} ' if table.unreliable else ''}{_plain(title)}**"]
    if table.gates:
        parts.append("\n".join(f"- {_plain(gate_row_text(gate))}" for gate in table.gates))
    if rows:
        parts.append((_of_comparison if is_comparison else _of_table)(table, most).rstrip("\n"))
        shown = len(rows if most is None else rows[:most])
        if shown < len(rows) and not (is_comparison and "depth" in rows[0]):
            parts.append(f"({len(rows) - shown} more rows)")
    if table.note:
        parts += [_plain(words) for words in table.note.splitlines() if words]
    if table.checks:
        parts.append("\n".join(f"- {_plain(line.text)}" for line in table.warnings(_WIDE)))
    return "\n\n".join(parts) + "\n"


def _of_comparison(table: Table, most: int | None) -> str:
    rows = rows_in_short(table.rows(), most)
    columns = columns_of(rows)
    names = [
        _INDENT * row.get("depth", 0) + _plain(name)
        for row, name in zip(rows, cut_apart(names_of(rows), _LONGEST), strict=True)
    ]
    cells = [[_plain(values[place]) for _, values, _ in columns] for place in range(len(rows))]
    aligned = [is_text for _, _, is_text in columns]
    lines = markdown_table(
        ["name", *(head for head, _, _ in columns)], [[name, *own] for name, own in zip(names, cells, strict=True)]
    )
    return _right(lines, [True, *aligned])


def _of_table(table: Table, most: int | None) -> str:
    rows = table.arrow.slice(0, most).to_pylist()
    columns = shown_columns(table.columns, rows)
    indents = [int(row.get("depth") or 0) if table.question.drawing == "tree" else 0 for row in rows]
    cells = [
        [
            _INDENT * (indent if place == 0 else 0) + _plain(_cut(value_text(row[c.name], c)))
            for place, c in enumerate(columns)
        ]
        for indent, row in zip(indents, rows, strict=True)
    ]
    return _right(markdown_table(heads(columns), cells), [c.type == "text" for c in columns])


def _right(table: str, is_text: Sequence[bool]) -> str:
    """Aligns the table's numbers to the right."""
    head, _, *rows = table.splitlines()
    line = "| " + " | ".join("---" if text else "---:" for text in is_text) + " |"
    return "\n".join([head, line, *rows])


def _cut(text: str) -> str:
    return shortened(one_line(text), _LONGEST)


def _plain(text: str) -> str:
    """Escapes text: names of kernels are full of characters with a meaning in Markdown and HTML."""
    return _SPECIAL.sub(r"\\\1", printable(one_line(text)))
