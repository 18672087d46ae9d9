"""Makes a question's page in Markdown from its declaration, for the documentation and for plug-ins."""

from __future__ import annotations

import inspect

from stepscope.formats.evidence import bears_on
from stepscope.link.folder_checks import CHECKS
from stepscope.query.declare import Question
from stepscope.query.event_filter import filters_of
from stepscope.report.markdown_table import markdown_table

_COMMAND = {"one": "SRC", "two": "BEFORE AFTER", "several": "SRC..."}
_CALL = {"one": "stepscope.open(SRC).{}()", "two": "stepscope.{}(BEFORE, AFTER)", "several": "stepscope.{}([SRC, ...])"}


def question_page(question: Question) -> str:
    """Describes a question: its text, definitions, parameters, columns and the checks that affect it."""
    parts = [
        f"# {question.name}\n",
        f"{question.asks}\n",
        f"    stepscope {question.name} {_COMMAND[question.recordings]}\n"
        f"    {_CALL[question.recordings].format(question.method)}\n",
        inspect.cleandoc(question.explanation) + "\n",
    ]
    if question.added_by:
        parts.append(f"Added by the {question.added_by}.\n")
    if question.parameters:
        rows = [
            [
                f"`--{p.name.replace('_', '-')}`",
                f"{p.meaning}{': ' if p.choices else ''}{', '.join(f'`{c}`' for c in p.choices)}",
                "" if p.default is None else f"`{p.default}`",
            ]
            for p in question.parameters
        ]
        parts += ["## Parameters\n", markdown_table(["option", "meaning", "default"], rows)]
    parts.append(_filters(question))
    rows = [[f"`{c.name}`", c.type, c.unit, c.meaning] for c in question.columns]
    parts += ["## Columns\n", markdown_table(["column", "type", "unit", "meaning"], rows)]
    if question.needs == "device" or question.fills:
        needs = "It needs device events. " if question.needs == "device" else ""
        parts += ["## When it is empty\n", f"{needs}{question.fills}".strip() + "\n"]
    checks = [check for check in CHECKS if bears_on(",".join(check.damages), question.rests_on)]
    parts += [
        "## Checks that make it unreliable\n",
        f"{', '.join(f'[`{c.name}`](../checks.md#{c.name})' for c in checks)}\n",
    ]
    return "\n".join(parts)


def _filters(question: Question) -> str:
    """States in a sentence which filters of events it takes."""
    by_form = {by: ", ".join(f"`--{name}`" for name in taken) or "none" for by, taken in filters_of(question).items()}
    if list(by_form) == [None]:
        words = by_form[None]
    else:
        words = "; ".join(f"{taken} with `--by {by}`" for by, taken in by_form.items() if by)
    return f"[Filters of events](../filters.md) that it takes: {words}.\n"
