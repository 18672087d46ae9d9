"""`stepscope diff`: what got slower or faster between two recordings, and gates for a CI job."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from stepscope.cli.choices import form_options, reading_options
from stepscope.cli.output import check_form, put_answer
from stepscope.floor.errors import CheckFailedError
from stepscope.progress import progress_on

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.compare.gates import Judged

# Written out, because the command line is listed without importing any question.
_BY = ("category", "operator", "kernel", "module", "label", "phase")

ERRORS = {
    "gate-failed": (
        "A change is beyond what `stepscope diff --fail-if` allows; the lines before it say by "
        "how much, and how sure that is. The exit code is 3, so that a script can stop. See "
        "[diff](diff.md)."
    ),
}


@click.command(name="diff", short_help="What got slower or faster from one recording to another?")
@click.argument("before", metavar="BEFORE", type=click.Path())
@click.argument("after", metavar="AFTER", type=click.Path())
@click.option(
    "--by",
    type=click.Choice(_BY),
    default=None,
    metavar=f"[{'|'.join(_BY)}]",
    help="What is compared. By default the first of category, label and phase that both have.",
)
@click.option(
    "--fail-if",
    "gates",
    multiple=True,
    metavar="GATE",
    help="Exit with code 3 if this is so: 'step_time > +3%', 'forward > +2ms', 'kernel:NAME < -5%'. "
    "A change whose 95 % interval contains 0 counts as none. May be given several times.",
)
@click.option(
    "--names",
    metavar="BEFORE,AFTER",
    help="What to call the two. By default the last parts of their paths.",
)
@click.option(
    "--top",
    type=click.INT,
    metavar="N",
    help="The first N rows alone. In words, 30 are shown by default.",
)
@click.option(
    "-w",
    "--width",
    type=click.IntRange(min=20),
    metavar="N",
    help="In words, fit into N columns of text.",
)
@form_options
@reading_options
def command(
    before: str,
    after: str,
    by: str | None,
    gates: tuple[str, ...],
    names: str | None,
    top: int | None,
    width: int | None,
    as_json: bool,
    as_csv: bool,
    parquet: str | None,
    no_cache: bool,
    strict: bool,
) -> None:
    """Sets two recordings beside each other: what got slower or faster, and how sure that is.

    The first row is the whole step, the others are its parts, the largest changes first: of traces
    what a step consists of (category), operators, kernels or modules, of inline measurements their
    labels, of phases the phases. Times are means per step and averages over ranks. Each change has a
    95 % interval with steps as samples; where it contains 0 the change is unclear.

    Exit code 3 when what --fail-if says is so.
    """
    from stepscope.answers.ask import check_top
    from stepscope.compare.diff import first_rows, open_pair
    from stepscope.compare.gates import judge, parse_gate
    from stepscope.report.text import MOST_ROWS

    check_form(as_json=as_json, as_csv=as_csv, parquet=parquet)
    check_top(top)
    asked = [parse_gate(text) for text in gates]
    with (
        progress_on() as progress,
        open_pair(
            before,
            after,
            names=None if names is None else [name.strip() for name in names.split(",")],
            cache=not no_cache,
            strict=strict,
            progress=progress,
        ) as pair,
    ):
        progress.finish()
        table = pair.compare(by)
        judged = [judge(gate, pair, by) for gate in asked]
    put_answer(
        first_rows(table, top),
        as_json=as_json,
        as_csv=as_csv,
        parquet=parquet,
        width=width,
        most=MOST_ROWS if top is None else None,
    )
    if judged:
        sys.stdout.flush()
        _tell(judged)


def _tell(judged: Sequence[Judged]) -> None:
    from stepscope.report.diff_text import gate_text

    failed = [one for one in judged if one.failed]
    for one in judged:
        click.echo(gate_text(one), err=True)
    if failed:
        raise CheckFailedError(
            f"{len(failed)} of {len(judged)} gates failed"
            if len(judged) > 1
            else "the gate failed",
            hint="stepscope diff --by operator, kernel or module says more about the same traces"
            if any(one.row["name"] == "step" for one in failed)
            else "the lines above say what was measured",
            slug="gate-failed",
        )
