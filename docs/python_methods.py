"""Makes the Python methods of an open recording, and the functions that compare recordings, from declarations."""

from __future__ import annotations

import builtins
import textwrap

from stepscope.query.declare import About, Parameter, Question

WIDTH = 120
PYTHON_TYPES = {"int": "int", "float": "float", "text": "str", "bool": "bool"}
ASKED: dict[About, str] = {"events": "AskedOfEvents", "time": "AskedOfTime", "recording": "AskedOfRecording"}
"""Further arguments of questions, by what the questions are about, the most arguments first."""
SOURCES = {
    "two": (
        ("before", "Source", "a folder, file, store, open trace or result of `parse_result`"),
        ("after", "Source", "the recording to compare with `before`, made in the same way"),
    ),
    "several": (
        (
            "sources",
            "Sequence[Source]",
            "a folder, file, store, open trace or result of `parse_result` for each recording",
        ),
    ),
}


def comparisons_module(questions: tuple[Question, ...]) -> str:
    functions = "\n\n".join(function(question) for question in questions)
    return f'''"""One function per question that compares recordings. Made by docs/generate.py from the declarations;
do not edit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from stepscope.api.several import Source, ask_of_several

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from stepscope.api.asked import AskedOfSeveral
    from stepscope.query.table import Table


{functions}'''


def function(question: Question) -> str:
    sources = SOURCES[question.recordings]
    given = [name for name, _, _ in sources]
    listed = f"({', '.join(given)})" if len(given) > 1 else given[0]
    lines = [
        *signature_lines(question, [f"{name}: {kind}" for name, kind, _ in sources], "AskedOfSeveral"),
        f'    """{question.asks}',
        "",
        "    Also takes the arguments of `AskedOfSeveral`.",
        "",
        *argument_lines([(name, words) for name, _, words in sources], question),
        *column_lines(question),
        "",
        "    Raises:",
        "        SourceError: a source cannot be read, or nothing can be compared.",
        "        UsageError: a column or choice does not exist, or the number of names is wrong.",
        '    """',
        *call_lines("ask_of_several", question, [listed]),
    ]
    return "".join(f"{line}\n" for line in lines)


def widest(question: Question) -> About:
    """What a question is about; if its forms differ, that of the form with the most arguments."""
    forms = {question.about} if isinstance(question.about, str) else {*question.about.values()}
    return next(about for about in ASKED if about in forms)


def methods_module(about: About, questions: tuple[Question, ...]) -> str:
    own = [question for question in questions if widest(question) == about]
    asked, name = ASKED[about], f"{about.removesuffix('s').capitalize()}Questions"
    typing = "TYPE_CHECKING" + ", Literal" * any(p.choices for q in own for p in q.parameters)
    return f'''"""One method per question about {about}. Made by docs/generate.py from the declarations; do not edit."""

from __future__ import annotations

from typing import {typing}

from stepscope.api.asked import Asks

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from stepscope.api.asked import {asked}
    from stepscope.query.table import Table


class {name}(Asks):
    """The questions about {about} as typed methods. `Trace` answers them.

    Every method also takes the arguments of `{asked}`.

    Raises:
        UsageError: a rank, step, column or choice does not exist.
    """

{chr(10).join(method(question, asked) for question in own)}'''


def method(question: Question, asked: str) -> str:
    lines = [
        *signature_lines(question, ["self"], asked, indent=4),
        f'    """{question.asks}',
        "",
        *argument_lines([], question),
        *column_lines(question),
        '    """',
        *call_lines("self.ask", question, [], indent=4),
    ]
    return "".join(f"    {line}".rstrip() + "\n" for line in lines)


def signature_lines(question: Question, positional: list[str], asked: str, *, indent: int = 0) -> list[str]:
    """A function's signature, broken into lines as the formatter does."""
    own = [python_parameter(p) for p in question.parameters]
    given = [*positional, *(["*"] if own else []), *own, f"**asked: Unpack[{asked}]"]
    room = WIDTH - indent
    if not any(map(shadowing, own)):
        one = f"def {question.method}({', '.join(given)}) -> Table:"
        if len(one) <= room:
            return [one]
        if len(inside := f"    {', '.join(given)}") <= room:
            return [f"def {question.method}(", inside, ") -> Table:"]
    lines = [line for text in given for line in parameter_lines(text, room)]
    return [f"def {question.method}(", *lines, ") -> Table:"]


def parameter_lines(text: str, room: int) -> list[str]:
    """A parameter on its own line; many choices on one line each, as the formatter does."""
    line = f"    {text},{shadowing(text)}"
    head, opened, rest = text.partition("Literal[")
    if len(line) <= room or not opened:
        return [line]
    choices, default = rest.split("]")
    if len(inside := f"        {choices}") <= room:
        return [f"    {head}{opened}", inside, f"    ]{default},"]
    return [f"    {head}{opened}", *(f"        {choice}," for choice in choices.split(", ")), f"    ]{default},"]


def argument_lines(positional: list[tuple[str, str]], question: Question) -> list[str]:
    meanings = [*positional, *((p.name, p.meaning) for p in question.parameters)]
    if not meanings:
        return []
    lines = [line for name, words in meanings for line in wrapped(f"{name}: {words}.", " " * 8, " " * 12)]
    return ["    Args:", *lines, ""]


def column_lines(question: Question) -> list[str]:
    named = f"Columns: {', '.join(column.name for column in question.columns)}."
    return wrapped(named, " " * 4, " " * 4)


def call_lines(called: str, question: Question, positional: list[str], *, indent: int = 0) -> list[str]:
    """The call that answers, broken into lines as the formatter does."""
    passed = [f"{p.name}={p.name}" for p in question.parameters]
    arguments = [quoted(question.name), *positional, *passed, "**asked"]
    line = f"    return {called}({', '.join(arguments)})"
    if len(line) <= WIDTH - indent:
        return [line]
    inside = [f"        {', '.join(arguments)}"]
    if len(inside[0]) > WIDTH - indent:
        inside = [f"        {argument}," for argument in arguments]
    return [f"    return {called}(", *inside, "    )"]


def shadowing(signature: str) -> str:
    """A lint exception for an option that is named like a builtin: `all`."""
    return "  # noqa: A002" if hasattr(builtins, signature.partition(":")[0]) else ""


def wrapped(text: str, first: str, rest: str) -> list[str]:
    return textwrap.wrap(text, WIDTH - 4, initial_indent=first, subsequent_indent=rest)


def python_parameter(parameter: Parameter) -> str:
    kind = PYTHON_TYPES[parameter.type]
    if parameter.choices:
        kind = f"Literal[{', '.join(map(quoted, parameter.choices))}]"
    if parameter.default is None:
        kind += " | None"
    default = quoted(parameter.default)
    return f"{parameter.name}: {kind} = {default}"


def quoted(value: object) -> str:
    """A literal as the formatter writes it."""
    return f'"{value}"' if isinstance(value, str) else repr(value)
