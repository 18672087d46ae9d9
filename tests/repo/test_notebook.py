"""The example notebook: as its script makes it, and its cells run and show something.

Cells are run here by `exec`, and what the last line of each is worth is asked for its HTML or picture,
as Jupyter does: a kernel of Jupyter's would be thirty packages for the same.
"""

import ast
import json
import runpy
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def shown(source: str, names: dict[str, Any]) -> Any:
    """Runs a cell; what its last line is worth, where that is an expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)  # noqa: S102  # our own
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307


def test_the_notebook_is_as_its_script_makes_it():
    made = runpy.run_path(str(EXAMPLES / "make_notebook.py"))
    assert (EXAMPLES / "notebook.ipynb").read_text() == made["text"]()


def test_its_cells_run_and_show_tables_and_a_chart():
    pytest.importorskip("matplotlib")
    notebook = json.loads((EXAMPLES / "notebook.ipynb").read_text())
    names: dict[str, Any] = {}
    tables, pictures, values = [], [], []
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        assert cell["outputs"] == []
        value = shown("".join(cell["source"]), names)
        if hasattr(value, "_repr_png_"):  # a figure's HTML is for windows of matplotlib's
            pictures.append(value._repr_png_())
        elif hasattr(value, "_repr_html_"):
            tables.append(value._repr_html_())
        elif value is not None:
            values.append(value)
    assert len(tables) == 5
    assert all(html.startswith("<p>") and "</table>" in html for html in tables)
    assert "sgemm_128x64_nn" in tables[3]
    assert [picture[:8] for picture in pictures] == [b"\x89PNG\r\n\x1a\n"]
    assert values == [(0, 9_000_000)]
