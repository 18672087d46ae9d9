"""Names in the code, of columns and of options are the words of docs/glossary.md, and none that it replaced."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.repo.sources import parsed

from stepscope.questions import all_questions
from stepscope.schema.tables import TABLES

SOURCE = Path(__file__).parents[2] / "src" / "stepscope"

PARTS = frozenset(
    [
        "alike",
        "begin",
        "begins",
        "begun",
        "beside",
        "handed",
        "held",
        "kept",
        "lateness",
        "least",
        "mend",
        "mended",
        "mender",
        "mends",
        "most",
        "own",
        "released",
        "sound",
        "stand",
        "stands",
        "tell",
        "tells",
        "told",
        "unsound",
        "untold",
        "whole",
    ]
)
"""Words that are no part of a name."""
NAMES = frozenset(
    [
        "alone",
        "asked",
        "became",
        "become",
        "called",
        "came",
        "every",
        "found",
        "gone",
        "known",
        "looked",
        "made",
        "nothing",
        "one",
        "put",
        "rest",
        "rests",
        "said",
        "say",
        "says",
        "shown",
        "there",
        "wanted",
    ]
)
"""Words that are no name by themselves: a name says what it holds."""
OF_OTHERS = frozenset({"begin", "most_common", "on_step_begin", "on_train_begin", "put", "tell"})
"""Methods of Python's, DuckDB's and transformers' objects."""
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def is_dialect(name: str) -> bool:
    words = [word.lower() for word in WORD.findall(name)]
    return name not in OF_OTHERS and (not PARTS.isdisjoint(words) or (len(words) == 1 and words[0] in NAMES))


def names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The identifiers of a module, with their lines; attributes of other libraries' objects too."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield node.lineno, name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name


def test_identifiers() -> None:
    wrong = {
        f"{path.relative_to(SOURCE)}:{line} {name}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line, name in names(parsed(path))
        if is_dialect(name)
    }
    wrong |= {str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py") if is_dialect(path.stem)}
    assert not wrong, "\n".join(sorted(wrong))


def test_columns_and_options() -> None:
    wrong = {
        f"{table.name}.{column}" for table in TABLES.values() for column in table.column_names if is_dialect(column)
    }
    for question in all_questions():
        for declared in (*question.columns, *question.parameters):
            if is_dialect(declared.name):
                wrong.add(f"{question.name}: {declared.name}")
    assert not wrong, "\n".join(sorted(wrong))


def test_a_word_of_the_dialect_is_recognised() -> None:
    assert all(map(is_dialect, ("told_by", "_MOST_ROWS", "ToldToEnd", "one")))
    assert not any(map(is_dialect, ("one_hot", "max_rows", "most_common")))
