"""Writes an answer as requested: as text or data on stdout, or into a Parquet file."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from stepscope.base.complete_file import check_output
from stepscope.base.errors import UsageError
from stepscope.cli.terminal.invoked_as import invoked_as
from stepscope.cli.terminal.printing import print_err, print_out

if TYPE_CHECKING:
    from stepscope.query.table import Table

ERRORS = {"two-forms": "An answer has one form: `--json`, `--csv`, `--markdown` or `--parquet FILE`."}


FORMS = ("as_json", "as_csv", "as_spaces", "as_markdown", "parquet")
"""Parameters of commands that request another form than text."""


class Form(NamedTuple):
    """How an answer is written.

    Args:
        kind: `words`, `json` (one object), `csv`, `spaces` (lines of values between single spaces), `markdown`, or
            `parquet`.
    """

    kind: str = "words"
    file: str = ""


WORDS = Form()


def chosen_form(given: Mapping[str, Any]) -> Form:
    """The form that a command's parameters of `FORMS` request.

    Refuses two forms at once and unwritable files, before anything is computed.

    Raises:
        StepScopeError: the Parquet file cannot be written.
        UsageError: more than one was requested.
    """
    chosen = [name for name, value in given.items() if value not in (None, False)]
    if len(chosen) > 1:
        raise UsageError(
            "an answer has one form",
            hint="choose one of --json, --csv, --markdown, --spaces and --parquet FILE",
            slug="two-forms",
        )
    if chosen == ["parquet"]:
        check_output(Path(given["parquet"]))
        return Form("parquet", given["parquet"])
    return Form(chosen[0].removeprefix("as_")) if chosen else Form()


def print_answer(
    table: Table,
    form: Form = WORDS,
    *,
    width: int | None = None,
    max_rows: int | None = None,
    all_columns: bool = False,
    source: str = "",
) -> None:
    """Writes an answer in the requested form, as text by default.

    Args:
        width: for text, columns to fit into; None for the width of stdout.
        max_rows: for text and Markdown; None for all.
        all_columns: for text, show all columns.
        source: the recording as the user typed it, for commands that the answer advises.

    Raises:
        StepScopeError: the Parquet file cannot be written.
    """
    if form.kind == "json":
        print_out(table.to_json() + "\n", is_json=True)
    elif form.kind == "csv":
        print_out(table.to_csv())
        _print_notes(table)
    elif form.kind == "spaces":
        from stepscope.report.text import spaced_text

        print_out(spaced_text(table))
        _print_notes(table)
    elif form.kind == "markdown":
        from stepscope.report.markdown import markdown_text

        print_out(markdown_text(table, max_rows=max_rows))
    elif form.kind == "parquet":
        table.to_parquet(form.file)
        print_err(f"{form.file}: {len(table)} rows")
        _print_notes(table)
    else:
        from stepscope.report.renderers import Layout
        from stepscope.report.text import answer_lines, print_lines, text_width, wants_colour

        layout = Layout(
            width=width or text_width(sys.stdout),
            max_rows=max_rows,
            all_columns=all_columns,
            bars=wants_colour(sys.stdout),
            command=invoked_as(),
            source=source,
        )
        print_lines(answer_lines(table, layout), sys.stdout)


def _print_notes(table: Table) -> None:
    """Prints notes on stderr: CSV and Parquet have no place for them."""
    from stepscope.query.text_grid import note_lines
    from stepscope.report.text import print_lines, text_width

    width = text_width(sys.stderr)
    print_lines([*note_lines(table.note, width), *table.warnings(width)], sys.stderr)
