"""Every regular expression of the package takes linear time, whatever the text: texts come from strangers' files."""

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.repo.backtracking import slow_text
from tests.repo.sources import nodes

from stepscope.base.patterns import _Uncompiled

SOURCE = Path(__file__).resolve().parents[2] / "src" / "stepscope"
METHODS = {"match", "fullmatch", "search", "sub", "subn", "findall", "finditer", "split"}
PASSED_ON = {
    "costs.families.generated._NAME": "match",
    "formats.kineto.repair._ENDS_IN_LIST": "match",
    "formats.kineto.repair._ENDS_IN_OBJECT": "match",
    "formats.nsys.export._SETTINGS": "match",
    "store.manifest._BEING_MADE": "fullmatch",
}
"""Patterns that another function gets, and the method that it calls; one that is not named here counts as searched."""
MADE_WHEN_USED = {
    "base.complete_file": "a number",
    "base.patterns": "what `lazily` was given, which is tested here",
    "record.labels": "a label of the user's own plan, built so that it never goes back",
    "record.plan": "an escaped name",
    "record.traces.file": "an escaped host name before digits and letters",
    "report.redaction": "escaped host names, each of which is tried at each place",
    "formats.kineto.slices": "an escaped key",
    "analysis.ranks.parallelism": "two words",
}
"""Modules that put a pattern together when they use it, and why it takes linear time."""


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


def calls(path: Path) -> Iterator[tuple[ast.Call, str]]:
    """The calls of functions of `re` that take a pattern."""
    for node in nodes(path):
        function = node.func if isinstance(node, ast.Call) else None
        if (
            isinstance(function, ast.Attribute)
            and ast.unparse(function.value) == "re"
            and function.attr in METHODS | {"compile"}
        ):
            yield node, function.attr


def is_made_when_used(path: Path, call: ast.Call, method: str) -> bool:
    functions = [node for node in nodes(path) if isinstance(node, (ast.FunctionDef, ast.Lambda))]
    return method != "compile" or any(call in ast.walk(function) for function in functions)


def uses() -> dict[tuple[str, str], set[str]]:
    """The methods that are called of each name, by its module; `?` where it is passed on."""
    found: dict[tuple[str, str], set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        homes = {
            alias.asname or alias.name: ((node.module or "").removeprefix("stepscope."), alias.name)
            for node in nodes(path)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        owners = {node.value: node.attr for node in nodes(path) if isinstance(node, ast.Attribute)}
        for node in nodes(path):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                place = homes.get(node.id, (name_of(path), node.id))
                found.setdefault(place, set()).add(owners.get(node, "?"))
    return found


def assigned(path: Path) -> set[str]:
    return {node.id for node in nodes(path) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def inside(value: Any) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, _Uncompiled):
        yield re.compile(*value._given)
    elif isinstance(value, (tuple, list, set, frozenset)):
        for item in value:
            yield from inside(item)
    elif isinstance(value, dict):
        yield from inside([*value, *value.values()])


def patterns() -> dict[tuple[str, str, int], tuple[re.Pattern[Any], str]]:
    """Every pattern by its place and text, with the method that is called of it."""
    used = uses()
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        if not any(
            alias.name == "re" or alias.name == "lazily"
            for node in nodes(path)
            if isinstance(node, (ast.Import, ast.ImportFrom))
            for alias in node.names
        ):
            continue
        module = import_module(f"stepscope.{name_of(path)}")
        for name in sorted(assigned(path) & vars(module).keys()):
            value = vars(module)[name]
            methods = used.get((name_of(path), name), {"?"}) - {"pattern"}
            how = PASSED_ON.get(f"{name_of(path)}.{name}") or (
                "search" if methods - {"match", "fullmatch"} else max(methods)
            )
            for pattern in inside(value):
                found[f"{name_of(path)}.{name}", pattern.pattern, pattern.flags] = pattern, how
        for call, method in calls(path):
            if isinstance(call.args[0], ast.Constant) and is_made_when_used(path, call, method):
                pattern = re.compile(call.args[0].value)
                how = "search" if method == "compile" else method
                found[f"{name_of(path)}:{method}", pattern.pattern, pattern.flags] = pattern, how
    return found


PATTERNS = patterns()


@pytest.mark.parametrize("place", PATTERNS, ids=lambda place: f"{place[0]} {place[1][:30]}")
def test_a_pattern_takes_linear_time(place):
    pattern, how = PATTERNS[place]
    text = slow_text(pattern, how)
    assert text is None, f"{how} of {pattern.pattern!r} is slow on repetitions of {text!r}"


def test_every_pattern_is_among_them():
    """What a module compiles when it is imported is found by its name; the rest is listed with its reason."""
    missing = {
        name_of(path)
        for path in SOURCE.rglob("*.py")
        for call, method in calls(path)
        if not isinstance(call.args[0], ast.Constant) and is_made_when_used(path, call, method)
    }
    assert missing == set(MADE_WHEN_USED)
    compiled = {place[0].split(":")[0].rsplit(".", 1)[0] for place in PATTERNS}
    assert {"formats.perf_stat", "base.environment", "costs.tensor_cores", "formats.vocabulary"} <= compiled


@pytest.mark.parametrize(
    ("pattern", "how"),
    [
        (r"(a+)+b", "match"),
        (r"(a*)*b", "match"),
        (r"(?:a|ab|b)*c", "match"),
        (r"\s*\s*x", "match"),
        (r"\s+$", "search"),
        (r"(.*)x(.*)y\Z", "match"),
        (r"(?:a(?:a*b)?)*", "match"),
        (r"\d+\.?\d*\Z", "match"),
        (r"[^\s@]+(?=@)", "search"),
        (r"_x_(?!.*(1|2))", "search"),
        (r"(?P<name>\S.*?)\s+(?P<tid>\d{1,9})\s+:.*", "fullmatch"),
    ],
)
def test_one_that_goes_back_is_found(pattern, how):
    assert slow_text(re.compile(pattern), how)


@pytest.mark.parametrize(
    ("pattern", "how"),
    [
        (r"a*b", "match"),
        (r"(?:\\.|[^\\])*x", "match"),
        (r"(.*) \[(\d+)\]\Z", "match"),
        (r'"ts"\s*:\s*\d+', "search"),
        (r"\b[A-Za-z_]\w*(?!\w|::)", "search"),
        (r"(?m)^==(\d+|====)== x", "search"),
        (r"(?s).*?x.*", "match"),
        (r"(?<=://)[^\s/@]+(?=@)", "search"),
        (r"(?:ab)+", "search"),
    ],
)
def test_one_that_does_not_is_not(pattern, how):
    assert slow_text(re.compile(pattern), how) is None
