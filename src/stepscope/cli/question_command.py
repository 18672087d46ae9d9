"""Makes a question's subcommand from its declaration."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from stepscope.base.complete_file import check_output
from stepscope.cli.choices import (
    column_names,
    filter_options,
    form_options,
    narrowing_options,
    reading_options,
    sources_alone,
    sources_argument,
    together,
    typed_sources,
)
from stepscope.cli.terminal.output import FORMS, chosen_form, print_answer
from stepscope.cli.terminal.printing import print_err
from stepscope.cli.terminal.progress import open_watched, progress_on
from stepscope.query.declare import Filter, Parameter, Question
from stepscope.query.part import filters_of, part
from stepscope.report.pictures import PICTURES

if TYPE_CHECKING:
    from stepscope.query.table import Table

_LIST_WIDTH = 78
"""Columns of help, less click's indent."""
_MAX_CHOICES_WIDTH = 60
"""Longer choices are listed in the text of the option."""
_TYPES: dict[str, Any] = {"int": click.INT, "float": click.FLOAT, "text": click.STRING}


def question_command(question: Question) -> click.Command:
    """Makes the subcommand that asks a question."""

    def run(
        top: int | None,
        columns: str | None,
        sort: str | None,
        width: int | None,
        reading: dict[str, Any],
        picture: str | None = None,
        gates: tuple[str, ...] = (),
        **asked: Any,
    ) -> None:
        from stepscope.query.ask import check_asked
        from stepscope.query.jobs import several_jobs, without_job
        from stepscope.report.text import MOST_ROWS, OF_ALL_ROWS

        form = chosen_form({name: asked.pop(name) for name in FORMS})
        if picture is not None:
            from stepscope.report.figures import check_name, save_figure

            check_name(picture)
            check_output(Path(picture))
        if gates:
            from stepscope.cli.gates import judge_all, tell
            from stepscope.compare.gates import parse_gate

            conditions = [parse_gate(text) for text in gates]
        parameters = {p.name: asked.pop(p.name) for p in question.parameters}
        most = MOST_ROWS if top is None else None
        whole = columns is not None or (top is not None and question.drawing in OF_ALL_ROWS)
        read_by_people = form.kind in ("words", "markdown")
        shown: dict[str, Any] = {"top": top, "columns": column_names(columns), "sort": sort}
        checked = shown | {"columns": without_job(shown["columns"])}
        complete = check_asked(question, **checked, **parameters)
        if question.drawing == "comparison" and read_by_people and not (columns or sort):
            # The sentence needs all rows, and a tree has a row for its hidden parts.
            shown["top"], most = None, top or most
        filters = {name: asked[name] for name in get_args(Filter)}
        part(**filters).check_allowed(question, complete.get("by"))
        with _opened(question, asked, **reading) as ask:
            answer = ask(**shown, **parameters)
            if picture is not None:
                # The picture always shows all rows.
                drawn = answer if not any(shown.values()) else ask(**parameters)
                if drawn.jobs:
                    raise several_jobs(drawn.jobs)
                save_figure(PICTURES[question.drawing].figure(drawn), picture)
            judged = judge_all(conditions, ask, parameters) if gates else []
            answer = replace(answer, gates=tuple(one.as_row() for one in judged))
        print_answer(
            answer,
            form,
            width=width,
            most=most,
            whole=whole,
            source=typed_sources(
                asked["sources"],
                asked["job"],
                reading["capture"],
                ranks=asked["ranks"],
                steps=asked["steps"],
                part=part(**filters),
            )
            if "job" in asked
            else "",
        )
        if picture is not None:
            print_err(f"{picture}: drawn")
        if judged:
            tell(judged)

    command = click.command(
        name=question.name,
        help=f"{question.asks}\n\n{_help_text(inspect.cleandoc(question.explanation))}",
        short_help=question.asks,
        epilog=f"Columns: {', '.join(column.name for column in question.columns)}",
    )
    return command(_with_options(run, question))


@contextmanager
def _opened(question: Question, asked: dict[str, Any], **reading: Any) -> Iterator[Callable[..., Table]]:
    """Opens the sources of a question, and yields a function that asks it with its parameters."""
    filters = {name: asked[name] for name in get_args(Filter)}
    if question.recordings == "one":
        with open_watched(*asked["sources"], job=asked["job"], **reading) as trace:
            narrowed = {"rank": asked["ranks"], "step": asked["steps"], **filters}
            yield lambda **more: trace.ask(question.name, **narrowed, **more)
        return
    from stepscope.api.several import open_several

    sources = asked["sources"] if "sources" in asked else (asked["before"], asked["after"])
    with (
        progress_on() as progress,
        open_several(
            question,
            sources,
            names=asked["names"],
            jobs=asked["jobs"],
            part=part(**filters),
            progress=progress,
            **reading,
        ) as ask,
    ):
        progress.finish()
        yield ask


