"""A comparison of two recordings in a terminal: one sentence, then the table of signed changes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from stepscope.base.quoting import one_line
from stepscope.base.statistics import is_informative
from stepscope.base.text_cells import cells, left, right
from stepscope.base.units import NOT_MEASURED, count_text, ratio_text, time_text
from stepscope.compare.drivers import Row, find_drivers
from stepscope.query.kernel_names import cut_apart, short_names
from stepscope.query.text_grid import MARK, Line, Style, note_lines, shortened, warning_lines, wrapped
from stepscope.report.markdown_table import INDENT, MAX_CELL_WIDTH, escaped, markdown_table
from stepscope.report.renderers import Layout, MarkdownAnswer, Renderer

if TYPE_CHECKING:
    from stepscope.query.table import Table

_STYLES: dict[str, Style] = {"faster": "better", "slower": "worse"}
_GAP = 2
_WIDE = 100
_NARROWEST_NAME = 24
_NARROWEST_WHERE_WIDE = 44
_CALLS = "›"
_INSIDE = "↳ "
_MAX_NAMED = 3
"""The most parts that the sentence names."""
_OF_ONE_SIDE = 0.1
_DOTTED = re.compile(r"\w+(\.\w+){2,}")
_PER_CENT_UP_TO = 10.0
"""Above ten times, "times" reads better than per cent."""


def diff_lines(table: Table, layout: Layout) -> list[Line]:
    """Formats the answer of `diff` as lines."""
    width = layout.width
    rows = table.rows()
    mark = f"{MARK} " if table.unreliable else ""
    sentence = wrapped(f"{mark}{verdict_sentence(rows)}", width)
    lines = [Line(part, "title") for part in sentence]
    if rows:
        visible = rows_in_short(rows, layout.max_rows)
        lines += [Line(""), *_grid(visible, width)]
        if hidden := _hidden_rows(rows, visible):
            lines.append(Line(f"({count_text(hidden)} more rows)", "note"))
    if table.note:
        lines += [Line(""), *note_lines(table.note, width)]
        if any(row.get("inside") for row in rows):
            lines.append(Line(f"{_INSIDE}runs inside another measured event", "note"))
    return lines + warning_lines(table.checks, width)


def _hidden_rows(rows: Sequence[Row], visible: Sequence[Row]) -> int:
    """How many rows are not shown; a tree has a row for them."""
    return 0 if "depth" in rows[0] else len(rows) - len(visible)


def _markdown(table: Table, max_rows: int | None) -> MarkdownAnswer:
    rows = table.rows()
    title = verdict_sentence(rows)
    if not rows:
        return MarkdownAnswer(title, "", 0)
    visible = rows_in_short(rows, max_rows)
    columns = columns_of(visible)
    names = cut_apart(names_of(visible), MAX_CELL_WIDTH)
    cells = [
        [INDENT * row.get("depth", 0) + escaped(name), *(escaped(values[place]) for _, values, _ in columns)]
        for place, (row, name) in enumerate(zip(visible, names, strict=True))
    ]
    head = ["name", *(title for title, _, _ in columns)]
    text = markdown_table(head, cells, [True, *(is_text for _, _, is_text in columns)])
    return MarkdownAnswer(title, text, _hidden_rows(rows, visible))


def verdict_sentence(rows: Sequence[Row]) -> str:
    """States in one sentence what changed: the total, the parts with most of the change, and those with the opposite
    one."""
    if not rows:
        return "Nothing to compare."
    drivers = find_drivers(rows)
    total, parts = drivers.total, _parts(drivers.parts[:_MAX_NAMED])
    if total is None:
        return f"The complete iteration was not measured in both. {parts or 'No clear change'}."
    name = f"{total['name'][:1].upper()}{total['name'][1:]}"
    changed_parts = f" Parts of it did change: {parts}." if parts else ""
    if total["verdict"] == "same":
        return f"{name}: no change.{changed_parts}"
    change = signed_time(total["change_ns"])
    half = _half(total)
    sure = ", too few steps for an interval" if half is None else f" ± {time_text(half)}"
    if total["verdict"] == "unclear":
        return f"{name}: no clear change ({change}{sure}).{changed_parts}"
    how = "slower" if total["change_ns"] > 0 else "faster"
    tail = f": {parts}" if parts else ""
    if against := _parts(drivers.against[:_MAX_NAMED]):
        tail += f"{'; ' if parts else ', '}against that {against}"
    return f"{name} {_relative(total)}{how} ({change}{sure}){tail}."


def _parts(rows: Sequence[Row]) -> str:
    return ", ".join(f"{_placed(row)} {signed_time(row['change_ns'])}" for row in rows)


def _placed(row: Row) -> str:
    """A part's name; in a tree, with the part of the step that contains it."""
    name = _short_name(one_line(row["name"]), 44)
    outermost = (row.get("path") or "").split(" / ")[0]
    return name if row.get("depth", 0) < 2 else f"{one_line(outermost)} / {name}"


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
    """Half the 95 % interval of the change; None if it is unknown or wider than the times themselves."""
    low, high = row["ci95_low_ns"], row["ci95_high_ns"]
    if (
        low is None
        or high is None
        or not is_informative(half := (high - low) / 2, max(row["before_ns"] or 0, row["after_ns"] or 0))
    ):
        return None
    return float(half)


