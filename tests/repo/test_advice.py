"""What messages, help and pages tell people to type exists: commands, options, choices, file types."""

import ast
import gzip
import io
import json
import re
import shlex
import tarfile
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest
from tests.repo.sources import parsed

import stepscope
from stepscope.base.errors import SourceError
from stepscope.cli.main import commands, main
from stepscope.formats.sniff import _ADVICE

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "stepscope"
PAGES = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*/README.md")})

CALL = re.compile(r"(?<![\w./-])stepscope ((?:[a-z][a-z-]*|--?[a-z])[^`\n]*)")
"""A command line, in whatever it stands: between backquotes, after a prompt, in a sentence."""
PROSE = {"of", "again", "alone", "in", "is", "here", "and", "needs", "command", "gates", "with", "from"}
"""Words that follow the name in sentences about the program, or Python's `import stepscope`."""
PLACEHOLDER = re.compile(r"[A-Z][A-Z,:._-]*(?:\.\w+)?|\{\}|\.\.\.|…|N|FILE\.\w+|.*\{\}.*")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
OTHERS = {
    "--nproc_per_node", "--no-python", "--nproc-per-node", "--standalone", "--nnodes", "--epochs",
    "--query-gpu", "--help", "--user", "--no-deps", "--steps-per-epoch", "--profile-from-start",
    "--type", "--trace", "--ts-shift", "--ts-normalize", "--cuda-memory-usage", "--print-gpu-trace",
    "--qos", "--nv", "--pwd", "--idle", "--gil", "--print-api-trace", "--events", "--metrics", "--gpu-metrics-devices", "--system-profiling",
    "--import", "--page",
}  # fmt: skip
"""Options of torchrun, pip, nvidia-smi, nvprof, nsys, ncu, py-spy, sbatch, apptainer and of people's scripts."""
OF_THE_EXAMPLE = {"waits"}
"""The question that the example of a plug-in adds."""