def _help_text(explanation: str) -> str:
    """An explanation for click, which would join the items of a list into one paragraph."""
    paragraphs = []
    for text in explanation.split("\n\n"):
        if text.startswith("* "):
            items = re.split(r"\n(?=\* )", text)
            text = "\n".join(
                textwrap.fill(" ".join(item.split()), _LIST_WIDTH, subsequent_indent="  ") for item in items
            )
        paragraphs.append(f"\b\n{text}" if text.startswith(("* ", "  ")) else text)
    return "\n\n".join(paragraphs)


def _with_options(run: Any, question: Question) -> Any:
    offered = _one_of([column.name for column in question.columns])
    options = [
        *map(_option, question.parameters),
        *([_GATES] if question.gates else []),
        _OF[question.recordings],
        filter_options(*(one for taken in filters_of(question).values() for one in taken)),
        click.option("--top", type=click.INT, metavar="N", help="Only the first N rows. Text shows 30 by default."),
        click.option(
            "--sort",
            metavar="COLUMN",
            help="Sort the rows by this column: numbers largest first, texts from a to z. COLUMN:asc and "
            "COLUMN:desc set the direction.",
            shell_complete=offered,
        ),
        click.option(
            "-c", "--columns", metavar="A,B,...", help="Only these columns, in this order.", shell_complete=offered
        ),
        click.option("-w", "--width", type=click.IntRange(min=20), metavar="N", help="Fit the text into N columns."),
    ]
    if question.drawing in PICTURES:
        options.append(
            click.option(
                *PICTURES[question.drawing].flags,
                "picture",
                metavar="FILE",
                type=click.Path(dir_okay=False),
                help="Also draw it into a .png or .svg file.",
            )
        )
    spaces = click.option(
        "--spaces", "as_spaces", is_flag=True, help="Answer as values separated by single spaces, for awk."
    )
    markdown = click.option(
        "--markdown", "as_markdown", is_flag=True, help="Answer as Markdown, for a pull request or an issue."
    )
    return together(*options, form_options, markdown, spaces, reading_options)(run)


def _read_names(
    ctx: click.Context,  # noqa: ARG001  # click's signature
    param: click.Parameter,  # noqa: ARG001
    text: str | None,
) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",")]


def _names(metavar: str, what: str) -> Any:
    words = f"What to call {what}. By default the last parts of their paths."
    return click.option("--names", metavar=metavar, callback=_read_names, help=words)


_JOB_OF_EACH = click.option(
    "--job",
    "jobs",
    metavar="NAME",
    multiple=True,
    help="Only this job, if a recording's files are of several: once for all recordings, or once for each, in order.",
)
_GATES = click.option(
    "--fail-if",
    "gates",
    multiple=True,
    metavar="GATE",
    help="Exit with code 3 if this holds: 'step_time > +3%', 'forward > +2ms', "
    "'kernel:NAME < -5%'. A change whose 95 % interval contains 0 counts as no change; a change without an "
    "interval never fails. May be repeated. --json has the outcomes.",
)
_OF = {
    "one": together(sources_argument, narrowing_options),
    "two": together(
        click.argument("before", metavar="BEFORE", type=click.Path()),
        click.argument("after", metavar="AFTER", type=click.Path()),
        _names("BEFORE,AFTER", "the two"),
        _JOB_OF_EACH,
    ),
    "several": together(sources_alone, _names("A,B,...", "the recordings, in order"), _JOB_OF_EACH),
}
"""Arguments and options that choose a question's recordings."""


def _one_of(names: Sequence[str]) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Makes shell completion for one of these names, or several between commas."""

    def offered(ctx: click.Context, param: click.Parameter, typed: str) -> list[str]:  # noqa: ARG001
        before, comma, start = typed.rpartition(",")
        return [f"{before}{comma}{name}" for name in names if name.startswith(start)]

    return offered


def _option(parameter: Parameter) -> Any:
    flag = f"--{parameter.name.replace('_', '-')}"
    meaning = f"{parameter.meaning[:1].upper()}{parameter.meaning[1:].rstrip('.')}."
    if parameter.type == "bool":
        return click.option(flag, parameter.name, is_flag=True, default=None, help=meaning)
    default = "" if parameter.default in (None, "") else f" Default: {parameter.default}."
    metavar = f"[{'|'.join(parameter.choices)}]" if parameter.choices else None
    if metavar and len(metavar) > _MAX_CHOICES_WIDTH:
        metavar, meaning = parameter.name.upper(), f"{meaning[:-1]}: {', '.join(parameter.choices)}."
    return click.option(
        flag,
        parameter.name,
        type=_TYPES[parameter.type],
        # The question checks choices, so that Python and the command line report the same error.
        metavar=metavar,
        shell_complete=_one_of(parameter.choices) if parameter.choices else None,
        help=f"{meaning}{default}",
    )
