"""What `src` defines, `src` uses: what only tests call is dead, or belongs to the tests."""

import ast
from pathlib import Path

from tests.repo.sources import nodes

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "stepscope"

CALLED_BY_OTHERS = {
    # people, in Python
    "to_polars",
    "_repr_html_",
    "_repr_png_",
    "iterate",
    "StepScopeCallback",
    # tarfile, fsspec and DuckDB, of a file that is none
    "tell",
    "modified",
    "created",
    # the list of formats, which names functions of readers that it has not imported
    "looks_like_kineto",
    "may_be_kineto",
    "may_be",
    # click
    "format_commands",
}


def test_functions_and_classes_are_used_outside_the_tests():
    defined, used = {}, set()
    for path in (*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pyi")):
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and path.suffix == ".py":
                # A decorator may keep it in a list of its own: questions, rules, checks, commands.
                if not node.decorator_list and not node.name.startswith("__"):
                    defined[node.name] = f"{path.relative_to(PACKAGE)}:{node.lineno}"
            elif isinstance(node, ast.Name):
                used.add(node.id)
            elif isinstance(node, ast.Attribute):
                used.add(node.attr)
            elif isinstance(node, ast.alias):
                used.add(node.name)
    dead = {name: defined[name] for name in defined.keys() - used - CALLED_BY_OTHERS}
    assert dead == {}
    assert defined.keys() - used >= CALLED_BY_OTHERS
