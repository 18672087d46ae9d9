"""Describes several runs: which labels stop scaling, what the largest run loses and where, and what the next doubling
gives."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from stepscope.base.quoting import one_line
from stepscope.base.units import plural, ratio_text, time_text
from stepscope.compare.runs import ITERATION, small_labels
from stepscope.query.text_grid import Line, wrapped
from stepscope.report.diff_text import signed_time
from stepscope.report.renderers import Layout, Plot, Renderer
from stepscope.report.scaling_chart import scaling_chart

if TYPE_CHECKING:
    from stepscope.query.table import Table

Row = dict[str, Any]

_MAX_LISTED = 6
"""The most labels that are listed with their loss or their next doubling: those with most of it."""


def scaling_lines(table: Table, layout: Layout) -> list[Line]:
    """Formats the answer of `scaling` as lines: all rows, then sentences."""
    lines = table.lines(width=layout.width, limit=None)
    for sentence in _conclusions(table):
        lines += [Line(""), *map(Line, wrapped(sentence, layout.width, "  "))]
    return lines


def _conclusions(table: Table) -> list[str]:
    return scaling_sentences(table.rows(), table.arguments["below"])


def scaling_sentences(rows: list[Row], below: float) -> list[str]:
    """Concludes from runs on several numbers of ranks; empty for one number.

    Args:
        below: the efficiency below which a label stops scaling.
    """
    if len({row["ranks"] for row in rows}) < 2:
        return []
    sentences = [*_stops(rows, below), _lost(rows), _next_doubling(rows)]
    return [sentence for sentence in sentences if sentence]


def _stops(rows: list[Row], below: float) -> list[str]:
    """Labels that stop scaling, with the number of ranks at which they do; and those for which it is uncertain."""
    limit = f"{rows[0]['mode']}-scaling efficiency"
    stops = stopped(rows)
    small = small_labels(rows)
    others = [row for row in rows if row["label"] not in small and row["label"] not in stops and _low(row) < below]
    lost = [row for row in others if _high(row) < below]
    undecided = {
        row["label"]: f"{one_line(row['label'])} {_with_ends(row, 'efficiency', ratio_text)}"
        for row in others
        if row not in lost
    }
    sentences = []
    if stops:
        labels = ", ".join(f"{one_line(label)} at {ranks} {plural(ranks, 'rank')}" for label, ranks in stops.items())
        sentences.append(f"Stop scaling ({limit} below {ratio_text(below)}): {labels}.")
    elif not undecided:
        sentences.append(f"No label stops scaling ({limit} below {ratio_text(below)}).")
    if lost:
        labels = ", ".join(f"{one_line(row['label'])} at {row['ranks']} ranks" for row in lost)
        sentences.append(f"Below {ratio_text(below)}, and on more ranks above it again: {labels}.")
    if undecided:
        within = f"{limit}, {ratio_text(below)} lies within its interval"
        sentences.append(f"Undecided ({within}): {', '.join(undecided.values())}.")
    return sentences


def _low(row: Row) -> float:
    """The least efficiency that a label may have; without one, nothing known is too low."""
    ratios = [row[name] for name in ("efficiency_low_ratio", "efficiency_ratio") if row[name] is not None]
    return float(ratios[0]) if ratios else 1.0


def _high(row: Row) -> float:
    """The highest efficiency that a label may have."""
    ratios = [row[name] for name in ("efficiency_high_ratio", "efficiency_ratio") if row[name] is not None]
    return float(ratios[0]) if ratios else math.inf


def _lost(rows: list[Row]) -> str:
    """What the largest run's iteration takes beyond ideal scaling, and in which parts."""
    largest = max(row["ranks"] for row in rows)
    of_largest = [row for row in rows if row["ranks"] == largest]
    iteration = next((row for row in of_largest if row["label"] == ITERATION), None)
    if iteration is None or not iteration["over_ideal_ns"] or iteration["over_ideal_ns"] <= 0:
        return ""
    parts = [row for row in of_largest if row is not iteration and row["over_ideal_ns"]]
    parts = [row for row in parts if row["inside"] is None]
    parts.sort(key=lambda row: -abs(row["over_ideal_ns"]))
    listed = ", ".join(f"{one_line(row['label'])} {signed_time(row['over_ideal_ns'])}" for row in parts[:_MAX_LISTED])
    serial = "" if iteration["serial_ratio"] is None else f"; serial part {_with_ends(iteration, 'serial', ratio_text)}"
    return (
        f"On {largest} ranks the iteration takes {time_text(iteration['over_ideal_ns'])} more than ideal"
        f"{f' (of that {listed})' if listed else ''}: efficiency {_with_ends(iteration, 'efficiency', ratio_text)}{serial}."
    )


def _with_ends(row: Row, name: str, text: Any) -> str:
    low, high = row[f"{name}_low_ratio"], row[f"{name}_high_ratio"]
    ends = "" if low is None or high is None else f" ({text(low)} to {text(high)})"
    if high is not None and math.isinf(high):
        ends = f" ({text(low)} or more)"
    return f"{text(row[f'{name}_ratio'])}{ends}"


def _next_doubling(rows: list[Row]) -> str:
    """The model's prediction for twice the ranks."""
    predicted = {row["label"]: row for row in rows if row["next_ns"] is not None}
    if ITERATION not in predicted:
        return ""
    iteration = predicted.pop(ITERATION)
    listed = [iteration, *sorted(predicted.values(), key=lambda row: -row["next_ns"])[: _MAX_LISTED - 1]]
    first = min((row for row in rows if row["label"] == ITERATION), key=lambda row: row["ranks"])
    ideal = first["average_ns"]
    if iteration["mode"] == "strong":
        ideal *= first["ranks"] / iteration["next_ranks"]
    efficiency = ratio_text(ideal / iteration["next_ns"]) if iteration["next_ns"] else "–"
    labels = ", ".join(
        f"{one_line(row['label'])} {time_text(row['next_ns'])} "
        f"({time_text(row['next_low_ns'])} to {time_text(row['next_high_ns'])})"
        for row in listed
    )
    return f"On {iteration['next_ranks']} ranks, by {iteration['model']}: efficiency {efficiency}; {labels}."


def stopped(rows: list[Row]) -> dict[str, int]:
    """Labels that stop scaling, and the number of ranks at which they do."""
    return {row["label"]: row["stops_at_ranks"] for row in rows if row["stops_at_ranks"] is not None}


RENDERER = Renderer(
    lines=scaling_lines, conclusions=_conclusions, plot=Plot(flags=("-o", "--output"), figure=scaling_chart)
)
