"""Compares the answers of two checkouts about the same recordings: rows and numbers of every question's JSON.

    python benchmarks/compare_checkouts.py BEFORE AFTER [SRC ...] [--renames FILE]

BEFORE and AFTER are folders with a checkout each; both run with this Python and its packages. Without SRC all recordings
in ../shared/traces are asked. FILE (benchmarks/renames.toml by default) says what has another name in AFTER: questions and
their forms, options, columns, values. A change of structure must not change answers: what is printed is a row that came or went, a
number or a name that differs. Sentences (texts with a blank in both answers) are counted only. Floating-point numbers
may differ in the last digits, because DuckDB sums in parallel.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).resolve().parent
SHARED = HERE.parent.parent / "shared" / "traces"
CLOSE = 1e-9
"""Relative difference up to which two floating-point numbers count as equal."""
SHOWN = 6
"""Differences of one answer that are printed."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("sources", nargs="*", type=Path)
    parser.add_argument("--renames", type=Path, default=HERE / "renames.toml")
    asked = parser.parse_args()
    renames = tomllib.loads(asked.renames.read_text(encoding="utf-8"))
    sources = asked.sources or sorted(folder for folder in SHARED.glob("*/*") if folder.name != "README.md")
    calls = list(every_call(json.loads(run(asked.before, [["questions", "--json"]])[0])))
    differing = wording = 0
    for number, source in enumerate(sources, 1):
        print(f"{number}/{len(sources)} {source}", file=sys.stderr, flush=True)
        before = run(asked.before, [[name, str(source), *options, "--json"] for name, options in calls])
        moved = [renamed_call(name, options, renames) for name, options in calls]
        after = run(asked.after, [[name, str(source), *options, "--json"] for name, options in moved])
        for (name, options), old, new in zip(calls, before, after, strict=True):
            differences, sentences = compare(name, old, new, renames)
            wording += sentences
            if differences:
                differing += 1
                call = " ".join([name, *options])
                print(f"{source.parent.name}/{source.name}: {call}: {len(differences)} differences")
                for line in differences[:SHOWN]:
                    print(f"    {line[:300]}", flush=True)
    print(f"{len(calls) * len(sources)} answers, {differing} differ; {wording} sentences have other words")
    return 1 if differing else 0


def every_call(listed: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Every question about one recording, once by default and once for each choice of each parameter."""
    for question in listed["questions"]:
        if question["recordings"] != "one":
            continue
        yield question["name"], []
        for parameter in question["parameters"]:
            option = f"--{parameter['name'].replace('_', '-')}"
            for choice in parameter.get("choices") or ():
                yield question["name"], [option, choice]


def renamed_call(name: str, options: list[str], renames: dict[str, Any]) -> tuple[str, list[str]]:
    """The call in AFTER: `"short-kernels --by name" = "kernels --by short"`, or by the question's name alone."""
    calls = renames.get("calls", {})
    text = " ".join([name, *options])
    if text in calls:
        words = calls[text].split()
    else:
        words = [*calls.get(name, name).split(), *options]
    return words[0], words[1:]


def compare(name: str, old: str, new: str, renames: dict[str, Any]) -> tuple[list[str], int]:
    """The differences of two answers, and how many sentences have other words."""
    if not (old.startswith("{") and new.startswith("{")):
        kinds = ["an answer" if text.startswith("{") else f"no answer ({text.strip()[:120]})" for text in (old, new)]
        same = not old.startswith("{") and not new.startswith("{")
        return ([] if same else [f"{kinds[0]}, then {kinds[1]}"]), 0
    columns = renames.get("columns", {})
    values = renames.get("values", {}).get(name, {})
    named = {**columns.get("*", {}), **columns.get(name, {})}
    before = [
        {named.get(column, column): values.get(str(value), value) for column, value in row.items()}
        for row in json.loads(old)["rows"]
    ]
    after = json.loads(new)["rows"]
    ignored = set(renames.get("ignored", {}).get(name, ()))
    if len(before) != len(after):
        return [f"{len(before)} rows, then {len(after)}"], 0
    differences, sentences = [], 0
    for place, (row, other) in enumerate(zip(before, after, strict=True)):
        for column in {**row, **other}:
            pair = row.get(column), other.get(column)
            if column in ignored or equal(*pair):
                continue
            if all(isinstance(value, str) and " " in value for value in pair):
                sentences += 1
            else:
                differences.append(f"row {place}, {column}: {pair[0]!r} -> {pair[1]!r}")
    return differences, sentences


def equal(value: Any, other: Any) -> bool:
    if isinstance(value, float) and isinstance(other, float):
        return math.isclose(value, other, rel_tol=CLOSE) or (math.isnan(value) and math.isnan(other))
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(map(equal, value, other))
    return bool(value == other)


def run(checkout: Path, commands: list[list[str]]) -> list[str]:
    """What each command of the checkout's `stepscope` prints, asked one after the other in one process."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {
            **os.environ,
            "PYTHONPATH": str(checkout.resolve() / "src"),
            "STEPSCOPE_CACHE": cache,
            "STEPSCOPE_PLUGINS": "no",
        }
        done = subprocess.run(
            [sys.executable, __file__, "--answer"],
            input=json.dumps(commands),
            env=environment,
            cwd=cache,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        sys.exit(f"{checkout}: {done.stderr[-2000:]}")
    answers: list[str] = json.loads(done.stdout)
    return answers


def answer() -> None:
    """Runs the commands on standard input in this process, whose path has a checkout's package."""
    from stepscope.cli.main import main as stepscope

    answers = []
    for command in json.load(sys.stdin):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = stepscope(command)
        answers.append(out.getvalue() if out.getvalue() else f"exit {code}: {err.getvalue()}")
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    if sys.argv[1:] == ["--answer"]:
        answer()
    else:
        sys.exit(main())
