"""Several runs in a terminal: all rows, and below them which labels stop scaling and where they go."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from stepscope.answers.text_grid import Line, wrapped
from stepscope.compare.runs import WHOLE, small_labels
from stepscope.floor.quoting import one_line
from stepscope.floor.units import ratio_text, time_text
from stepscope.report.diff_text import signed_time

if TYPE_CHECKING:
    from stepscope.answers.table import Table

_MOST = 6
"""Labels whose next doubling is told, those that take most there."""


def scaling_lines(table: Table, *, width: int) -> list[Line]:
    """The answer of `scaling` as lines.

    Args:
        width: columns of text to fit into.
    """
    lines = table.lines(width=width, most=None)
    rows = table.rows()
    if len({row["ranks"] for row in rows}) < 2:
        return lines
    limit = f"{rows[0]['mode']}-scaling efficiency below {ratio_text(table.asked['below'])}"
    small = small_labels(rows)
    found = stopped(table)
    undecided = {
        row["label"]: f"{one_line(row['label'])} {_with_ends(row, 'efficiency', ratio_text)}"
        for row in rows
        if row["label"] not in small
        and row["label"] not in found
        and _least(row) < table.asked["below"]
    }
    lines.append(Line(""))
    if found:
        lines.append(Line(f"Stop scaling ({limit}) at this many ranks:"))
        lines += [Line(f"  {ranks:>4}  {one_line(label)}") for label, ranks in found.items()]
    elif not undecided:
        lines.append(Line(f"No label stops scaling ({limit})."))
    if undecided:
        limit = f"{rows[0]['mode']}-scaling efficiency, {ratio_text(table.asked['below'])} lies"
        words = f"Undecided ({limit} within its interval): {', '.join(undecided.values())}."
        lines += map(Line, wrapped(words, width))
    return lines + _lost(rows, width) + _next_doubling(rows)


def _least(row: dict[str, Any]) -> float:
    """The efficiency that a label has at least; of one without, nothing is known that could be too little."""
    known = [
        row[name] for name in ("efficiency_low_ratio", "efficiency_ratio") if row[name] is not None
    ]
    return float(known[0]) if known else 1.0


def _lost(rows: list[dict[str, Any]], width: int) -> list[Line]:
    """What the largest run's iteration takes beyond ideal scaling, and which parts of it that is."""
    largest = max(row["ranks"] for row in rows)
    of_largest = [row for row in rows if row["ranks"] == largest]
    whole = next((row for row in of_largest if row["label"] == WHOLE), None)
    if whole is None or not whole["over_ideal_ns"] or whole["over_ideal_ns"] <= 0:
        return []
    parts = [row for row in of_largest if row is not whole and row["over_ideal_ns"]]
    parts = [row for row in parts if row["inside"] is None]
    parts.sort(key=lambda row: -abs(row["over_ideal_ns"]))
    told = ", ".join(
        f"{one_line(row['label'])} {signed_time(row['over_ideal_ns'])}" for row in parts[:_MOST]
    )
    serial = (
        ""
        if whole["serial_ratio"] is None
        else f"; serial part {_with_ends(whole, 'serial', ratio_text)}"
    )
    words = (
        f"On {largest} ranks the iteration takes {time_text(whole['over_ideal_ns'])} more than ideal: efficiency "
        f"{_with_ends(whole, 'efficiency', ratio_text)}{serial}."
    )
    told = f"of that {told}" if told else ""
    return [
        Line(""),
        *map(Line, wrapped(words, width)),
        *(Line(f"  {text}") for text in wrapped(told, width - 2)),
    ]


def _with_ends(row: dict[str, Any], name: str, text: Any) -> str:
    low, high = row[f"{name}_low_ratio"], row[f"{name}_high_ratio"]
    ends = "" if low is None or high is None else f" ({text(low)} to {text(high)})"
    if high is not None and math.isinf(high):
        ends = f" ({text(low)} or more)"
    return f"{text(row[f'{name}_ratio'])}{ends}"


def _next_doubling(rows: list[dict[str, Any]]) -> list[Line]:
    found = {row["label"]: row for row in rows if row["next_ns"] is not None}
    if WHOLE not in found:
        return []
    whole = found.pop(WHOLE)
    shown = [whole, *sorted(found.values(), key=lambda row: -row["next_ns"])[: _MOST - 1]]
    named = max(len(one_line(row["label"])) for row in shown)
    first = min((row for row in rows if row["label"] == WHOLE), key=lambda row: row["ranks"])
    ideal = first["average_ns"]
    if whole["mode"] == "strong":
        ideal *= first["ranks"] / whole["next_ranks"]
    return [
        Line(""),
        Line(
            f"On {whole['next_ranks']} ranks, by {whole['model']}: efficiency "
            f"{ratio_text(ideal / whole['next_ns']) if whole['next_ns'] else '–'}"
        ),
        *(
            Line(
                f"  {one_line(row['label']):<{named}}  {time_text(row['next_ns'])} "
                f"({time_text(row['next_low_ns'])} to {time_text(row['next_high_ns'])})"
            )
            for row in shown
        ),
    ]


def stopped(table: Table) -> dict[str, int]:
    """Labels of a `scaling` table that stop scaling, and at how many ranks."""
    return {
        row["label"]: row["stops_at_ranks"]
        for row in table.rows()
        if row["stops_at_ranks"] is not None
    }
