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

if TYPE_CHECKING:
    from stepscope.query.declare import Drawing
    from stepscope.query.table import Table

MOST_ROWS = 30
"""Rows shown by default: what fits on a screen."""
PIPED_WIDTH = 120
"""Columns of text without a terminal, unless COLUMNS is set."""

OF_ALL_ROWS: tuple[Drawing, ...] = ("overview", "map")
"""Drawings that need all rows: with fewer, a grid is shown."""

_LAYOUTS: tuple[Drawing, ...] = ("overview", "paragraphs", "map")
"""Drawings of a single job; several jobs are drawn one by one."""

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


def answer_lines(
    table: Table,
    *,
    width: int,
    most: int | None = MOST_ROWS,
    whole: bool = False,
    bars: bool = False,
    command: str = "stepscope",
    source: str = "",
) -> list[Line]:
    """Formats an answer as lines, as its question's drawing declares.

    Args:
        width: columns of text to fit into.
        most: rows to show at most; None for all.
        whole: show all columns.
        bars: in a grid, draw shares as bars if there is room.
        command: the command that starts this StepScope where the text is read; it replaces `stepscope` in the answer's
            text.
        source: the recording as the user typed it, for commands in the answer's text.
    """
    if table.jobs and not (whole or table.is_sorted) and table.question.drawing in _LAYOUTS:
        return _each_job(table, width=width, most=most, command=command, source=source)
    drawing = "table" if whole or table.is_sorted else table.question.drawing
    if drawing == "overview":
        from stepscope.report.summary_text import summary_lines

        return summary_lines(table, width=width, command=command, source=source)
    if drawing == "paragraphs":
        from stepscope.report.findings_text import findings_lines

        return findings_lines(table, width=width, most=most, command=command, source=source)
    if command != "stepscope" or source:
        table = _to_be_typed(table, command, source)
    if drawing == "comparison":
        from stepscope.report.diff_text import diff_lines

        return diff_lines(table, width=width, most=most)
    if drawing == "measured":
        from stepscope.report.inline_text import inline_lines

        return inline_lines(table, width=width, most=most, bars=bars)
    if drawing == "map":
        from stepscope.report.rank_map_text import map_lines

        return map_lines(table, width=width, most=most)
    if drawing == "runs":
        from stepscope.report.scaling_text import scaling_lines

        return scaling_lines(table, width=width)
    return table.lines(width=width, most=most, whole=whole, bars=bars)


def _each_job(table: Table, *, width: int, most: int | None, command: str, source: str) -> list[Line]:
    """Formats each job's answer, one after the other."""
    lines = [*note_lines(table.note, width), Line("")]
    for name, answer in table.jobs.items():
        lines += [Line(f"== {printable(name)}", "head"), Line("")]
        asked = f"{source} --job {shlex.quote(name)}" if source else source
        lines += answer_lines(answer, width=width, most=most, command=command, source=asked)
        lines.append(Line(""))
    return lines[:-1]


def _to_be_typed(table: Table, command: str, source: str) -> Table:
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
