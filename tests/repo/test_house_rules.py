"""What every file of the repository keeps to."""

import ast
import re
from pathlib import Path

from tests.processes import ran
from tests.repo.sources import nodes, parsed

ROOT = Path(__file__).resolve().parents[2]
MOST_LINES = 600
VAGUE = {"utils", "util", "common", "core", "helpers", "helper", "manager", "managers", "misc"}
UNFINISHED = ["TO" + "DO", "FIX" + "ME", "XX" + "X", "pragma: no " + "cover"]
WRITTEN = {".py", ".sql", ".md", ".toml", ".yml", ".yaml", ".ts", ".tsx", ".css", ".txt", ".json", ""}


def _files() -> list[Path]:
    """Files of the repository: tracked ones where git knows, else all but what tools leave behind."""
    listed = ran("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    if listed.returncode == 0 and listed.stdout:
        found = [ROOT / name for name in listed.stdout.splitlines()]
    else:
        found = [
            path
            for path in ROOT.rglob("*")
            if not any(part.startswith(".venv") or part == "__pycache__" for part in path.parts)
        ]
    return sorted(path for path in found if path.is_file())


FILES = _files()
TEXTS = [path for path in FILES if path.suffix in WRITTEN and "tests/data" not in path.as_posix()]
SOURCES = [path for path in FILES if path.suffix == ".py" and path.is_relative_to(ROOT / "src")]
MODULES = [path for path in FILES if path.suffix == ".py"]


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _is_generated(path: Path) -> bool:
    """Pages that list every question grow with the questions; their sources keep to the rule."""
    with path.open(encoding="utf-8") as text:
        return "Made by docs/generate.py" in text.readline()


def test_the_rules_look_at_files() -> None:
    assert ROOT / "src/stepscope/__init__.py" in SOURCES
    assert Path(__file__) in MODULES


def test_no_file_grows_beyond_600_lines() -> None:
    lengths = {
        _name(path): len(path.read_text(encoding="utf-8").splitlines())
        for path in TEXTS
        if path.name not in ("LICENSE", "package-lock.json")
        and not _is_generated(path)
        and not path.is_relative_to(ROOT / "docs" / "reference")
        and not path.is_relative_to(ROOT / "src/stepscope/report/web")
    }
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES} == {}


def test_no_module_has_a_name_that_says_nothing() -> None:
    vague = [_name(p) for p in MODULES if VAGUE & {part.removesuffix(".py") for part in p.parts}]
    assert [name for name in vague if name.startswith(("src/", "tests/", "benchmarks/"))] == []


def test_nothing_is_left_unfinished() -> None:
    found = [
        f"{_name(path)}: {word}"
        for path in TEXTS
        for word in UNFINISHED
        if re.search(rf"\b{word}\b", path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_what_an_operator_is_stands_in_its_model_and_nowhere_else() -> None:
    """Names of operators are for `costs`, and for readers, whose tools' words they are."""
    outside = [
        path
        for path in SOURCES
        if not path.relative_to(ROOT / "src/stepscope").as_posix().startswith(("costs/", "formats/"))
    ]
    named = [
        f"{_name(path)}:{node.lineno}"
        for path in outside
        for node in nodes(path)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch(r"(aten|c10d)::\w+", node.value)
    ]
    assert named == []


def test_source_never_prints_past_the_command_line() -> None:
    """`print` goes around the choice of form and stream; the commands write where they were told."""
    calls = [
        f"{_name(path)}:{node.lineno}"
        for path in SOURCES
        for node in nodes(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if node.func.id in ("print", "breakpoint")
    ]
    assert calls == []


PRINTS_ITSELF = {
    "src/stepscope/cli/terminal/printing.py": "the one place",
    "src/stepscope/cli/script/end.py": "a script's own last words, as Python prints them",
    "src/stepscope/base/plugins.py": "below the command line; printable by itself",
    "src/stepscope/record/trouble.py": "inside the training job; printable by itself",
}


def test_what_is_printed_is_safe_for_the_terminal() -> None:
    """`cli/terminal/printing.py` makes it so; what goes around it may carry an escape of a file's name."""
    names = ("click.echo", "click.secho", "sys.stdout.write", "sys.stderr.write")
    calls = [
        f"{_name(path)}:{node.lineno}"
        for path in SOURCES
        if _name(path) not in PRINTS_ITSELF
        for node in nodes(path)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in names
    ]
    assert calls == []


def test_source_raises_no_not_implemented() -> None:
    raised = [
        f"{_name(path)}:{node.lineno}"
        for path in SOURCES
        for node in nodes(path)
        if isinstance(node, ast.Raise) and node.exc is not None
        if "NotImplemented" in ast.unparse(node.exc)
    ]
    assert raised == []


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        _name(path)
        for path in MODULES
        if path.read_text(encoding="utf-8").strip() and ast.get_docstring(parsed(path)) is None
    ]
    assert [name for name in silent if name.startswith(("src/", "benchmarks/", "scripts/"))] == []


def test_no_package_index_is_named() -> None:
    """Where packages come from is the user's own configuration."""
    options = re.compile(r"--(extra-)?index[-]url|--find[-]links|--trusted[-]host|//[\w.-]*(?:pypi|npm)[\w-]*\.\w+")
    found = [
        _name(path)
        for path in FILES
        if path.name in ("Makefile", "run", "environment.py", "pyproject.toml")
        or path.name.endswith(("constraints.txt", "requirements.txt"))
        if options.search(path.read_text(encoding="utf-8"))
    ]
    assert found == []