def flattened(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Texts of a module, those with fields in them as `{}`; not its comments, and no part twice."""
    if isinstance(node, ast.JoinedStr):
        parts = [str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values]
        yield node.lineno, "".join(parts)
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.lineno, node.value
    for child in ast.iter_child_nodes(node):
        yield from flattened(child)


@cache
def texts() -> list[tuple[str, str]]:
    """Every text that people may read, with its place; line breaks within a sentence are spaces."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        tree = parsed(path)
        for line, text in flattened(tree):
            place = f"{path.relative_to(ROOT)}:{line}"
            # A paragraph that is set as it stands has its command lines one to a line.
            found += [(place, part) for part in re.split(r"\n(?=    )|\n\s*\n|(?<=\.)\n", text)]
    for page in PAGES:
        for line, text in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            found.append((f"{page.relative_to(ROOT)}:{line}", text))
    return found


def calls() -> Iterator[tuple[str, str]]:
    for place, text in texts():
        for found in CALL.finditer(" ".join(text.split()) if place.endswith(".py") else text):
            if found[1].split()[0].rstrip(".,:;") not in PROSE and "import stepscope" not in text:
                yield place, found[1]


def wrong_with(call: str) -> str:
    """What does not exist of a command line: its command, an option, or a choice of one."""
    try:
        words = shlex.split(call.partition(" | ")[0].partition(" # ")[0], comments=False)
    except ValueError:  # a sentence goes on behind it, with an apostrophe
        words = call.split()
    name, *rest = words
    if name.startswith("-"):
        return ""
    name = name.rstrip(".,:;)")
    context = click.Context(commands)
    command = commands.get_command(context, name)
    if command is None:
        return "" if name in OF_THE_EXAMPLE else f"there is no command {name!r}"
    options = {flag: one for one in command.params for flag in (*one.opts, *one.secondary_opts)}
    for position, word in enumerate(rest):
        if word == "--":
            break
        flag, _, value = word.rstrip(".,:;)'").partition("=")
        if not re.fullmatch(r"--?[a-z][\w-]*", flag):
            continue
        if flag not in options and flag not in ("-h", "--help"):
            return f"{name} has no option {flag}"
        choices = getattr(options.get(flag), "metavar", "") or ""
        given = value or (rest[position + 1] if position + 1 < len(rest) else "")
        given = given.rstrip(".,:;)")
        if choices.startswith("[") and given and not PLACEHOLDER.fullmatch(given):
            known = choices.strip("[]").split("|")
            if given not in known:
                return f"{name} {flag} has no choice {given!r}"
    return ""


def test_command_lines_that_are_named_exist() -> None:
    named = list(calls())
    wrong = [f"{place}: `stepscope {call}`: {why}" for place, call in named if (why := wrong_with(call))]
    assert not wrong, "\n".join(wrong)
    assert len(named) > 150


def test_questions_that_are_advised_are_answered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each advised `stepscope QUESTION SRC ...` without other placeholders is typed as it stands."""
    trace = tmp_path / "a trace.json"
    trace.write_bytes(TRACE)
    entire = re.compile(r"(?:^|`)stepscope ([a-z-]+ SRC(?: [^`]*)?)(?:$|`)")
    advised = {
        tuple(found.split())
        for place, text in texts()
        if place.startswith("src/")
        for found in entire.findall(text)
        if not any(PLACEHOLDER.fullmatch(word) for word in found.split() if word != "SRC")
    } - {("sql", "SRC")}  # "SQL for `stepscope sql SRC`": the statement is in another column
    # What the engine gives a finding whose rule names nothing simpler; the id is the rule's own.
    advised.add(("findings", "SRC", "--id", "idle", "--json"))
    assert len(advised) > 10
    for words in sorted(advised):
        code = main([str(trace) if word == "SRC" else word for word in words])
        assert code == 0, (words, capsys.readouterr().err)


def test_the_search_finds_what_is_wrong() -> None:
    assert wrong_with("weather SRC") == "there is no command 'weather'"
    assert wrong_with("kernels SRC --bye name") == "kernels has no option --bye"
    assert wrong_with("kernels SRC --by colour") == "kernels --by has no choice 'colour'"
    assert wrong_with("record -o traces -- train.py --epochs 1") == ""


def test_options_that_are_named_exist() -> None:
    context = click.Context(commands)
    known = {
        flag
        for name in commands.list_commands(context)
        if (command := commands.get_command(context, name)) is not None
        for one in command.params
        for flag in (*one.opts, *one.secondary_opts)
    } | OTHERS
    wrong = [
        f"{place}: {flag}"
        for place, text in texts()
        if place.startswith("src/") and "\n" not in text.strip()
        # A word of the command line of another program.
        if not (place.startswith(("src/stepscope/launch/", "src/stepscope/bundled/")) and text.startswith("-"))
        for flag in OPTION.findall(text)
        if flag not in known
    ]
    assert not wrong, "\n".join(wrong)


# -- file types --------------------------------------------------------------------------------------

EVENT = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 2}
TRACE = json.dumps({"schemaVersion": 1, "traceEvents": [EVENT]}).encode()


def zipped(content: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("rank0.json", content)
    return made.getvalue()


def tarred(content: bytes) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        member = tarfile.TarInfo("rank0.json")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return made.getvalue()


MADE = {".json": TRACE, ".json.gz": gzip.compress(TRACE), ".zip": zipped(TRACE), ".tar.gz": tarred(TRACE)}
TYPE = re.compile(r"(?<![\w/*])\.(?:[a-z][a-z0-9-]+)(?:\.(?:json|gz))*\b")
READ = re.compile(r"give (?:a|the) (?:trace|file|recording)[^;]*")


def test_file_types_that_an_error_asks_for_are_read(tmp_path: Path) -> None:
    """An error may say "give a .json": whatever type it names is written here, and read."""
    asked = {
        kind
        for place, text in texts()
        if place.startswith("src/")
        for sentence in READ.findall(text)
        for kind in TYPE.findall(sentence)
    }
    assert asked
    for kind in asked:
        file = tmp_path / f"trace{kind}"
        file.write_bytes(MADE[kind])
        with stepscope.open(file, cache=False) as trace:
            assert len(trace.operators()) == 1, kind


def test_no_advice_leads_to_a_file_that_is_refused(tmp_path: Path) -> None:
    """Advice for a file that is no recording names no other type that is none: no `.ncu-rep` to CSV."""
    made = {"CSV": b"a,b,c\n1,2,3\n", "SQLite": b"SQLite format 3\x00" + bytes(4096), "Parquet": b"PAR1"}
    for kind, content in made.items():
        (tmp_path / kind).write_bytes(content)
        with pytest.raises(SourceError):
            stepscope.open(tmp_path / kind, cache=False)
        leading = [about for about, words in _ADVICE.items() if re.search(rf"\b{kind}\b", words)]
        assert not leading, f"{kind} is refused, and the advice for {leading} leads to it"


def test_advice_installs_nothing_that_the_package_index_does_not_have() -> None:
    """StepScope itself is not there."""
    wrong = [place for place, text in texts() if re.search(r"pip install\W+stepscope", text)]
    assert not wrong
