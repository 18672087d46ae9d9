"""Writes the pages and the Python methods that follow from declarations in the source.

python docs/generate.py           # writes what is out of date
python docs/generate.py --check   # says what is out of date, exit code 1
"""

from __future__ import annotations

import builtins
import inspect
import re
import sys
import textwrap
from pathlib import Path

import click
from error_texts import ERRORS

from stepscope.cli.main import commands
from stepscope.questions import every
from stepscope.questions.declare import Parameter, Question
from stepscope.questions.invariants import INVARIANTS
from stepscope.store.schema import STORE_VERSION, schema_tables

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "stepscope"
MADE = "<!-- Made by docs/generate.py. Change the source it names, then run it again. -->\n\n"


def main() -> int:
    pages = all_pages()
    old = [path for path, text in pages.items() if not path.exists() or path.read_text() != text]
    old += stale_pages(set(pages))
    for path in sorted(old):
        print(path.relative_to(ROOT))
    if "--check" in sys.argv[1:]:
        return 1 if old else 0
    for path in old:
        if path in pages:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(pages[path])
        else:
            path.unlink()
    return 0


def all_pages() -> dict[Path, str]:
    """Path → text of everything that is generated."""
    docs = ROOT / "docs"
    questions = every()
    pages = {
        SOURCE / "questions" / "methods.py": methods_module(questions),
        docs / "index.md": index_page(questions),
        docs / "cli.md": cli_page(),
        docs / "schema.md": schema_page(),
        docs / "errors.md": errors_page(),
        docs / "checks.md": checks_page(),
    }
    for question in questions:
        pages[docs / "questions" / f"{question.name}.md"] = question_page(question)
    return pages


