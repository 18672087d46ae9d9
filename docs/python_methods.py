"""Makes the type stubs of a trace's methods, and of the functions that compare recordings, from declarations."""

from __future__ import annotations

import textwrap

from stepscope.api.comparisons import SOURCES
from stepscope.api.question_methods import docstring
from stepscope.query.declare import About, Parameter, Question

PYTHON_TYPES = {"int": "int", "float": "float", "text": "str", "bool": "bool"}
SOURCE_TYPES = {"before": "Source", "after": "Source", "sources": "Sequence[Source]"}
ASKED: dict[About, str] = {"events": "AskedOfEvents", "time": "AskedOfTime", "recording": "AskedOfRecording"}
"""Further arguments of questions, by what the questions are about, the most arguments first."""
WIDTH = 120


def methods_stub(questions: tuple[Question, ...]) -> str:
    methods = [
        textwrap.indent(function(question, {"self": ""}, {}, ASKED[widest(question)]), "    ") for question in questions
    ]
    return f'''"""One method per question. Made by docs/generate.py from the declarations; do not edit."""

from typing import Any, Literal

from typing_extensions import Unpack

from stepscope.api.asked import {", ".join(sorted(ASKED.values()))}
from stepscope.query.table import Table

class QuestionMethods:
    """The questions about one recording as typed methods.

    Raises:
        UsageError: a rank, step, column or choice does not exist.
    """

    def ask(self, question: str, **asked: Any) -> Table:
        """Asks a question by its name."""

{chr(10).join(methods)}'''


def comparisons_stub(questions: tuple[Question, ...]) -> str:
    functions = []
    for question in questions:
        sources = SOURCES[question.recordings]
        positional = {name: f": {SOURCE_TYPES[name]}" for name in sources}
        functions.append(function(question, positional, sources, "AskedOfSeveral"))
    return f'''"""One function per question that compares recordings. Made by docs/generate.py; do not edit."""

from collections.abc import Sequence
from typing import Literal

from typing_extensions import Unpack

from stepscope.api.asked import AskedOfSeveral
from stepscope.api.several import Source
from stepscope.query.table import Table

{chr(10).join(functions)}'''


def widest(question: Question) -> About:
    """What a question is about; if its forms differ, that of the form with the most arguments."""
    forms = {question.about} if isinstance(question.about, str) else {*question.about.values()}
    return next(about for about in ASKED if about in forms)


def function(question: Question, positional: dict[str, str], sources: dict[str, str], asked: str) -> str:
    own = [python_parameter(p) for p in question.parameters]
    given = [name + kind for name, kind in positional.items()]
    given += [*(["*"] if own else []), *own, f"**asked: Unpack[{asked}]"]
    signature = f"def {question.method}({', '.join(given)}) -> Table:"
    if len(signature) > WIDTH - 4:
        signature = "\n".join([f"def {question.method}(", *(f"    {one}," for one in given), ") -> Table:"])
    doc = textwrap.indent(docstring(question, sources), "    ")
    return f'{signature}\n    """{doc.lstrip()}    """\n'


def python_parameter(parameter: Parameter) -> str:
    kind = PYTHON_TYPES[parameter.type]
    if parameter.choices:
        kind = f"Literal[{', '.join(map(quoted, parameter.choices))}]"
    if parameter.default is None:
        kind += " | None"
    return f"{parameter.name}: {kind} = {quoted(parameter.default)}"


def quoted(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)
