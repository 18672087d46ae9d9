"""Keeps the answers to every question about some recordings, to compare them before and after a change.

    python scripts/keep_answers.py keep OUT SRC...      every question's JSON and text, a file each
    python scripts/keep_answers.py compare OUT OTHER    the differences and their size

A change of structure must not change answers: keep the answers of the code before and after (`PYTHONPATH=src` chooses
the code), and compare. Floating-point numbers may differ in the last digits, because DuckDB sums in parallel.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import sys
import tempfile
from pathlib import Path

CLOSE = 1e-9
"""Relative difference up to which two floating-point numbers count as equal."""


def keep(out: Path, sources: list[Path]) -> None:
    """Asks every question of every source, as text and as JSON."""
    with tempfile.TemporaryDirectory() as cache:
        os.environ["STEPSCOPE_CACHE"] = cache
        os.environ["COLUMNS"] = "100"
        for number, source in enumerate(sources, 1):
            print(f"{number}/{len(sources)} {source}", file=sys.stderr)
            folder = out / "_".join(source.parts[-2:])
            folder.mkdir(parents=True, exist_ok=True)
            for name, words in _calls():
                for form in ("json", "text"):
                    asked = [*words[:1], str(source), *words[1:]]
                    asked += ["--json"] if form == "json" else []
                    (folder / f"{name}.{form}").write_text(_said(asked), encoding="utf-8")


def _calls() -> list[tuple[str, list[str]]]:
    """A name and the arguments of each call: every question, with each of its choices."""
    from stepscope.questions import all_questions

    calls = []
    for question in all_questions():
        if question.recordings != "one":
            continue
        calls.append((question.name, [question.name]))
        for parameter in question.parameters:
            flag = f"--{parameter.name.replace('_', '-')}"
            calls += [
                (f"{question.name}{flag}={choice}", [question.name, flag, choice]) for choice in parameter.choices
            ]
            if parameter.type == "bool":
                calls.append((f"{question.name}{flag}", [question.name, flag]))
    calls.append(("check", ["check"]))
    return calls


def _said(arguments: list[str]) -> str:
    from stepscope.cli.main import main

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    return out.getvalue() + ("" if code == 0 else f"\nexit {code}\n{err.getvalue()}")


def compare(before: Path, after: Path) -> int:
    """Prints every answer that differs; returns how many."""
    differing = 0
    names = {p.relative_to(d) for d in (before, after) for p in d.rglob("*") if p.is_file()}
    for name in sorted(names):
        sides = [side / name for side in (before, after)]
        if not all(side.exists() for side in sides):
            print(f"{name}: only in {before if sides[0].exists() else after}")
            differing += 1
            continue
        one, other = (side.read_text(encoding="utf-8") for side in sides)
        if one == other:
            continue
        found = (
            list(_differences(json.loads(one), json.loads(other)))
            if name.suffix == ".json" and one.startswith("{") and other.startswith("{")
            else list(_lines(one, other))
        )
        if found:
            differing += 1
            print(f"{name}: {len(found)} differences")
            for line in found[:6]:
                print(f"    {line[:300]}")
    print(f"{len(names)} answers, {differing} differ")
    return differing


def _differences(one: object, other: object, where: str = "") -> list[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        return [
            line for key in {**one, **other} for line in _differences(one.get(key), other.get(key), f"{where}.{key}")
        ]
    if isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            return [f"{where}: {len(one)} entries, then {len(other)}"]
        return [
            line
            for at, (mine, theirs) in enumerate(zip(one, other, strict=True))
            for line in _differences(mine, theirs, f"{where}[{at}]")
        ]
    floats = isinstance(one, float) and isinstance(other, float)
    if one == other or (floats and math.isclose(one, other, rel_tol=CLOSE)):
        return []
    return [f"{where}: {one!r} -> {other!r}"]


def _lines(one: str, other: str) -> list[str]:
    import difflib

    return [
        line
        for line in difflib.unified_diff(one.splitlines(), other.splitlines(), n=0, lineterm="")
        if not line.startswith(("---", "+++", "@@"))
    ]


if __name__ == "__main__":
    if len(sys.argv) > 3 and sys.argv[1] == "keep":
        keep(Path(sys.argv[2]), [Path(source) for source in sys.argv[3:]])
    elif len(sys.argv) == 4 and sys.argv[1] == "compare":
        sys.exit(1 if compare(Path(sys.argv[2]), Path(sys.argv[3])) else 0)
    else:
        sys.exit(__doc__)