def stale_pages(made: set[Path]) -> list[Path]:
    """Pages of questions that are gone."""
    return [path for path in (ROOT / "docs" / "questions").glob("*.md") if path not in made]


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""

    def line(cells: list[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    return "\n".join([line(head), line(["---"] * len(head)), *map(line, rows)]) + "\n"


def question_page(question: Question) -> str:
    parts = [
        f"# {question.name}\n",
        f"{question.asks}\n",
        f"    stepscope {question.name} SRC\n    stepscope.open(SRC).{question.method}()\n",
        inspect.cleandoc(question.explanation) + "\n",
    ]
    if question.parameters:
        rows = [
            [
                f"`--{p.name.replace('_', '-')}`",
                f"{p.meaning}{': ' if p.choices else ''}{', '.join(f'`{c}`' for c in p.choices)}",
                "" if p.default is None else f"`{p.default}`",
            ]
            for p in question.parameters
        ]
        parts += ["## Parameters\n", table(["option", "meaning", "default"], rows)]
    rows = [[f"`{c.name}`", c.type, c.unit, c.meaning] for c in question.columns]
    parts += ["## Columns\n", table(["column", "type", "unit", "meaning"], rows)]
    if question.needs == "device" or question.fills:
        needs = "It needs device events. " if question.needs == "device" else ""
        parts += ["## When it is empty\n", f"{needs}{question.fills}\n"]
    if question.affected_by:
        checks = ", ".join(f"[`{c}`](../checks.md#{c})" for c in question.affected_by)
        parts += ["## Checks that make it unreliable\n", f"{checks}\n"]
    return MADE + "\n".join(parts)


def index_page(questions: tuple[Question, ...]) -> str:
    rows = [[f"[{q.name}](questions/{q.name}.md)", q.asks] for q in questions]
    return MADE + (
        "# StepScope\n\n"
        "Where a training step's time goes, and how far that is from the hardware's limit.\n\n"
        "## Questions\n\n" + table(["question", "asks"], rows) + "\n"
        "## Reference\n\n"
        "* [The command line](cli.md)\n"
        "* [The tables](schema.md), for SQL of your own\n"
        "* [Data-quality checks and invariants](checks.md)\n"
        "* [Errors](errors.md)\n"
    )


def cli_page() -> str:
    root = click.Context(commands, info_name="stepscope", terminal_width=100)
    parts = ["# The command line\n", fenced(commands.get_help(root))]
    for name in commands.list_commands(root):
        command = commands.get_command(root, name)
        if command is None:
            raise LookupError(name)
        context = click.Context(command, info_name=name, parent=root, terminal_width=100)
        parts += [f"## stepscope {name}\n", fenced(command.get_help(context))]
    parts += [
        "## Exit codes\n",
        table(
            ["code", "meaning"],
            [
                ["0", "answered"],
                ["1", "an error: one line of what, one line of what to do"],
                ["2", "the call was wrong"],
                ["3", "a check or a gate did not hold"],
                ["130", "interrupted"],
            ],
        ),
    ]
    return MADE + "\n".join(parts)


def fenced(text: str) -> str:
    return f"```text\n{text.rstrip()}\n```\n"


def schema_page() -> str:
    parts = [
        "# The tables\n",
        f"Version {STORE_VERSION}. Times are integer nanoseconds since the run's start, sizes are "
        'bytes, NULL means “not measured”. `stepscope sql SRC "SELECT ..."` asks them.\n',
    ]
    for found in schema_tables().values():
        rows = [
            [f"`{c.name}`", c.sql_type, "" if c.nullable else "always", c.meaning]
            for c in found.columns
        ]
        parts += [
            f"## {found.name}\n",
            f"{found.meaning}\n",
            table(["column", "type", "present", "meaning"], rows),
        ]
    return MADE + "\n".join(parts)


def slugs() -> set[str]:
    """Every slug that the source gives to an error."""
    found: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        found |= set(re.findall(r"slug(?:: str)?\s*=\s*f?\"([^\"]+)\"", path.read_text()))
    return found


def errors_page() -> str:
    parts = [
        "# Errors\n",
        "The word in brackets at the end of an error's first line is its name here.\n",
    ]
    for slug, words in sorted(ERRORS.items()):
        parts += [f"## {slug}\n", f"{words}\n"]
    return MADE + "\n".join(parts)


def checks_page() -> str:
    parts = [
        "# Checks\n",
        "## Invariants\n",
        "What `stepscope check` holds against the tables of every store; a violation is an error in "
        "StepScope. Exit code 3.\n",
        table(["invariant", "what must hold"], [[f"`{n}`", words] for n, words, _ in INVARIANTS]),
    ]
    return MADE + "\n".join(parts)


def methods_module(questions: tuple[Question, ...]) -> str:
    methods = "\n".join(method(question) for question in questions)
    return f'''"""One method per question. Made by docs/generate.py from the declarations; do not edit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from stepscope.questions.table import Table


class QuestionMethods(ABC):
    """What an open recording can be asked, as typed methods. `Trace` answers them."""

    @abstractmethod
    def ask(self, question: str, **asked: Any) -> Table:
        """Asks a question by its name."""

{methods}'''


PYTHON_TYPES = {"int": "int", "float": "float", "text": "str", "bool": "bool"}
COMMON = (
    ("top", "int | None", "the first so many rows alone"),
    ("columns", "Sequence[str] | None", "these columns alone, in this order"),
    ("rank", "int | Iterable[int] | None", "of this rank or these ranks alone"),
    ("step", "int | Iterable[int] | None", "of this step or these steps alone"),
)


def method(question: Question) -> str:
    signature = [python_parameter(p) for p in question.parameters]
    signature += [f"{name}: {kind} = None" for name, kind, _ in COMMON]
    meanings = [(p.name, p.meaning) for p in question.parameters]
    meanings += [(name, words) for name, _, words in COMMON]
    lines = [
        f"def {question.method}(",
        "    self,",
        "    *,",
        *(f"    {text}," + shadowing(text) for text in signature),
        ") -> Table:",
        f'    """{question.asks}',
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
        "        UsageError: a rank, step, column or choice that does not exist.",
        '    """',
        "    return self.ask(",
        f'        "{question.name}",',
        *(f"        {name}={name}," for name, _ in meanings),
        "    )",
    ]
    return "".join(f"    {line}".rstrip() + "\n" for line in lines)


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


if __name__ == "__main__":
    sys.exit(main())
