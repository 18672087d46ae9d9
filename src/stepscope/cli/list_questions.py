"""`stepscope questions`: lists the questions."""

from __future__ import annotations

import json

import click

from stepscope.cli.terminal.printing import print_out
from stepscope.query.declare import Question
from stepscope.questions import every, find


@click.command(name="questions", short_help="Lists the questions, with every column.")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Answer as one JSON object.")
def command(names: tuple[str, ...], as_json: bool) -> None:
    """Lists the questions with their parameters and columns.

    With names, prints their documentation: definitions, parameters, columns, and the checks that make the
    answer unreliable.
    """
    asked = [find(name) for name in names] if names else every()
    if as_json:
        from stepscope.report.declaration import declaration

        answer = {"questions": [declaration(question) for question in asked]}
        print_out(json.dumps(answer, indent=2, ensure_ascii=False) + "\n", is_json=True)
    elif names:
        from stepscope.report.question_page import question_page

        print_out("\n".join(question_page(question) for question in asked))
    else:
        print_out("\n\n".join(_as_text(question) for question in asked) + "\n")


def _as_text(question: Question) -> str:
    lines = [f"{question.name}: {question.asks}"]
    if question.added_by:
        lines.append(f"  added by the {question.added_by}")
    width = max(len(name) for name in [c.name for c in question.columns])
    for parameter in question.parameters:
        choices = f" ({', '.join(parameter.choices)})" if parameter.choices else ""
        lines.append(f"  --{parameter.name.replace('_', '-')}: {parameter.meaning}{choices}")
    lines += [f"  {c.name:<{width}}  {c.meaning}" for c in question.columns]
    return "\n".join(lines)
