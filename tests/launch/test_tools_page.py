"""docs/tools.md says of each tool what its declaration says."""

import re
from pathlib import Path

from stepscope.launch.tools import TOOLS
from stepscope.launch.tools.nvprof_metrics import NCU_NAMES

PAGE = (Path(__file__).parents[2] / "docs" / "tools.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.splitlines() if line[:1] == "|"]


def words(cell: str) -> list[str]:
    return re.findall("`([^`]+)`", cell)


def test_every_tool_has_its_row_with_its_sets_and_files() -> None:
    rows = {name: row for row in ROWS if len(row) == 6 for name in words(row[0])}
    assert set(TOOLS) | {"--tool"} == set(rows)
    for name, tool in TOOLS.items():
        if tool.way == "record":
            continue
        assert words(rows[name][2]) == list(tool.sets), name
        assert bool(rows[name][3]) == bool(tool.captures), name
        assert bool(rows[name][4]) == bool(tool.delays), name


def test_every_tool_says_whether_it_was_run() -> None:
    rows = {name for row in ROWS if len(row) == 3 for name in words(row[0])}
    assert {tool.name for tool in TOOLS.values() if tool.executables} <= rows


def test_the_names_of_metrics_are_those_that_are_used() -> None:
    rows = {words(row[0])[0]: tuple(words(row[1])) for row in ROWS if len(row) == 2 and words(row[0])}
    assert rows == NCU_NAMES
