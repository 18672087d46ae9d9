"""Makes the Python methods of an open recording, and the functions that compare several, from the
questions' declarations.
"""

from __future__ import annotations

import builtins
import textwrap

from stepscope.answers.declare import Parameter, Question

PYTHON_TYPES = {"int": "int", "float": "float", "text": "str", "bool": "bool"}
FILTERS = (
    (
        "name",
        "str | None",
        "only operators, ranges, kernels and calls of this name, `*gemm*` or `/sgemm|hgemm/`, and what "
        "such operators launched themselves",
    ),
    (
        "under",
        "str | None",
        "only what ran in this module (its backward too), or inside this operator or range",
    ),
    (
        "window",
        "str | tuple[int, int] | None",
        "only this stretch of time, as `1.5s:2s` or two times in ns; what reaches out of it is cut",
    ),
)
COMMON = (
    ("top", "int | None", "only the first so many rows"),
    ("columns", "Sequence[str] | None", "only these columns, in this order"),
    (
        "sort",
        "str | None",
        "in order of this column, numbers largest first; `name:desc` and `total_ns:asc` say which way",
    ),
    ("rank", "int | Iterable[int] | None", "only this rank or these ranks"),
    ("step", "int | Iterable[int] | None", "only this step or these steps"),
    *FILTERS,
)
OF_SEVERAL = (
    (
        "names",
        "Sequence[str] | None",
        "what to call the recordings; by default the last parts of their paths",
    ),
    (
        "job",
        "str | Sequence[str] | None",
        "where the files of a recording are of several jobs, which one is meant: one name for all recordings, "
        "or one for each in order",
    ),
    ("top", "int | None", "only the first so many rows"),
    ("columns", "Sequence[str] | None", "only these columns, in this order"),
    ("sort", "str | None", "in order of this column: `change_ns`, `name:desc`"),
    *FILTERS,
    (
        "capture",
        "Captures",
        "recordings in which the jobs' CUDA graphs were captured; for files only",
    ),
    ("cache", "bool", "keep what is imported for the next time (the default)"),
    ("strict", "bool", "treat any damage in a file as an error"),
    ("progress", "Progress | None", "is told how far reading has got"),
)
SOURCES = {
    "two": (
        ("before", "Source", "a folder, file, store, open trace or result of `parse_result`"),
        ("after", "Source", "what it is compared with, recorded in the same way"),
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
from typing import TYPE_CHECKING, Literal, TypedDict

from stepscope.api.several import Source, ask_of_several

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from stepscope.answers.table import Table
    from stepscope.api.trace import Captures
    from stepscope.store.progress import Progress


{asked_class("AskedOfSeveral", "What every comparison can be asked with, by keyword.", OF_SEVERAL)}

{functions}'''


def asked_class(name: str, what: str, common: tuple[tuple[str, str, str], ...]) -> str:
    """The keywords that several functions take, as a type."""
    meanings = "\n".join(
        line
        for keyword, _, words in common
        for line in wrapped(f"* `{keyword}`: {words}.", " " * 4, " " * 6)
    )
    types = "\n".join(f"    {keyword}: {kind}" for keyword, kind, _ in common)
    return f'''class {name}(TypedDict, total=False):
    """{what}

{meanings}
    """

{types}
'''


def function(question: Question) -> str:
    sources = SOURCES[question.recordings]
    given = [name for name, _, _ in sources]
    meanings = [
        *((name, words) for name, _, words in sources),
        *((p.name, p.meaning) for p in question.parameters),
    ]
    listed = f"({', '.join(given)})" if len(given) > 1 else given[0]
    passed = "".join(f"{p.name}={p.name}, " for p in question.parameters)
    lines = [
        f"def {question.method}(",
        *(f"    {name}: {kind}," for name, kind, _ in sources),
        *(["    *,"] if question.parameters else []),
        *(f"    {python_parameter(p)}," for p in question.parameters),
        "    **asked: Unpack[AskedOfSeveral],",
        ") -> Table:",
        f'    """{question.asks}',
        "",
        "    Beside its own parameters it takes those of `AskedOfSeveral`.",
        "",
        "    Args:",
        *(
            line
            for name, words in meanings
            for line in wrapped(f"{name}: {words}.", " " * 8, " " * 12)
        ),
        "",
        *wrapped(f"Columns: {', '.join(c.name for c in question.columns)}.", " " * 4, " " * 4),
        "",
        "    Raises:",
        "        SourceError: a source cannot be read, or they have nothing that can be compared.",
        "        UsageError: a column, choice or number of names that does not exist.",
        '    """',
        f"    return ask_of_several({quoted(question.name)}, {listed}, {passed}**asked)",
    ]
    return "".join(f"{line}\n" for line in lines)


def methods_module(questions: tuple[Question, ...]) -> str:
    methods = "\n".join(method(question) for question in questions)
    return f'''"""One method per question. Made by docs/generate.py from the declarations; do not edit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from stepscope.answers.table import Table


{asked_class("Asked", "What every question can be asked with, by keyword.", COMMON)}

class QuestionMethods(ABC):
    """What an open recording can be asked, as typed methods. `Trace` answers them.

    Beside its own parameters every method takes those of `Asked`.

    Raises:
        UsageError: a rank, step, column or choice that does not exist.
    """

    @abstractmethod
    def ask(self, question: str, **asked: Any) -> Table:
        """Asks a question by its name."""

{methods}'''


def method(question: Question) -> str:
    signature = [python_parameter(p) for p in question.parameters]
    meanings = [(p.name, p.meaning) for p in question.parameters]
    lines = [
        *signature_lines(question.method, signature),
        f'    """{question.asks}',
        "",
        *(["    Args:"] if meanings else []),
        *(
            line
            for name, words in meanings
            for line in wrapped(f"{name}: {words}.", " " * 8, " " * 12)
        ),
        *([""] if meanings else []),
        *wrapped(f"Columns: {', '.join(c.name for c in question.columns)}.", " " * 4, " " * 4),
        '    """',
        *call(question.name, [name for name, _ in meanings]),
    ]
    return "".join(f"    {line}".rstrip() + "\n" for line in lines)


def signature_lines(method: str, parameters: list[str]) -> list[str]:
    """How a method starts, on one line where it fits, as the formatter has it."""
    if not parameters:
        return [f"def {method}(self, **asked: Unpack[Asked]) -> Table:"]
    one = f"def {method}(self, *, {', '.join(parameters)}, **asked: Unpack[Asked]) -> Table:"
    if len(one) <= 96 and not any(map(shadowing, parameters)):
        return [one]
    given = [line for text in parameters for line in parameter_lines(text)]
    return [
        f"def {method}(",
        "    self,",
        "    *,",
        *given,
        "    **asked: Unpack[Asked],",
        ") -> Table:",
    ]


def parameter_lines(text: str) -> list[str]:
    """A parameter on a line of its own; many choices on one line each, as the formatter has it."""
    line = f"    {text},{shadowing(text)}"
    head, opened, rest = text.partition("Literal[")
    if len(line) <= 96 or not opened:
        return [line]
    choices, default = rest.split("]")
    return [
        f"    {head}{opened}",
        *(f"        {choice}," for choice in choices.split(", ")),
        f"    ]{default},",
    ]


def call(question: str, names: list[str]) -> list[str]:
    """The call of `ask`, on one line where it fits, as the formatter has it."""
    arguments = [quoted(question), *(f"{name}={name}" for name in names), "**asked"]
    line = f"    return self.ask({', '.join(arguments)})"
    if len(line) <= 96:
        return [line]
    return ["    return self.ask(", *(f"        {argument}," for argument in arguments), "    )"]


def shadowing(signature: str) -> str:
    """An option may be called like a builtin: `all`."""
    return "  # noqa: A002" if hasattr(builtins, signature.partition(":")[0]) else ""


def wrapped(text: str, first: str, rest: str) -> list[str]:
    return textwrap.wrap(text, 92, initial_indent=first, subsequent_indent=rest)


def python_parameter(parameter: Parameter) -> str:
    kind = PYTHON_TYPES[parameter.type]
    if parameter.choices:
        kind = f"Literal[{', '.join(map(quoted, parameter.choices))}]"
    if parameter.default is None:
        kind += " | None"
    default = quoted(parameter.default)
    return f"{parameter.name}: {kind} = {default}"


def quoted(value: object) -> str:
    """A literal as the formatter wants it."""
    return f'"{value}"' if isinstance(value, str) else repr(value)
