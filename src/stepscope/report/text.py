"""An answer in a terminal.

Uses colour only where stdout is a terminal; elsewhere it prints plain lines of a fixed width for `grep` and `less`. The
question's `drawing` decides the layout.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, TextIO

from stepscope.base.quoting import one_line, printable
from stepscope.query.text_grid import Line, note_lines
from stepscope.report.advice import typed
from stepscope.report.renderers import Layout, renderer_of

if TYPE_CHECKING:
    from stepscope.query.table import Table

MAX_ROWS = 30
"""Rows shown by default: what fits on a screen."""
PIPED_WIDTH = 120
"""Columns of text without a terminal, unless COLUMNS is set."""

_COLOURS = {
    "title": "bold",
    "head": "bold cyan",
    "row": "",
    "note": "dim",
    "warning": "yellow",
    "command": "bold",
    "better": "green",
    "worse": "red",
    "map": "",
}
_BAR = re.compile("[█▉▊▋▌▍▎▏]+")
_BAR_COLOUR = "cyan"


def wants_colour(stream: TextIO) -> bool:
    """Whether a stream gets colour: a terminal does, unless NO_COLOR is set or TERM is `dumb`; FORCE_COLOR requests it
    elsewhere, for example in the log of a CI job."""
    if os.environ.get("NO_COLOR"):
        return False
    if forced := os.environ.get("FORCE_COLOR"):
        return forced != "0"
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def text_width(stream: TextIO) -> int:
    """The width of a stream: the terminal's, else COLUMNS, else 120."""
    if stream.isatty():
        return shutil.get_terminal_size().columns
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdecimal() and int(columns) > 0 else PIPED_WIDTH


def answer_lines(table: Table, layout: Layout) -> list[Line]:
    """Formats an answer as lines, as its question's drawing declares."""
    is_grid = layout.all_columns or table.is_sorted
    renderer = renderer_of("table" if is_grid else table.question.drawing)
    if table.jobs and renderer.is_per_job:
        return _each_job(table, layout)
    if not renderer.completes_commands and (layout.command != "stepscope" or layout.source):
        table = _completed(table, layout.command, layout.source)
    if renderer.lines is not None:
        return renderer.lines(table, layout)
    return table.lines(width=layout.width, limit=layout.max_rows, complete=layout.all_columns, bars=layout.bars)


def _each_job(table: Table, layout: Layout) -> list[Line]:
    """Formats each job's answer, one after the other."""
    lines = [*note_lines(table.note, layout.width), Line("")]
    for name, answer in table.jobs.items():
        lines += [Line(f"== {printable(name)}", "head"), Line("")]
        source = f"{layout.source} --job {shlex.quote(name)}" if layout.source else ""
        lines += answer_lines(answer, layout._replace(source=source, bars=False))
        lines.append(Line(""))
    return lines[:-1]


def _completed(table: Table, command: str, source: str) -> Table:
    """The answer with its commands as they can be pasted. Data for other programs (JSON, CSV, Parquet) keeps the name
    `stepscope`."""
    import pyarrow as pa

    note = typed(table.note, command, source) or ""
    columns = [
        pa.array([typed(text, command, source) for text in values.to_pylist()], pa.string())
        if column.advises
        else values
        for column, values in zip(table.columns, table.arrow.columns, strict=True)
    ]
    return replace(table, arrow=pa.table(columns, names=table.arrow.column_names), note=note)


def spaced_text(table: Table) -> str:
    """Formats an answer for `awk`: a line of column names, then values between single spaces.

    Spaces within a value become `_`; `-` means not measured.
    """
    lines = [" ".join(table.arrow.column_names)]
    lines += [" ".join(_word(value) for value in row.values()) for row in table.rows()]
    return "\n".join(lines) + "\n"


def _word(value: object) -> str:
    text = "_".join(one_line("" if value is None else str(value)).split())
    return text or "-"


def print_lines(lines: Iterable[Line], stream: TextIO) -> None:
    """Writes lines, in colour if the stream wants it."""
    if not wants_colour(stream):
        stream.writelines(f"{printable(line.text)}\n" for line in lines)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(file=stream, highlight=False, force_terminal=True, color_system="standard")
    for line in lines:
        text = Text(printable(line.text), style=_COLOURS[line.style])
        if line.style == "row":
            text.highlight_regex(_BAR, _BAR_COLOUR)
        console.print(text, soft_wrap=True)
