"""`stepscope check`: whether a recording's tables can be trusted."""

from __future__ import annotations

from typing import Any

import click

from stepscope.base.errors import CheckFailedError
from stepscope.cli.choices import form_options, reading_options, sources_argument, typed_sources
from stepscope.cli.terminal.invoked_as import invoked_as
from stepscope.cli.terminal.output import chosen_form, print_answer
from stepscope.cli.terminal.progress import open_watched

ERRORS = {
    "check-failed": (
        "`stepscope check` found a data-quality check of severity error, or a violated invariant "
        "of the tables. The exit code is 3, so that a script can stop. See [checks](checks.md)."
    )
}


@click.command(name="check", short_help="Checks whether the tables can be trusted; exits with 3 if not.")
@sources_argument
@reading_options
@form_options
def command(sources: tuple[str, ...], job: str | None, reading: dict[str, Any], **given: Any) -> None:
    """Verifies the checksum of every file of the store, then runs the data-quality checks of the recording
    and the invariants of its tables.

    Exit code 3 if an invariant is violated or a check of severity error found something.
    """
    from stepscope.query.ask import ask
    from stepscope.questions.invariants import invariants

    form = chosen_form(given)
    with open_watched(*sources, job=job, **reading) as trace:
        trace.store.verify_all_files()
        answer = ask(invariants, trace.store)
    print_answer(answer, form)
    failed = [row["check"] for row in answer.rows() if row["severity"] == "error"]
    if failed:
        named = typed_sources(sources, job, reading["capture"])
        raise CheckFailedError(
            f"{named}: {', '.join(failed)} failed",
            hint=f"affected answers are marked; details: {invoked_as()} checks {named}",
            slug="check-failed",
        )
