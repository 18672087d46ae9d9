"""Prose that people see (pages, help, messages, meanings of columns) keeps to the house's words."""

import ast
import re
from pathlib import Path

import pytest
from tests.repo.sources import parsed

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "stepscope"
PAGES = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*/README.md")})

INSTEAD = {
    r"\bmend(?:s|ed|ing)?\b(?!\.py)": "repair",
    r"\bbegin of\b|(?:'s|\bthe|\bits|\bmedian|\bfirst) begin\b(?! event)": "start",
    r"\bno whole\b|\bwhole (?:run|iteration|step|model|file|trace|change|document|job)s?\b": "complete",
    r"\b(?:nobody|cannot|could not|did not|could) hear\b|\bwas not heard\b": "observe",
    r"\b(?:says|tells) of\b": "reports",
    r"\b(?:has|had) nothing of\b|\bnothing of this\.": "no matching rows",
    r"\bwhat became of\b": "what happened to",
    r"\banew\b": "again",
    r"\blikeliest\b": "most likely",
}


def not_ours(text: str) -> list[str]:
    """The words in a text that the house does not use, each with what it says instead."""
    found = ((re.search(pattern, text, re.IGNORECASE), word) for pattern, word in INSTEAD.items())
    return [f"{match[0]!r} (say {word!r})" for match, word in found if match]


def messages(tree: ast.Module) -> list[tuple[int, str]]:
    """Texts of a module that are neither docstrings nor SQL, with their lines."""
    silent = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        (node.lineno, " ".join(node.value.split()))
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if id(node) not in silent and " " in node.value and "SELECT" not in node.value
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_use_our_words(page: Path) -> None:
    lines = page.read_text(encoding="utf-8").splitlines()
    wrong = [f"{n}: {word}" for n, line in enumerate(lines, 1) for word in not_ours(line)]
    assert not wrong, f"{page.relative_to(ROOT)}: {'; '.join(wrong)}"


def test_messages_use_our_words() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {word}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line, text in messages(parsed(path))
        for word in not_ours(text)
    ]
    assert not wrong, "\n".join(wrong)


def test_a_word_that_is_not_ours_is_found() -> None:
    tree = ast.parse('"""mended"""\nhint = "2 events mended"\nsql = "SELECT begin of"')
    (message,) = messages(tree)
    assert not_ours(message[1]) == ["'mended' (say 'repair')"]
    assert not_ours("from the iteration's begin; the begin event and a whole number") == ["\"'s begin\" (say 'start')"]
