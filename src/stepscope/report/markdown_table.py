"""Tables and text in Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence

from stepscope.base.quoting import one_line, printable

INDENT = "&nbsp;&nbsp;&nbsp;"
MAX_CELL_WIDTH = 80
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#~])")
"""Without bars, which the table escapes."""


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]], is_text: Sequence[bool] | None = None) -> str:
    """Formats a table.

    Args:
        is_text: for each column, whether it is aligned to the left; by default all are.
    """

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    rule = ["---" if text else "---:" for text in is_text or [True] * len(head)]
    return "\n".join([line(head), line(rule), *map(line, rows)]) + "\n"


def escaped(text: str) -> str:
    """Escapes text: names of kernels are full of characters with a meaning in Markdown and HTML."""
    return _SPECIAL.sub(r"\\\1", printable(one_line(text)))
