"""CONTRIBUTING.md's table of what exists already names what exists."""

import re
from importlib import import_module
from pathlib import Path

PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"


def named() -> list[str]:
    """The dotted names in the table's second column."""
    section = PAGE.read_text(encoding="utf-8").partition("## What exists already\n")[2].partition("\n## ")[0]
    rows = [line.split("|") for line in section.splitlines() if line.startswith("| ")]
    return [name for row in rows[2:] for name in re.findall(r"`([\w.]+)`", row[2])]


def exists(name: str) -> bool:
    """Whether a module, or something in it, has this name below `stepscope`."""
    words = name.split(".")
    for length in range(len(words), 0, -1):
        try:
            value: object = import_module(".".join(["stepscope", *words[:length]]))
        except ModuleNotFoundError:
            continue
        for word in words[length:]:
            value = getattr(value, word, None)
        return value is not None
    return False


def test_names_in_the_map_exist() -> None:
    assert len(named()) > 30
    assert [name for name in named() if not exists(name)] == []
