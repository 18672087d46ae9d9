"""Writes the pages and Python methods that are generated from declarations in the source.

python docs/generate.py           # writes what is out of date
python docs/generate.py --check   # says what is out of date, exit code 1
"""

from __future__ import annotations

import ast
import fnmatch
import inspect
import os
import sys
from pathlib import Path

import click
from findings_page import findings_page
from page_types import page_types_module
from python_methods import comparisons_stub, methods_stub
from work_page import work_page

from stepscope.base.plugins import SWITCH
from stepscope.cli.main import commands
from stepscope.formats.damage import CLASSES
from stepscope.formats.evidence import MEANINGS
from stepscope.link.checks import Check
from stepscope.link.folder_checks import CHECKS
from stepscope.query.declare import Question
from stepscope.questions import all_questions, grouped
from stepscope.questions import names as question_names
from stepscope.questions.invariants import INVARIANTS, SUMS
from stepscope.report.markdown_table import markdown_table
from stepscope.report.question_page import question_page
from stepscope.schema.declare import SchemaColumn
from stepscope.schema.tables import STORE_VERSION, TABLES

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
    """Text by path of everything that is generated."""
    os.environ[SWITCH] = "no"  # the pages only describe what comes with StepScope
    docs = ROOT / "docs"
    questions = all_questions()
    of_one = tuple(question for question in questions if question.recordings == "one")
    of_several = tuple(question for question in questions if question.recordings != "one")
    pages = {
        SOURCE / "api" / "question_methods.pyi": methods_stub(of_one),
        SOURCE / "api" / "comparisons.pyi": comparisons_stub(of_several),
        ROOT / "web" / "src" / "questions.generated.ts": page_types_module(questions),
        docs / "index.md": index_page(),
        docs / "cli.md": cli_page(),
        docs / "schema.md": schema_page(),
        docs / "errors.md": errors_page(),
        docs / "checks.md": checks_page(),
        docs / "findings.md": MADE + findings_page(),
        docs / "work.md": MADE + work_page(),
    }
    for question in questions:
        pages[docs / "questions" / f"{question.name}.md"] = MADE + question_page(question)
    return pages


def stale_pages(made: set[Path]) -> list[Path]:
    """Pages of removed questions."""
    return [path for path in (ROOT / "docs" / "questions").glob("*.md") if path not in made]


def index_page() -> str:
    tables = [
        f"### {group.capitalize()}\n\n"
        + markdown_table(["question", "asks"], [[f"[{q.name}](questions/{q.name}.md)", q.asks] for q in members])
        for group, members in grouped().items()
    ]
    return MADE + (
        "# StepScope\n\n"
        "Where a training step's time goes, and how far that is from the hardware's limit.\n\n"
        "## What do you want to do?\n\n"
        "* Look at a trace: `stepscope summary traces/`, then any of the questions below\n"
        "* [Record a training job](recording.md): a trace, the phases of every step, or a trace while it runs; "
        "[single events](inline.md); [some steps with another profiler](capture.md)\n"
        "* [Launch another profiler](launch.md) on some ranks: [the tools](tools.md), and complete "
        "[job scripts](jobscripts.md)\n"
        "* [Understand CUDA graphs and compiled code](cuda-graphs.md)\n"
        "* [See what is in memory, and why it ran out](memory.md), and [what the host does](host.md)\n"
        "* [Run a recorded operator alone](replay.md): a script for `ncu`, a colleague or another GPU\n"
        "* [Compare two recordings](diff.md): what got slower or faster, gates for CI\n"
        "* [Write all answers into one file for a browser](report.md), and [its views](views.md)\n"
        "* [Explore a recording in a browser, here or on another machine](view.md)\n"
        "* [See what ran when](timeline.md): a timeline of any size\n"
        "* [Let an agent ask](agents.md), over the Model Context Protocol\n"
        "* [See whether a job scales](scaling.md): read, draw and compare its own measurements\n\n"
        "## Questions\n\n" + "\n".join(tables) + "\n"
        "## Reference\n\n"
        "* [The command line](cli.md)\n"
        "* [Python](python.md)\n"
        "* [Filters](filters.md): any question about some events, a module or a time window\n"
        "* [Export](export.md): a trace of all ranks for Perfetto and chrome://tracing, or a part as a store\n"
        "* [Import on a Dask cluster](clusters.md), for hundreds of ranks\n"
        "* [Glossary](glossary.md): one word for each concept, and what other tools call it\n"
        "* [The tables](schema.md), for your own SQL\n"
        "* [Data-quality checks and invariants](checks.md)\n"
        "* [Rules behind the findings](findings.md)\n"
        "* [Nsight Systems](nsight-systems.md): which of its tables are read\n"
        "* [Nsight Compute](nsight-compute.md): counters of kernels, from its reports and tables\n"
        "* [The tables of nvprof and Nsight Systems](vendor-tables.md), and which question answers each\n"
        "* [nvprof and PyProf](nvprof.md): which of their files are read, and what these do not hold\n"
        "* [`prof` beside PyProf](prof_vs_pyprof.md)\n"
        "* [Plug-ins](plugins.md): formats, tools, questions, operators, rules and devices of your own\n"
        "* [What work is counted, and what devices can do](work.md)\n"
        "* [Errors](errors.md)\n"
    )


