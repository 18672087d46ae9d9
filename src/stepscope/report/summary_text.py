"""The summary in a terminal: its rows in words, at most 40 lines.

Computes nothing: every number is in the rows of the question `summary`.
"""

from __future__ import annotations

import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stepscope.analysis.steps.parts import STEP_PARTS
from stepscope.base.quoting import one_line
from stepscope.base.text_cells import left
from stepscope.base.units import NOT_MEASURED, count_text, plural, ratio_text, time_text
from stepscope.query.kernel_names import cut_apart, short_names
from stepscope.query.text_grid import MARK, Line, shortened, wrapped
from stepscope.report.advice import advice_lines, asked_of
from stepscope.report.renderers import Layout, Renderer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.query.table import Table

Row = dict[str, Any]

MAX_LINES = 40
_MAX_CHECKS = 3
_MIN_LIST_LINES = 3
"""Lines of a list that the checks must leave room for."""
_MAX_FINDINGS = 2
_MAX_DEVICES = 2
_LABEL = 11
_BAR = 30

_ACTIVITIES = {part.name: part.title for part in STEP_PARTS}
_LISTS = {"operators": "Operators", "kernels": "Kernels", "modules": "Modules"}


def summary_lines(table: Table, layout: Layout) -> list[Line]:
    """Formats the summary as at most 40 lines, the verdict first; no line is wider than the layout."""
    width = layout.width
    sections: dict[str, list[Row]] = {}
    for row in table.rows():
        sections.setdefault(row["section"], []).append(row)
    above = [
        *_verdict(sections.get("verdict", []), layout, unreliable=table.unreliable),
        Line(""),
        *_recorded(sections, width),
        *_phases(sections, width),
        *_breakdown(sections, width),
        *_worth_changing(sections, width),
    ]
    lists = [(title, sections[name]) for name, title in _LISTS.items() if sections.get(name)]
    room = MAX_LINES - len(above) - _MIN_LIST_LINES * len(lists)
    below = _checks(sections.get("checks", []), width, room, asked_of("checks", layout.command, layout.source))
    room = MAX_LINES - len(above) - len(below)
    lines = above + _top_lists(lists, room, width) + below
    return [
        line if line.style == "command" else replace(line, text=shortened(line.text, width))
        for line in lines[:MAX_LINES]
    ]


def _verdict(rows: list[Row], layout: Layout, *, unreliable: bool) -> list[Line]:
    if not rows:
        return []
    verdict, then, *others = rows
    mark = f"{MARK} " if unreliable or verdict["item"] == "data-quality" else ""
    style: Any = "warning" if mark else "title"
    lines = [Line(text, style) for text in wrapped(f"{mark}{verdict['text']}.", layout.width, "  ")]
    for other in others[:_MAX_FINDINGS]:
        # "Input-bound: for 6 % of ..." would claim too much for a loss that is not the largest.
        _, _, evidence = other["text"].partition(": ")
        lines += [Line(text) for text in wrapped(f"Also {evidence}.", layout.width, "  ")]
    return lines + advice_lines("Next: ", then["text"], layout)


def _recorded(sections: dict[str, list[Row]], width: int) -> list[Line]:
    items = {row["item"]: row for row in sections.get("recorded", [])}
    rows = (
        ("Recorded", _what(items, sections)),
        ("Files", _files(items)),
        ("Clocks", items["clocks"]["text"] if "clocks" in items else ""),
        ("Steps", _steps(items)),
        ("Step time", _step_time(sections)),
        ("", _of_step_time(sections, "not traced")),
        ("", _of_step_time(sections, "throughput")),
        ("Device", _device(sections)),
        ("", _device_time(sections)),
    )
    return [
        Line(f"{'' if position else label:<{_LABEL}}{text}")
        for label, words in rows
        if words
        for position, text in enumerate(wrapped(words, width - _LABEL))
    ]


def _of_step_time(sections: dict[str, list[Row]], item: str) -> str:
    rows = (row for row in sections.get("step time", []) if row["item"] == item)
    return next((str(row["text"]) for row in rows), "")


