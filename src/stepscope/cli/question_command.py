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
from stepscope.query.event_filter import event_filter, filters_of
from stepscope.report.renderers import renderer_of

if TYPE_CHECKING:
    from stepscope.query.table import Table

_LIST_WIDTH = 78
"""Columns of help, less click's indent."""
_MAX_CHOICES_WIDTH = 60
"""Longer choices are listed in the text of the option."""
_TYPES: dict[str, Any] = {"int": click.INT, "float": click.FLOAT, "text": click.STRING}


def question_command(question: Question) -> click.Command:
    """Makes the subcommand that asks a question."""

    plot = renderer_of(question.drawing).plot

    def run(
        top: int | None,
        columns: str | None,
        sort: str | None,
        width: int | None,
        reading: dict[str, Any],
        plot_file: str | None = None,
        gates: tuple[str, ...] = (),
        **given: Any,
    ) -> None:
        from stepscope.query.ask import check_asked
        from stepscope.query.jobs import several_jobs, without_job
        from stepscope.report.text import MAX_ROWS

        form = chosen_form({name: given.pop(name) for name in FORMS})
        if plot_file is not None:
            from stepscope.report.figures import check_name, save_figure

            check_name(plot_file)
            check_output(Path(plot_file))
        if gates:
            from stepscope.cli.gates import judge_all, report_gates
            from stepscope.compare.gates import parse_gate

            conditions = [parse_gate(text) for text in gates]
        parameters = {p.name: given.pop(p.name) for p in question.parameters}
        selection: dict[str, Any] = {"top": top, "columns": column_names(columns), "sort": sort}
        checked = selection | {"columns": without_job(selection["columns"])}
        complete = check_asked(question, **checked, **parameters)
        renderer = renderer_of(question.drawing)
        all_columns = columns is not None or (top is not None and renderer.is_grid_if_cut)
        max_rows = MAX_ROWS if top is None else None
        if renderer.selects_rows and form.kind in ("words", "markdown") and not (columns or sort):
            selection["top"], max_rows = None, top or max_rows
        filters = {name: given[name] for name in get_args(Filter)}
        event_filter(**filters).check_allowed(question, complete.get("by"))
        with _opened(question, given, **reading) as ask:
            answer = ask(**selection, **parameters)
            if plot_file is not None and plot is not None:
                complete_answer = ask(**parameters) if any(selection.values()) else answer
                if complete_answer.jobs:
                    raise several_jobs(complete_answer.jobs)
                save_figure(plot.figure(complete_answer), plot_file)
            judged = judge_all(conditions, ask, parameters) if gates else []
            answer = replace(answer, gates=tuple(gate.as_row() for gate in judged))
        source = ""
        if "job" in given:
            source = typed_sources(
                given["sources"],
                given["job"],
                reading["capture"],
                ranks=given["ranks"],
                steps=given["steps"],
                part=event_filter(**filters),
            )
        print_answer(answer, form, width=width, max_rows=max_rows, all_columns=all_columns, source=source)
        if plot_file is not None:
            print_err(f"{plot_file}: drawn")
        if judged:
            report_gates(judged)

    command = click.command(
        name=question.name,
        help=f"{question.asks}\n\n{_help_text(inspect.cleandoc(question.explanation))}",
        short_help=question.asks,
        epilog=f"Columns: {', '.join(column.name for column in question.columns)}",
    )
    return command(_with_options(run, question))


@contextmanager
def _opened(question: Question, given: dict[str, Any], **reading: Any) -> Iterator[Callable[..., Table]]:
    """Opens the sources of a question, and yields a function that asks it with its parameters."""
    filters = {name: given[name] for name in get_args(Filter)}
    if question.recordings == "one":
        with open_watched(*given["sources"], job=given["job"], **reading) as trace:
            narrowed = {"rank": given["ranks"], "step": given["steps"], **filters}
            yield lambda **parameters: trace.ask(question.name, **narrowed, **parameters)
        return
    from stepscope.api.several import open_several

    sources = given["sources"] if "sources" in given else (given["before"], given["after"])
    chosen = {"names": given["names"], "jobs": given["jobs"], "part": event_filter(**filters)}
    with progress_on() as progress, open_several(question, sources, **chosen, progress=progress, **reading) as ask:
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
        filter_options(*(name for taken in filters_of(question).values() for name in taken)),
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
    if (plot := renderer_of(question.drawing).plot) is not None:
        options.append(
            click.option(
                *plot.flags,
                "plot_file",
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
