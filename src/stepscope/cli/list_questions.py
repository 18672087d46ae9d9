"""`stepscope questions`: lists the questions."""

from __future__ import annotations

import json

import click

from stepscope.cli.terminal.printing import print_out
from stepscope.questions import all_questions, find, grouped


@click.command(name="questions", short_help="Lists the questions, or explains some: definitions and columns.")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Answer as one JSON object.")
def command(names: tuple[str, ...], as_json: bool) -> None:
    """Lists the questions by group.

    With names, prints their documentation: definitions, parameters, columns, and the checks that make the
    answer unreliable. --json has the parameters and columns of all.
    """
    questions = [find(name) for name in names] if names else all_questions()
    if as_json:
        from stepscope.report.declaration import declaration

        answer = {"questions": [declaration(question) for question in questions]}
        print_out(json.dumps(answer, indent=2, ensure_ascii=False) + "\n", is_json=True)
    elif names:
        from stepscope.report.question_page import question_page

        print_out("\n".join(question_page(question) for question in questions))
    else:
        formatter = click.get_current_context().make_formatter()
        for group, members in grouped().items():
            added = {question.name: f" Added by the {question.added_by}." for question in members if question.added_by}
            with formatter.section(group.capitalize()):
                formatter.write_dl(
                    [(question.name, question.asks + added.get(question.name, "")) for question in members], col_max=20
                )
        print_out(formatter.getvalue().removeprefix("\n"))
