"""Makes a subcommand of a question's declaration."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import click

from stepscope.answers.declare import Parameter, Question
from stepscope.cli.choices import (
    column_names,
    form_options,
    narrowing_options,
    reading_options,
    source_argument,
)
from stepscope.cli.output import check_form, put_answer
from stepscope.progress import progress_on
from stepscope.report.pictures import PICTURES

_TYPES: dict[str, Any] = {"int": click.INT, "float": click.FLOAT, "text": click.STRING}


def question_command(question: Question) -> click.Command:
    """The subcommand that asks a question."""

    def run(
        source: str,
        ranks: tuple[int, ...] | None,
        steps: tuple[int, ...] | None,
        top: int | None,
        columns: str | None,
        as_json: bool,
        as_csv: bool,
        as_spaces: bool,
        parquet: str | None,
        width: int | None,
        no_cache: bool,
        strict: bool,
        picture: str | None = None,
        **parameters: Any,
    ) -> None:
        from stepscope.api.trace import open_trace
        from stepscope.report.text import MOST_ROWS, OF_ALL_ROWS

        check_form(as_json=as_json, as_csv=as_csv, as_spaces=as_spaces, parquet=parquet)
        if picture is not None:
            from stepscope.report.figures import check_name

            check_name(picture)
        with (
            progress_on() as progress,
            open_trace(source, cache=not no_cache, strict=strict, progress=progress) as trace,
        ):
            progress.finish()
            asked: dict[str, Any] = {"rank": ranks, "step": steps, **parameters}
            answer = trace.ask(question.name, top=top, columns=column_names(columns), **asked)
            if picture is not None:
                # All of it is drawn, whatever part of it is shown.
                drawn = (
                    answer if top is None and columns is None else trace.ask(question.name, **asked)
                )
                PICTURES[question.drawing].draw(drawn, Path(picture))
                click.echo(f"{picture}: drawn", err=True)
        put_answer(
            answer,
            as_json=as_json,
            as_csv=as_csv,
            as_spaces=as_spaces,
            parquet=parquet,
            width=width,
            most=MOST_ROWS if top is None else None,
            whole=columns is not None or (top is not None and question.drawing in OF_ALL_ROWS),
        )

    command = click.command(
        name=question.name,
        help=f"{question.asks}\n\n{_kept_lists(inspect.cleandoc(question.explanation))}",
        short_help=question.asks,
        epilog=f"Columns: {', '.join(column.name for column in question.columns)}",
    )
    return command(_with_options(run, question))


def _kept_lists(text: str) -> str:
    """Click makes one paragraph of a list, unless it is told to leave its lines alone."""
    paragraphs = text.split("\n\n")
    return "\n\n".join(f"\b\n{p}" if p.startswith(("* ", "  ")) else p for p in paragraphs)


def _with_options(run: Any, question: Question) -> Any:
    run = reading_options(run)
    run = click.option(
        "--spaces",
        "as_spaces",
        is_flag=True,
        help="Answer as values between single spaces, for awk.",
    )(run)
    run = form_options(run)
    if question.drawing in PICTURES:
        run = click.option(
            *PICTURES[question.drawing].flags,
            "picture",
            metavar="FILE",
            type=click.Path(dir_okay=False),
            help="Also draw it: a .png or a .svg file.",
        )(run)
    run = click.option(
        "-w",
        "--width",
        type=click.IntRange(min=20),
        metavar="N",
        help="In words, fit into N columns of text.",
    )(run)
    run = click.option(
        "-c", "--columns", metavar="A,B,...", help="These columns alone, in this order."
    )(run)
    run = click.option(
        "--top",
        type=click.INT,
        metavar="N",
        help="The first N rows alone. In words, 30 are shown by default.",
    )(run)
    run = narrowing_options(run)
    for parameter in reversed(question.parameters):
        run = _option(parameter)(run)
    return source_argument(run)


def _option(parameter: Parameter) -> Any:
    flag = f"--{parameter.name.replace('_', '-')}"
    meaning = f"{parameter.meaning[:1].upper()}{parameter.meaning[1:].rstrip('.')}."
    if parameter.type == "bool":
        return click.option(flag, parameter.name, is_flag=True, default=None, help=meaning)
    default = "" if parameter.default is None else f" Default: {parameter.default}."
    return click.option(
        flag,
        parameter.name,
        type=_TYPES[parameter.type],
        # Choices are checked with the question, so that Python and the command line say the same.
        metavar=f"[{'|'.join(parameter.choices)}]" if parameter.choices else None,
        help=f"{meaning}{default}",
    )
