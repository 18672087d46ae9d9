"""Makes the page's TypeScript types of answers from the questions' declarations."""

from __future__ import annotations

import json

from stepscope.answers.declare import Question

_TYPES = {"int": "number", "float": "number", "text": "string", "bool": "boolean"}
_HEAD = """\
// Made by docs/generate.py. Change the source it names, then run it again.

/** One row of each question's answer, as its JSON has it: null is "not measured", and a form of a question
 * may leave columns out. */
"""


def page_types_module(questions: tuple[Question, ...]) -> str:
    """A module with the type `Rows`: question → row."""
    parts = [_HEAD, "export type Rows = {\n"]
    for question in questions:
        parts.append(f"  /** {_comment(question.asks)} */\n  {json.dumps(question.name)}: {{\n")
        for column in question.columns:
            unit = f" ({column.unit})" if column.unit else ""
            parts.append(
                f"    /** {_comment(column.meaning)}{unit} */\n"
                f"    readonly {column.name}?: {_TYPES[column.type]} | null;\n"
            )
        parts.append("  };\n")
    return "".join([*parts, "};\n"])


def _comment(text: str) -> str:
    return text.replace("*/", "* /")