def _what(items: dict[str, Row], sections: dict[str, list[Row]]) -> str:
    devices = [
        (row, str(row["text"]).partition("device, ")[2])
        for row in sections.get("recorded", [])
        if str(row["text"]).partition(", ")[0] == "device"
    ]
    parts = [items["tool"]["text"] or "", _ranks(items)]
    parts += [
        f"{row['count']} × {row['item']}" + (f" ({more})" if more else "") for row, more in devices[:_MAX_DEVICES]
    ]
    if not devices and "breakdown" in sections:  # a job that times itself may have one
        lost = any(
            row["item"] == "no_gpu_events" and not str(row["text"]).startswith("note")
            for row in sections.get("checks", [])
        )
        parts.append("device events missing" if lost else "no device")
    return " · ".join(part for part in parts if part)


def _ranks(items: dict[str, Row]) -> str:
    ranks = items["ranks"]
    words = f"{plural(ranks['count'], 'rank')} {ranks['text']}"
    recordings = items.get("recordings")
    return words + (f", {recordings['count']} recordings" if recordings else "")


def _files(items: dict[str, Row]) -> str:
    files = items["files"]
    number = f"{count_text(files['count'])} {plural(files['count'], 'file')}"
    events = items["events"]
    chosen = f", {events['text']}" if events["text"] else ""
    return f"{number}, {count_text(events['count'])} events{chosen}; {files['text']}"


def _steps(items: dict[str, Row]) -> str:
    steps = items["steps"]
    ranks = items["ranks"]["count"]
    over = f" over {count_text(ranks)} ranks" if ranks > 1 else ""
    words = f"{count_text(steps['count'])}{over} ({steps['text']})"
    if items["duration"]["time_ns"] is not None:
        words += f"; {time_text(items['duration']['time_ns'])} recorded"
    return f"{words}. {items['left out']['text']}" if "left out" in items else words


def _step_time(sections: dict[str, list[Row]]) -> str:
    rows = [row for row in sections.get("step time", []) if row["text"] is None]
    traced = "traced: " if _of_step_time(sections, "not traced") else ""
    if rows and rows[0]["count"] == 1:  # its mean and percentiles are equal
        return traced + time_text(rows[0]["time_ns"])
    parts = [
        f"{row['item']} {time_text(row['time_ns'])}" + ("" if row["rank"] is None else f" (rank {row['rank']})")
        for row in rows
    ]
    return traced + " · ".join(parts) if parts else ""


def _device(sections: dict[str, list[Row]]) -> str:
    parts = [
        f"{row['item']} {ratio_text(row['share_ratio'])}" + ("" if row["rank"] is None else f" (rank {row['rank']})")
        for row in sections.get("device", [])
        if row["time_ns"] is None
    ]
    # Two windows: work outside of steps only counts in the second.
    window = "within steps: " if "step time" in sections else "complete recording: "
    return window + " · ".join(parts) if parts else ""


def _device_time(sections: dict[str, list[Row]]) -> str:
    parts = [
        f"{row['item']} {ratio_text(row['share_ratio'])}"
        for row in sections.get("device", [])
        if row["time_ns"] is not None and (row["share_ratio"] or row["item"] != "without a known launch")
    ]
    return "first to last device work: " + " · ".join(parts) if parts else ""


def _phases(sections: dict[str, list[Row]], width: int) -> list[Line]:
    if "phases" not in sections:
        return []
    step, *rows = sections["phases"]
    head = (
        f"Phases of the mean step of the run, on the host ({count_text(step['count'])} steps, "
        f"{time_text(step['time_ns'])})"
    )
    return _parts(head, rows, {row["item"]: row["item"] for row in rows}, width)


def _breakdown(sections: dict[str, list[Row]], width: int) -> list[Line]:
    rows = [row for row in sections.get("breakdown", []) if row["item"] != "total"]
    if not rows:
        return []
    of = "Mean step" if "step time" in sections else "Complete recording"
    if "phases" in sections:
        of = of.replace("Mean step", "Mean step of the trace")
    return _parts(f"{of} (overlapping activities counted once, in this order)", rows, _ACTIVITIES, width)


