"""Puts an answer where it was asked for: on stdout as words or data, or into a Parquet file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.cli.say import put, say
from stepscope.cli.typed_name import typed_name
from stepscope.floor.complete_file import check_output
from stepscope.floor.errors import UsageError

if TYPE_CHECKING:
    from stepscope.answers.table import Table

ERRORS = {
    "two-forms": "An answer has one form: `--json`, `--csv`, `--markdown` or `--parquet FILE`.",
}


def check_form(
    *,
    as_json: bool,
    as_csv: bool,
    as_spaces: bool = False,
    as_markdown: bool = False,
    parquet: str | None,
) -> None:
    """Refuses two forms at once, and a file that cannot be written, before anything is computed.

    Raises:
        StepScopeError: the Parquet file cannot be written.
        UsageError: more than one of them was asked for.
    """
    if as_json + as_csv + as_spaces + as_markdown + (parquet is not None) > 1:
        raise UsageError(
            "an answer has one form",
            hint="choose one of --json, --csv, --markdown, --spaces and --parquet FILE",
            slug="two-forms",
        )
    if parquet is not None:
        check_output(Path(parquet))


def put_answer(
    table: Table,
    *,
    as_json: bool = False,
    as_csv: bool = False,
    as_spaces: bool = False,
    as_markdown: bool = False,
    parquet: str | None = None,
    width: int | None = None,
    most: int | None = None,
    whole: bool = False,
    source: str = "",
) -> None:
    """Writes an answer in the form that was asked for, in words by default.

    Args:
        table: the answer.
        as_json: as one JSON object.
        as_csv: as CSV.
        as_spaces: as lines of values between single spaces.
        as_markdown: as Markdown.
        parquet: into this file.
        width: in words, columns of text to fit into; None for those that stdout has.
        most: in words and in Markdown, at most so many rows; None for all.
        whole: in words, every column that the answer has.
        source: the recording as it is typed, for commands that the answer advises.

    Raises:
        StepScopeError: the Parquet file cannot be written.
    """
    if as_json:
        put(table.to_json() + "\n", is_json=True)
    elif as_csv:
        put(table.to_csv())
        _tell_apart(table)
    elif as_spaces:
        from stepscope.report.text import spaced_text

        put(spaced_text(table))
        _tell_apart(table)
    elif as_markdown:
        from stepscope.report.markdown import markdown_text

        put(markdown_text(table, most=most))
    elif parquet is not None:
        table.to_parquet(parquet)
        say(f"{parquet}: {len(table)} rows")
        _tell_apart(table)
    else:
        from stepscope.report.text import answer_lines, print_lines, text_width, wants_colour

        fit = width or text_width(sys.stdout)
        lines = answer_lines(
            table,
            width=fit,
            most=most,
            whole=whole,
            bars=wants_colour(sys.stdout),
            command=typed_name(),
            source=source,
        )
        print_lines(lines, sys.stdout)


def _tell_apart(table: Table) -> None:
    """CSV and Parquet have no place for notes: they go to stderr."""
    from stepscope.answers.text_grid import note_lines
    from stepscope.report.text import print_lines, text_width

    width = text_width(sys.stderr)
    print_lines([*note_lines(table.note, width), *table.warnings(width)], sys.stderr)
