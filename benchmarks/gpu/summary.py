"""Writes the results for people (`summary.txt`) and for programs (`summary.json`)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu.runner import Ran, as_json

_HOLDS = {True: "holds", False: "DOES NOT HOLD", None: "not tested"}


def write_summary(out: Path, ran: Sequence[Ran], run: Mapping[str, Any]) -> None:
    """Writes both files.

    Args:
        out: folder of the run.
        ran: the stages so far.
        run: how it was started: requested device, seconds, interpreter, packages.
    """
    record = {"run": dict(run), "stages": as_json(ran)}
    (out / "summary.json").write_text(json.dumps(record, indent=1), "utf-8")
    (out / "summary.txt").write_text("\n".join(summary_lines(ran, run)) + "\n", "utf-8")


def refuted(ran: Sequence[Ran]) -> int:
    """The number of refuted claims."""
    return sum(claim["holds"] is False for one in ran for claim in one.found.get("claims", ()))


def unsuccessful(ran: Sequence[Ran]) -> list[str]:
    """Stages that failed or were stopped."""
    return [one.stage for one in ran if one.seconds is not None and one.outcome != "done"]


def summary_lines(ran: Sequence[Ran], run: Mapping[str, Any]) -> Iterator[str]:
    """The run as text: what ran where, then each stage with its claims and figures."""
    yield "make gpu: " + ", ".join(f"{name} {value}" for name, value in run.items())
    for one in ran:
        taken = "" if one.seconds is None else f" ({one.seconds:.0f} s)"
        yield ""
        yield f"{one.stage}: {one.about}"
        yield f"  {one.outcome}{taken}"
        for claim in one.found.get("claims", ()):
            rest = {key: value for key, value in claim.items() if key not in ("what", "holds")}
            yield f"  {_HOLDS[claim['holds']]:<13}  {claim['what']}{_listed(rest)}"
        for name, value in one.found.get("figures", {}).items():
            if isinstance(value, list) and value and isinstance(value[0], dict):
                yield f"  {name}:"
                yield from _table(value)
            else:
                yield f"  {name}: {_text(value)}"
        for line in one.found.get("notes", ()):
            yield f"  note: {line}"
        for line in one.last_words:
            yield f"  | {line[:300]}"


def _listed(figures: Mapping[str, Any]) -> str:
    told = ", ".join(f"{name} {_text(value)}" for name, value in figures.items())
    return f" ({told})" if told else ""


def _table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [names, *([_text(row.get(name)) for name in names] for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(names))]
    for line in lines:
        yield ("    " + "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip())


def _text(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_text(one)}" for key, one in value.items())
    if isinstance(value, list | tuple):
        return " ".join(_text(one) for one in value)
    return str(value)