def _parts(head: str, rows: list[Row], names: Mapping[str, str], width: int) -> list[Line]:
    """Formats the parts of a step with time, share and bar; those without time are named below."""
    lines = [Line(""), Line(shortened(head, width), "head")]
    none = [row["item"] for row in rows if row["time_ns"] == 0]
    unmeasured = [row["item"] for row in rows if row["time_ns"] is None]
    for row in rows:
        if row["item"] in (*none, *unmeasured):
            continue
        time, share = time_text(row["time_ns"]), row["share_ratio"]
        bar = "█" * round(share * min(_BAR, max(0, width - 40)))
        name = names[row["item"]]
        lines.append(Line(f"  {name:<14}{time:>12}{ratio_text(share):>9}  {bar}".rstrip()))
    for words, items in (("no time in", none), ("not recorded", unmeasured)):
        if items:
            named = ", ".join(names[item] for item in items)
            lines += [Line(f"  {text}", "note") for text in wrapped(f"{words}: {named}", width - 2, "  ")]
    return lines


def _worth_changing(sections: dict[str, list[Row]], width: int) -> list[Line]:
    rows = sections.get("findings", [])
    if not rows:
        return []
    of = "a step" if "step time" in sections else "the recording"
    head = f"Findings: what {of} could save at most"
    lines = [Line(shortened(head, width), "head")]
    for row in rows:
        saving = f"  {time_text(row['time_ns']):>12}{ratio_text(row['share_ratio']):>9}  "
        room = max(12, width - len(saving))
        title = textwrap.shorten(one_line(row["text"]), room, placeholder=" …")
        lines.append(Line(f"{saving}{title}"))
    for row in sections.get("bounds", []):
        lines += [Line(f"  {part}", "note") for part in wrapped(row["text"], width - 2)]
    return lines


def _top_lists(lists: list[tuple[str, list[Row]]], room: int, width: int) -> list[Line]:
    """As many rows of each list as fit, the same number of each."""
    lines: list[Line] = []
    for position, (title, rows) in enumerate(lists):
        fair = (room - len(lines)) // (len(lists) - position) - 1
        if fair < 1:
            continue
        of_kernels = title == _LISTS["kernels"]
        times = "count" if of_kernels else "calls"  # the words of these questions
        head = _top_line(f"{title} by {rows[0]['text']}", "time", "share", times, width)
        lines.append(Line(head, "head"))
        names = [one_line(row["item"]) for row in rows[:fair]]
        if of_kernels:
            names = cut_apart(short_names(names), _room(width) - 2)
        lines += [
            Line(
                _top_line(
                    f"  {name}",
                    time_text(row["time_ns"]),
                    ratio_text(row["share_ratio"]),
                    NOT_MEASURED if row["count"] is None else count_text(row["count"]),
                    width,
                )
            )
            for name, row in zip(names, rows, strict=False)
        ]
    return lines


_FIGURES = 31
"""Columns of text for the numbers of a list."""


def _room(width: int) -> int:
    return max(12, min(width, 110) - _FIGURES)


def _top_line(name: str, time: str, share: str, count: str, width: int) -> str:
    room = _room(width)
    return f"{left(shortened(name, room), room)}{time:>12}{share:>9}{count:>10}"


def _checks(rows: list[Row], width: int, room: int, command: str) -> list[Line]:
    """The first checks in full, as many as fit, but at least one."""
    check_lines: list[Line] = []
    for count, row in enumerate(rows):
        severity, _, explanation = row["text"].partition(": ")
        severe = severity in ("error", "warning")
        where = "" if row["rank"] is None else f" (rank {row['rank']})"
        text = f"{MARK if severe else '·'} {row['item']}{where}: {one_line(explanation)}"
        lines = [Line(part, "warning" if severe else "note") for part in wrapped(text, width, "  ")]
        further = int(count + 1 < len(rows))
        if count == _MAX_CHECKS or (count and len(check_lines) + len(lines) + further > room):
            return [*check_lines, Line(f"{len(rows) - count} more: {command}", "note")]
        check_lines += lines
    return check_lines


RENDERER = Renderer(lines=summary_lines, is_grid_if_cut=True, is_per_job=True, completes_commands=True)
