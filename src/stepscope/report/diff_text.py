"""A comparison of two recordings in a terminal: one sentence, then the table with its signs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stepscope.answers.text_grid import (
    MARK,
    Line,
    note_lines,
    shortened,
    warning_lines,
    wrapped,
)
from stepscope.compare.drivers import Row, drivers_of
from stepscope.floor.quoting import one_line
from stepscope.floor.units import NOT_MEASURED, count_text, ratio_text, time_text

if TYPE_CHECKING:
    from stepscope.answers.table import Table
    from stepscope.compare.gates import Judged

_GAP = 2
_WIDE = 100
_NARROWEST_NAME = 24
_NARROWEST_WHERE_WIDE = 44
_INSIDE = "↳ "
_MOST_NAMED = 3
"""Parts that the sentence names at most."""
_DOTTED = re.compile(r"\w+(\.\w+){2,}")
_PER_CENT_UP_TO = 10.0
"""Beyond ten times as long people say times, not per cent."""


def diff_lines(table: Table, *, width: int, most: int | None) -> list[Line]:
    """The answer of `diff` as lines.

    Args:
        table: the answer.
        width: columns of text to fit into.
        most: rows to show at most; None for all.
    """
    rows = table.rows()
    mark = f"{MARK} " if table.unreliable else ""
    sentence = wrapped(f"{mark}{verdict_sentence(rows)}", width)
    lines = [Line(part, "title") for part in sentence]
    if rows:
        shown = rows if most is None else rows[:most]
        lines += [Line(""), *_grid(shown, width)]
        if len(rows) > len(shown):
            lines.append(Line(f"({count_text(len(rows) - len(shown))} more rows)", "note"))
    if table.note:
        lines += [Line(""), *note_lines(table.note, width)]
        if any(row.get("inside") for row in rows):
            lines.append(Line(f"{_INSIDE}runs inside another measured event", "note"))
    return lines + warning_lines(table.checks, width)


def verdict_sentence(rows: Sequence[Row]) -> str:
    """What changed, in one sentence: the whole, and the parts that are most of it."""
    if not rows:
        return "Nothing to compare."
    drivers = drivers_of(rows)
    whole, parts = drivers.whole, _parts(drivers.parts[:_MOST_NAMED])
    if whole is None:
        return f"The complete iteration was not measured in both. {parts or 'No clear change'}."
    name = f"{whole['name'][:1].upper()}{whole['name'][1:]}"
    beside = f" Parts of it did change: {parts}." if parts else ""
    if whole["verdict"] == "same":
        return f"{name}: no change.{beside}"
    change = signed_time(whole["change_ns"])
    half = _half(whole)
    if whole["verdict"] == "unclear":
        return f"{name}: no clear change ({change} ± {time_text(half)}).{beside}"
    how = "slower" if whole["change_ns"] > 0 else "faster"
    sure = ", too few steps for an interval" if half is None else f" ± {time_text(half)}"
    tail = f": {parts}" if parts else ""
    return f"{name} {_relative(whole)}{how} ({change}{sure}){tail}."


def _parts(rows: Sequence[Row]) -> str:
    return ", ".join(
        f"{_short_name(one_line(row['name']), 44)} {signed_time(row['change_ns'])}" for row in rows
    )


def _relative(row: Row) -> str:
    ratio = row["change_ratio"]
    if ratio is None:
        return ""
    if ratio > _PER_CENT_UP_TO:
        return f"{ratio + 1:.1f} times "
    return f"{ratio_text(abs(ratio))} "


def signed_time(ns: float | None) -> str:
    """A change of a time, with its sign: `5440000` → `+5.440 ms`."""
    return f"+{time_text(ns)}" if ns is not None and ns > 0 else time_text(ns)


def signed_ratio(ratio: float | None) -> str:
    """A relative change, with its sign: `0.031` → `+3.1 %`."""
    text = ratio_text(ratio)
    return f"+{text}" if ratio is not None and ratio > 0 and text[0].isdigit() else text


def _half(row: Row) -> float | None:
    low, high = row["ci95_low_ns"], row["ci95_high_ns"]
    return None if low is None or high is None else (high - low) / 2


def _grid(rows: Sequence[Row], width: int) -> list[Line]:
    columns: list[tuple[str, list[str], bool]] = [
        ("before", [time_text(row["before_ns"]) for row in rows], False),
        ("after", [time_text(row["after_ns"]) for row in rows], False),
        ("change", [signed_time(row["change_ns"]) for row in rows], False),
        ("%", [signed_ratio(row.get("change_ratio")) for row in rows], False),
        ("±", [time_text(_half(row)) for row in rows], False),
        ("verdict", [row["verdict"] for row in rows], True),
        ("share", [ratio_text(row["share_ratio"]) for row in rows], False),
    ]
    if "calls_before" in rows[0]:
        columns.append(("calls", [_calls(row) for row in rows], False))
    if "inside" in rows[0]:
        inside = [shortened(one_line(row["inside"] or NOT_MEASURED), 30) for row in rows]
        columns.append(("inside", inside, True))
    widths = [max(len(head), *map(len, cells)) for head, cells, _ in columns]
    names = [f"{_INSIDE if row.get('inside') else ''}{one_line(row['name'])}" for row in rows]
    least = _NARROWEST_NAME if width < _WIDE else _NARROWEST_WHERE_WIDE
    least = min(least, max(map(len, names)))
    count = len(columns)
    while count > 1 and least + sum(widths[:count]) + _GAP * count > width:
        count -= 1
    room = max(least, width - sum(widths[:count]) - _GAP * count)
    room = min(room, max(len("name"), *map(len, names)))
    lines = []
    for place in range(-1, len(rows)):
        cells = ["name" if place < 0 else _short_name(names[place], room)]
        cells[0] = cells[0].ljust(room)
        for (head, values, is_text), own in zip(columns[:count], widths, strict=False):
            value = head if place < 0 else values[place]
            cells.append(value.ljust(own) if is_text else value.rjust(own))
        lines.append(Line((" " * _GAP).join(cells).rstrip(), "head" if place < 0 else "row"))
    left_out = ", ".join(head for head, _, _ in columns[count:])
    left_out = shortened(f"(more columns: {left_out})", width) if left_out else ""
    return [*lines, Line(left_out, "note")] if left_out else lines


def _short_name(name: str, width: int) -> str:
    """The end of a dotted path sets it apart; of other names, kernels above all, the begin does."""
    if len(name) <= width or not _DOTTED.fullmatch(name.removeprefix(_INSIDE)):
        return shortened(name, width)
    head = (width - 1) // 2
    return f"{name[:head]}…{name[len(name) - (width - 1 - head) :]}"


def _calls(row: Row) -> str:
    before, after = row["calls_before"], row["calls_after"]
    if before == after:
        return count_text(before)
    return f"{count_text(before)} → {count_text(after)}"


def gate_text(judged: Judged) -> str:
    """What became of a gate, on one line: the measured change and its interval."""
    row = judged.row
    words = [f"gate '{one_line(judged.gate.text)}' {judged.outcome}"]
    if row["change_ns"] is not None:
        relative = (
            f" ({signed_ratio(row['change_ratio'])})" if row["change_ratio"] is not None else ""
        )
        words.append(f"{signed_time(row['change_ns'])}{relative}")
        if row["ci95_low_ns"] is not None:
            ends = (signed_time(row["ci95_low_ns"]), signed_time(row["ci95_high_ns"]))
            words[-1] += f", 95 % interval {ends[0]} to {ends[1]}"
    if judged.reason:
        words.append(judged.reason)
    return f"{words[0]}: {'; '.join(words[1:])}"