def _joined(rows: Sequence[Row]) -> list[Row]:
    """A tree's rows, with each operator that only calls one other joined to that one."""
    joined: list[Row] = []
    up: list[tuple[int, int]] = []
    """(depth, how many levels its descendants move up), from the root."""
    place = 0
    while place < len(rows):
        row = rows[place]
        while up and row["depth"] <= up[-1][0]:
            up.pop()
        moved = up[-1][1] if up else 0
        depth = row["depth"] - moved
        names = [row["name"]]
        while _calls_one(rows, place):
            place += 1
            moved += 1
            names.append(rows[place]["name"])
        row = rows[place]
        up.append((row["depth"], moved))
        joined.append({**row, "name": f" {_CALLS} ".join(names), "depth": depth})
        place += 1
    return joined


def _calls_one(rows: Sequence[Row], place: int) -> bool:
    row, below = rows[place], rows[place + 1 : place + 2]
    return (
        row["kind"] in ("operator", "range")
        and bool(below)
        and below[0]["kind"] == row["kind"]
        and below[0]["depth"] == row["depth"] + 1
        and all(below[0][name] == row[name] for name in ("before_ns", "after_ns", "verdict"))
        and not any(other["depth"] == row["depth"] + 1 for other in _until_above(rows, place + 2, row["depth"]))
    )


def _until_above(rows: Sequence[Row], place: int, depth: int) -> Iterator[Row]:
    while place < len(rows) and rows[place]["depth"] > depth:
        yield rows[place]
        place += 1


def rows_in_short(rows: Sequence[Row], max_rows: int | None) -> list[Row]:
    """The first rows, or all for None. Of a tree, the rows that changed most, with their parents, and for each node
    with hidden parts one row that sums them, so that the sums can be checked."""
    if "depth" not in rows[0]:
        return list(rows[:max_rows])
    rows = _joined(rows)
    if max_rows is None or len(rows) <= max_rows:
        return rows
    above: list[int] = []
    parent: list[int] = []
    for place, row in enumerate(rows):
        del above[row["depth"] :]
        parent.append(above[-1] if above else -1)
        above.append(place)
    visible: set[int] = set()
    for place in sorted(range(len(rows)), key=lambda place: -_weight(rows, parent, place)):
        ancestors = []
        while place >= 0 and place not in visible:
            ancestors.append(place)
            place = parent[place]
        if len(visible) + len(ancestors) <= max_rows:
            visible.update(ancestors)
    others: dict[int, list[int]] = {}
    for place in range(len(rows)):
        if place not in visible and parent[place] in visible:
            others.setdefault(parent[place], []).append(place)
    for place in [place for place, hidden in others.items() if len(hidden) == 1]:
        visible.update(others.pop(place))
    opened = {parent[place] for place in visible}
    short: list[Row] = []
    waiting: list[tuple[int, Row]] = []
    for place in sorted(visible):
        depth = rows[place]["depth"]
        while waiting and waiting[-1][0] > depth:
            short.append(waiting.pop()[1])
        short.append(rows[place])
        if place in opened and place in others:
            left = [rows[other] for other in others[place]]
            waiting.append((depth + 1, _together(left, depth + 1)))
    return short + [row for _, row in reversed(waiting)]


def _weight(rows: Sequence[Row], parent: Sequence[int], place: int) -> float:
    """A row's weight in a tree: its change, less if it is in a part that only one side has."""
    change = float(abs(rows[place]["change_ns"] or 0))
    inside = rows[parent[place]]["verdict"] if parent[place] >= 0 else ""
    return change * _OF_ONE_SIDE if inside in ("added", "removed") else change


