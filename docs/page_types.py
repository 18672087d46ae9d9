"""Makes the page's TypeScript types of answers from the questions' declarations."""

from __future__ import annotations

import json
from textwrap import fill

from stepscope.query.declare import Question

_TYPES = {"int": "number", "float": "number", "text": "string", "bool": "boolean"}
_WIDTH = 110
_HEAD = """\
// Made by docs/generate.py. Change the source it names, then run it again.

/** A row as an answer's JSON has it: null is "not measured", and a form of a question may leave columns out. */
type Row<Columns> = { readonly [Name in keyof Columns]?: Columns[Name] | null };

/** One row of each question's answer; what a column means is in the question's declaration. */
"""


def page_types_module(questions: tuple[Question, ...]) -> str:
    """Makes a module with the type `Rows`: question → row. Columns are described in the question's declaration."""
    parts = [_HEAD, "export type Rows = {\n"]
    for question in questions:
        columns = " ".join(f"{column.name}:\0{_TYPES[column.type]};" for column in question.columns)
        lines = fill(columns, _WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 4)
        parts.append(f"  /** {_comment(question.asks)} */\n  {json.dumps(question.name)}: Row<{{\n")
        parts.append(lines.replace("\0", " ") + "\n  }>;\n")
    return "".join([*parts, "};\n"])


def _comment(text: str) -> str:
    return text.replace("*/", "* /")
