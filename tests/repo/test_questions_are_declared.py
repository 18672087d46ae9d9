"""How an answer is shown and what it offers follow from its declaration, never from a question's name."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.repo.sources import parsed

from stepscope.questions import names

SOURCE = Path(__file__).resolve().parents[2] / "src" / "stepscope"
ROOMS = ("cli", "report", "query", "api")
NAMES = {"sql", "check", *names(), *(name.replace("-", "_") for name in names())}


def _asks_for_a_name(left: ast.expr, right: ast.expr) -> bool:
    """Whether `left` is a name or method of something, and `right` a question that the code knows."""
    if not isinstance(left, ast.Attribute) or left.attr not in ("name", "method"):
        return False
    texts = {node.value for node in ast.walk(right) if isinstance(node, ast.Constant)}
    constant = isinstance(right, ast.Name | ast.Attribute) and ast.unparse(right).isupper()
    return bool(texts & NAMES) or (constant and "question" in ast.unparse(left.value))


def _asked(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(_asks_for_a_name(a, b) for a in sides for b in sides if a is not b):
                yield f"{node.lineno}: {ast.unparse(node)}"
        elif isinstance(node, ast.Match):
            values = [n.value for n in ast.walk(node) if isinstance(n, ast.MatchValue)]
            if any(_asks_for_a_name(node.subject, value) for value in values):
                yield f"{node.lineno}: match {ast.unparse(node.subject)}"
        elif isinstance(node, ast.Subscript):
            if _asks_for_a_name(node.slice, node.value):
                yield f"{node.lineno}: {ast.unparse(node)}"
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "get"
            and _asks_for_a_name(node.args[0], node.func.value)
        ):
            yield f"{node.lineno}: {ast.unparse(node)}"


def test_nothing_asks_which_question_an_answer_is_to() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{words}"
        for room in ROOMS
        for path in sorted((SOURCE / room).rglob("*.py"))
        for words in _asked(parsed(path))
    ]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "table.question.name == 'summary'",
        "'sql' != question.name",
        "declared.name in ('kernels', 'operators')",
        "question.method in {'device_time'}",
        "table.question.name not in ADVISING",
        "LAYOUTS[question.name]",
        "LAYOUTS.get(question.name)",
        "match question.name:\n    case 'diff' | 'steps': pass",
    ],
)
def test_the_rule_sees_each_way_of_asking(text: str) -> None:
    assert list(_asked(ast.parse(text)))