def _together(rows: Sequence[Row], depth: int) -> Row:
    """One row for the parts that are not shown."""
    summed = {column: sum(row[column] or 0 for row in rows) for column in ("before_ns", "after_ns", "change_ns")}
    name = f"({count_text(len(rows))} others)"
    return {**dict.fromkeys(rows[0]), **summed, "name": name, "depth": depth, "verdict": ""}


def names_of(rows: Sequence[Row]) -> list[str]:
    """The names of the rows; kernels in a tree without the noise in their names."""
    kernels = [row["name"] for row in rows if row.get("kind") == "kernel"]
    short = dict(zip(kernels, short_names(kernels), strict=True))
    return [one_line(short.get(row["name"]) or row["name"]) for row in rows]


def columns_of(rows: Sequence[Row]) -> list[tuple[str, list[str], bool]]:
    """The columns beside the names: head, cells, and whether they are texts."""
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
    if any(row.get("matched") for row in rows):
        matched = [one_line(row.get("matched") or "") for row in rows]
        columns.append(("matched", matched, True))
    if "inside" in rows[0]:
        inside = [shortened(one_line(row["inside"] or NOT_MEASURED), 30) for row in rows]
        columns.append(("inside", inside, True))
    return columns


def _grid(rows: Sequence[Row], width: int) -> list[Line]:
    columns = columns_of(rows)
    widths = [max(len(head), *map(cells, texts)) for head, texts, _ in columns]
    names = [
        f"{'  ' * row.get('depth', 0)}{_INSIDE if row.get('inside') else ''}{name}"
        for row, name in zip(rows, names_of(rows), strict=True)
    ]
    min_name = _NARROWEST_NAME if width < _WIDE else _NARROWEST_WHERE_WIDE
    min_name = min(min_name, max(map(cells, names)))
    count = len(columns)
    while count > 1 and min_name + sum(widths[:count]) + _GAP * count > width:
        count -= 1
    room = max(min_name, width - sum(widths[:count]) - _GAP * count)
    room = min(room, max(len("name"), *map(cells, names)))
    cut = [_short_name(name, room) for name in names]
    if len(set(cut)) < len(set(names)):
        cut = cut_apart(names, room)
    lines = []
    for place in range(-1, len(rows)):
        parts = [left("name" if place < 0 else cut[place], room)]
        for (head, values, is_text), column_width in zip(columns[:count], widths, strict=False):
            value = head if place < 0 else values[place]
            parts.append(left(value, column_width) if is_text else right(value, column_width))
        style: Style = "head" if place < 0 else _STYLES.get(rows[place]["verdict"], "row")
        lines.append(Line((" " * _GAP).join(parts).rstrip(), style))
    left_out = ", ".join(head for head, _, _ in columns[count:])
    left_out = shortened(f"(more columns: {left_out})", width) if left_out else ""
    return [*lines, Line(left_out, "note")] if left_out else lines


def _short_name(name: str, width: int) -> str:
    """Shortens a name: a dotted path keeps its end, other names, mostly kernels, their start."""
    if cells(name) != len(name) or len(name) <= width or not _DOTTED.fullmatch(name.removeprefix(_INSIDE)):
        return shortened(name, width)
    head = (width - 1) // 2
    return f"{name[:head]}…{name[len(name) - (width - 1 - head) :]}"


def _calls(row: Row) -> str:
    before, after = row["calls_before"], row["calls_after"]
    if before is None or after is None:
        return NOT_MEASURED
    if before == after:
        return count_text(before)
    return f"{count_text(before)} → {count_text(after)}"


def gate_text(gate: Row) -> str:
    """Reports a gate, as in `Table.gates`, on one line: the measured change and its interval."""
    words = [f"gate '{one_line(gate['gate'])}' {gate['outcome']}"]
    if gate["change_ns"] is not None:
        relative = f" ({signed_ratio(gate['change_ratio'])})" if gate["change_ratio"] is not None else ""
        words.append(f"{signed_time(gate['change_ns'])}{relative}")
        if gate["ci95_low_ns"] is not None:
            ends = (signed_time(gate["ci95_low_ns"]), signed_time(gate["ci95_high_ns"]))
            words[-1] += f", 95 % interval {ends[0]} to {ends[1]}"
    if gate["reason"]:
        words.append(gate["reason"])
    return f"{words[0]}: {'; '.join(words[1:])}"


RENDERER = Renderer(
    lines=diff_lines, markdown=_markdown, conclusions=lambda table: [verdict_sentence(table.rows())], selects_rows=True
)