def cli_page() -> str:
    root = click.Context(commands, info_name="stepscope")
    listed = {name: commands.get_command(root, name) for name in commands.list_commands(root)}
    questions = [option_rows(command) for name, command in listed.items() if name in question_names()]
    shared = [row for row in questions[0] if all(row in rows for rows in questions)]
    parts = [
        "# The command line\n",
        f"{inspect.cleandoc(commands.help or '')}\n",
        "## Options of every question\n",
        markdown_table(["option", "meaning"], shared),
    ]
    for name, command in listed.items():
        parts += command_section(name, command, shared if name in question_names() else [])
    parts += [
        "## Exit codes\n",
        markdown_table(
            ["code", "meaning"],
            [
                ["0", "answered"],
                ["1", "an error: one line says what happened, one what to do"],
                ["2", "a usage error"],
                ["3", "a check or a gate failed"],
                ["130", "interrupted"],
                ["141", "the reader of the output went away"],
            ],
        ),
    ]
    return MADE + "\n".join(parts)


def command_section(name: str, command: click.Command, shared: list[list[str]]) -> list[str]:
    """What a command does, and its options except shared ones; made from click's objects, because help texts differ
    between versions.
    """
    arguments = [p.metavar or (p.name or "").upper() for p in command.params if isinstance(p, click.Argument)]
    rows = option_rows(command)
    own = [row for row in rows if row not in shared]
    words = inspect.cleandoc(command.help or "")
    if name in question_names():
        words = (
            f"{command.short_help} [More](questions/{name}.md). Besides the "
            "[options of every question](#options-of-every-question):"
        )
    return [
        f"## stepscope {name}\n",
        f"    {' '.join(['stepscope', name, *(['[OPTIONS]'] if rows else []), *arguments])}\n",
        f"{words}\n",
        *([markdown_table(["option", "meaning"], own)] if own else []),
    ]


def option_rows(command: click.Command) -> list[list[str]]:
    """The options in a command's help."""
    return [option_row(p) for p in command.params if isinstance(p, click.Option) and not p.hidden]


def option_row(option: click.Option) -> list[str]:
    choices = f"[{'|'.join(option.type.choices)}]" if isinstance(option.type, click.Choice) else ""
    value = "" if option.is_flag else f" {option.metavar or choices or option.type.name.upper()}"
    default = f" Default: {option.default}." if option.show_default is True else ""
    return [", ".join(f"`{flag}{value}`" for flag in option.opts), f"{option.help or ''}{default}"]


def schema_page() -> str:
    parts = [
        "# The tables\n",
        f"Version {STORE_VERSION}. Times are integer nanoseconds since the run's start, sizes are "
        'bytes, NULL means “not measured”. `stepscope sql SRC "SELECT ..."` queries them, and '
        "the answer to every [question](index.md) as `answer.NAME` (`answer.kernels`, "
        "`answer.device_time`), with the question's default parameters.\n",
        "A store has a folder for each rank, with a Parquet file for each table and span. If there are more than eight "
        "ranks, those with little recorded share the folder of the first of them (`joined` in `store.json`). "
        "`store.json` lists the files with sizes and CRC-32s, and has a CRC-32 of itself. Other files are not read.\n",
    ]
    for found in TABLES.values():
        rows = [[f"`{c.name}`", c.sql_type, "" if c.nullable else "always", _meaning(c)] for c in found.columns]
        parts += [
            f"## {found.name}\n",
            f"{found.meaning}\n",
            markdown_table(["column", "type", "present", "meaning"], rows),
        ]
    return MADE + "\n".join(parts)


def _meaning(column: SchemaColumn) -> str:
    return f"{column.meaning} (Kineto's `{column.argument}`)" if column.argument else column.meaning


