"""An answer as Markdown, for a pull request or an issue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.base.quoting import one_line
from stepscope.query.text_grid import MARK, heads, shortened, shown_columns, value_text
from stepscope.report.diff_text import gate_text
from stepscope.report.markdown_table import INDENT, MAX_CELL_WIDTH, escaped, markdown_table
from stepscope.report.renderers import MarkdownAnswer, renderer_of

if TYPE_CHECKING:
    from stepscope.query.table import Table

_WIDE = 100_000


def markdown_text(table: Table, *, max_rows: int | None) -> str:
    """Formats an answer as Markdown: conclusions, rows, how they were made and how far to trust them.

    Args:
        max_rows: rows to show; None for all.
    """
    answer = (renderer_of(table.question.drawing).markdown or _grid)(table, max_rows)
    parts = [f"**{f'{MARK} ' if table.unreliable else ''}{escaped(answer.title)}**"]
    if table.gates:
        parts.append("\n".join(f"- {escaped(gate_text(gate))}" for gate in table.gates))
    if answer.table:
        parts.append(answer.table.rstrip("\n"))
    if answer.hidden_rows:
        parts.append(f"({answer.hidden_rows} more rows)")
    if table.note:
        parts += [escaped(words) for words in table.note.splitlines() if words]
    if table.checks:
        parts.append("\n".join(f"- {escaped(line.text)}" for line in table.warnings(_WIDE)))
    return "\n\n".join(parts) + "\n"


def _grid(table: Table, max_rows: int | None) -> MarkdownAnswer:
    rows = table.arrow.slice(0, max_rows).to_pylist()
    if not rows:
        return MarkdownAnswer(table.question.asks, "", 0)
    columns = shown_columns(table.columns, rows)
    is_tree = table.question.drawing == "tree"
    cells = []
    for row in rows:
        texts = [escaped(shortened(one_line(value_text(row[c.name], c)), MAX_CELL_WIDTH)) for c in columns]
        indent = int(row.get("depth") or 0) if is_tree else 0
        cells.append([INDENT * indent + texts[0], *texts[1:]])
    text = markdown_table(heads(columns), cells, [column.type == "text" for column in columns])
    return MarkdownAnswer(table.question.asks, text, len(table) - len(rows))
