"""`stepscope sql`: runs a user's SQL."""

from __future__ import annotations

from typing import Any, get_args

import click

from stepscope.cli.choices import filter_options, form_options, narrowing_options, reading_options, sources_argument
from stepscope.cli.terminal.output import chosen_form, print_answer
from stepscope.cli.terminal.progress import open_watched
from stepscope.query.declare import Filter
from stepscope.store.memory import limited_data


@click.command(name="sql", short_help="Runs your own read-only SQL over a recording's tables.")
@sources_argument
@click.argument("text", metavar="SQL")
@narrowing_options
@filter_options(*get_args(Filter))
@reading_options
@form_options
def command(
    sources: tuple[str, ...],
    job: str | None,
    text: str,
    ranks: tuple[int, ...] | None,
    steps: tuple[int, ...] | None,
    name: str | None,
    under: str | None,
    window: tuple[int, int] | None,
    reading: dict[str, Any],
    **given: Any,
) -> None:
    """Runs one read-only SQL statement over the tables of a recording.

    `stepscope schema` lists the tables and their columns. The dialect is DuckDB's.

    The answer to each question is a table too, such as `answer.kernels` or `answer.device_time`, for the
    chosen ranks, steps and events and with the question's default parameters. Only answers that the SQL names
    are computed.
    """
    form = chosen_form(given)
    with open_watched(*sources, job=job, **reading) as trace, limited_data():
        answer = trace.sql(text, rank=ranks, step=steps, name=name, under=under, window=window)
        print_answer(answer, form, all_columns=True)