def raised_slugs(tree: ast.Module) -> set[str]:
    """The slugs that a module gives to errors; `*` stands for parts inserted at run time."""
    given = [n.value for n in ast.walk(tree) if isinstance(n, ast.keyword) and n.arg == "slug"]
    return set().union(*map(literals, given)) - {""}  # a bug has no page


def explained_slugs(tree: ast.Module) -> dict[str, str]:
    """The paragraphs that a module has for its errors, by slug."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ERRORS":
            return dict(ast.literal_eval(node.value))
    return {}


def literals(value: ast.expr) -> set[str]:
    if isinstance(value, ast.Constant):
        return {str(value.value)}
    if isinstance(value, ast.IfExp):
        return literals(value.body) | literals(value.orelse)
    if isinstance(value, ast.JoinedStr):
        return {"".join(p.value if isinstance(p, ast.Constant) else "*" for p in value.values)}
    return set()


def errors_page(source: Path = SOURCE) -> str:
    """The paragraphs beside the code that raises: one per slug, in a package that raises it."""
    raised: dict[str, set[str]] = {}
    explained: dict[str, str] = {}
    rooms: dict[str, str] = {}
    wrong = []
    for path in sorted(source.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        room = path.relative_to(source).parts[0]
        raised.setdefault(room, set()).update(raised_slugs(tree))
        found = explained_slugs(tree)
        wrong += [f"{slug} is explained twice" for slug in explained.keys() & found.keys()]
        explained |= found
        rooms.update(dict.fromkeys(found, room))
    wrong += [
        f"{slug} is raised and explained nowhere"
        for slug in sorted(set().union(*raised.values()))
        if not fnmatch.filter(explained, slug)
    ]
    wrong += [
        f"{slug} is explained in {room} and not raised there"
        for slug, room in rooms.items()
        if not any(fnmatch.fnmatch(slug, pattern) for pattern in raised[room])
    ]
    if wrong:
        raise SystemExit("ERRORS: " + "; ".join(wrong))
    parts = [
        "# Errors\n",
        "An error has a line that says what happened and a line that says what to do. The word in brackets "
        "at the end of the first line is its heading on this page.\n",
    ]
    for slug, words in sorted(explained.items()):
        parts += [f"## {slug}\n", f"{words}\n"]
    return MADE + "\n".join(parts)


def evidence_row(question: Question) -> list[str]:
    """A line per question, because lines of a table by kind would change with each new question."""
    kinds = [f"*{kind}*" for kind in MEANINGS if kind in question.rests_on]
    return [f"[`{question.name}`](questions/{question.name}.md)", ", ".join(kinds)]


def check_paragraphs(check: Check) -> list[str]:
    kinds = ", ".join(f"*{kind}*" for kind in check.damages)
    damage = f"It may damage {kinds}.\n" if kinds else "It damages no evidence.\n"
    return [f"## {check.name}\n", f"{check.explanation}\n", damage]


def checks_page() -> str:
    parts = [
        "# Checks\n",
        "Every import checks the quality of the recording. A check reports a severity (ok, note, warning, error), a "
        "count, and the kinds of evidence that it found damaged. Answers that rest on damaged evidence are marked, with "
        "the reason. `stepscope checks SRC` lists the results and the affected questions. Below an answer, a check that "
        "found something on several ranks has one line, with the figures of the worst rank and the ranks with other "
        "figures (`--json` has all).\n",
        "## Evidence\n",
        "Questions rest on these kinds of evidence, and checks may find them damaged.\n",
        markdown_table(["kind", "what it is"], [[f"*{kind}*", words] for kind, words in MEANINGS.items()]),
        markdown_table(
            ["question", "what its answer rests on, besides *file* and *run*"],
            [evidence_row(question) for question in all_questions() if question.rests_on],
        ),
        *(text for check in CHECKS for text in check_paragraphs(check)),
    ]
    parts += [
        "## Classes of damage\n",
        "Readers count these while they read a file; `stepscope sources SRC` lists them per file. "
        "With `--strict`, those that lost or repaired something are an error.\n",
        markdown_table(
            ["class", "what it is", "strict"],
            [[f"`{name}`", damage.line, "ignored" if damage.harmless else "error"] for name, damage in CLASSES.items()],
        ),
        "## Invariants\n",
        "`stepscope check` verifies these in the tables of every store. A violation is a bug in "
        "StepScope, and the exit code is 3.\n",
        markdown_table(
            ["invariant", "what must hold"], [[f"`{name}`", words] for name, words, *_ in (*INVARIANTS, *SUMS)]
        ),
    ]
    return MADE + "\n".join(parts)


if __name__ == "__main__":
    sys.exit(main())
