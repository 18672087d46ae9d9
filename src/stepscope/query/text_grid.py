"""Lays rows out as text: the one grid of the prompt, the command line and reports.

It decides which columns fit and how to shorten names; colour is added by whoever prints the lines.
"""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Literal

from stepscope.base.chosen_numbers import numbers_text
from stepscope.base.quoting import one_line, printable
from stepscope.base.text_cells import cells, first_cells, last_cells, left, right
from stepscope.base.units import (
    NOT_MEASURED,
    bandwidth_text,
    bytes_text,
    count_text,
    flops_text,
    moment_text,
    ratio_text,
    time_text,
)
from stepscope.formats.evidence import SUBJECTS
from stepscope.query.declare import JOB, Column
from stepscope.query.kernel_names import cut_apart, short_names

_APART = {"ratio": "share", "bytes": "bytes"}
_UNIT_TEXT = {
    "ns": time_text,
    "bytes": bytes_text,
    "bytes/s": bandwidth_text,
    "flop": flops_text,
    "flop/s": lambda value: flops_text(value, per_second=True),
    "ratio": ratio_text,
    "count": count_text,
}
_UNBROKEN = re.compile(r"(?<=\d) (?=(?:[nµm]?s|[KMGT]?i?B|[KMGT]?FLOP)\b|%)| (?=·)|`[^`]*`")
"""Where a line must not break: between a number and its unit, before a dot, within a command."""
_FIGURE = re.compile(r"(?<![^\s(])<?\d+(?:\.\d+)?(?=[\s,;)]|\.?(?:\s|$))")
"""A number that is a separate word: not part of a name, nor before a colon, which ends a job's name."""
_MAX_CHECKS = 5
_SEVERE = {"error": 0, "warning": 1}
_LISTED = re.compile(r"(?<=[a-z]),(?=[a-z])")
_LINE = re.compile(r"\(\d+\): \S+$")
_GAP = 2
_NARROWEST_TEXT = 24
_NARROWEST_KERNEL = 36
_WIDE = 110
"""From this many columns of text there is room for bars beside the numbers."""
_BAR = 8
_MAX_HTML_TEXT = 80
_MAX_HTML_TITLE = 400
_HTML_BAR = "rgba(90,159,150,.35)"
"""Visible on light and dark backgrounds."""
_EIGHTHS = "▏▎▍▌▋▊▉█"
MARK = "⚠"
"""Marks an answer that a failing check concerns."""

Row = Mapping[str, Any]
Style = Literal["title", "head", "row", "note", "warning", "command", "better", "worse", "map"]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text and its role, for whoever colours it."""

    text: str
    style: Style = "row"


def value_text(value: Any, column: Column) -> str:
    """A value with its unit, formatted for people."""
    if value is None:
        return NOT_MEASURED
    if isinstance(value, bool):
        return "yes" if value else "no"
    if column.moment:
        return moment_text(value)
    if column.unit in _UNIT_TEXT:
        return _UNIT_TEXT[column.unit](value)
    if isinstance(value, float):
        return NOT_MEASURED if value != value else f"{value:.4g}"
    return str(value)


def label(column: Column) -> str:
    """The heading of a column: its name without the unit, which each value has beside it."""
    endings = {"ns": "_ns", "bytes": "_bytes", "ratio": "_ratio"}
    return column.name.removesuffix(endings.get(column.unit, ""))


def heads(columns: Sequence[Column]) -> list[str]:
    """The headings of columns shown side by side. Equal ones are told apart by unit: beside `used_ns`, `used_ratio` is
    "used share"; beside `device`, `device_bytes` is "device bytes"."""
    plain = [label(column) for column in columns]
    return [
        f"{head} {_APART[column.unit]}" if column.unit in _APART and plain.count(head) > 1 else head
        for head, column in zip(plain, columns, strict=True)
    ]


def shortened(text: str, width: int) -> str:
    """Removes the middle of a text that is longer than the width; of a path, its beginning.

    A kernel's name begins with what it is and ends with what distinguishes it; a path, and a frame of a
    call stack, are distinguished by the end.

    >>> shortened("void at::native::elementwise_kernel<128, 4>", 24)
    'void at::native:…128, 4>'
    """
    if cells(text) <= width:
        return text
    if width < 2:
        return first_cells(text, width)
    if "/" in text and (" " not in text or _LINE.search(text)):
        return f"…{last_cells(text, width - 1)}"
    tail = (width - 1) // 3
    return f"{first_cells(text, width - 1 - tail)}…{last_cells(text, tail)}"


def warning_lines(checks: Sequence[Mapping[str, Any]], width: int, *, several: bool = False) -> list[Line]:
    """The checks that concern an answer, the severest first, up to a limit; several notes, which every answer about the
    recording would repeat, are only named.

    Checks that differ only in figures between recordings are written once, with those of the worst.
    If the answer covers `several` ranks, a rank is named even if only one is damaged.
    """
    several = several or len({check["rank"] for check in checks}) > 1
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for check in sorted(checks, key=_badness):
        key = (check["check"], _FIGURE.sub("0", check["explanation"]))
        groups.setdefault(key, []).append(check)
    lines = []
    severest = sum(group[0]["severity"] in _SEVERE for group in groups.values())
    notes = len({name for name, _ in list(groups)[severest:]})
    count = min(severest if notes > 1 else len(groups), _MAX_CHECKS)
    for (name, _), group in list(groups.items())[:count]:
        severe = group[0]["severity"] in _SEVERE
        where = _where(group, several=several)
        text = f"{MARK if severe else '·'} {name}{where}: {group[0]['explanation']}"
        style: Style = "warning" if severe else "note"
        lines += [Line(part, style) for part in wrapped(text, width, "  ")]
    if left := list(dict.fromkeys(name for name, _ in list(groups)[count:])):
        what = "more" if count else "notes on the recording"
        text = f"{len(groups) - count} {what} ({', '.join(left)}): `stepscope checks SRC`"
        lines += [Line(part, "note") for part in wrapped(text, width, "  ")]
    return lines


def _badness(check: Mapping[str, Any]) -> tuple[int, int]:
    return _SEVERE.get(check["severity"], len(_SEVERE)), -check["count"]


def _where(group: Sequence[Mapping[str, Any]], *, several: bool) -> str:
    """Where a check found what its first row says, and where it found the same with other figures."""
    stated = [row["rank"] for row in group if row["explanation"] == group[0]["explanation"]]
    others = [row["rank"] for row in group if row["explanation"] != group[0]["explanation"]]
    of_ranks = several and SUBJECTS.get(group[0]["check"]) != "job"
    parts = [f"rank {numbers_text(sorted(set(stated)))}"] if of_ranks else []
    if len({*stated, *others}) == len({*stated}) + len(others):
        parts += [f"other figures on rank {numbers_text(sorted(others))}"] if others else []
    else:  # one rank with several recordings
        recordings = "another recording" if len(others) == 1 else f"{len(others)} other recordings"
        parts.append(f"other figures in {recordings}")
    return f" ({'; '.join(parts)})" if parts else ""


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """Wraps the text to the width and indents all lines after the first.

    A number stays with its unit, and a command in backquotes on one line.
    """
    return _lines(one_line(text), max(width, 20), indent)


def _lines(text: str, width: int, indent: str = "", *, advises: bool = False) -> list[str]:
    joined = _UNBROKEN.sub(lambda match: match[0].replace(" ", "\N{NO-BREAK SPACE}"), text)
    lines = textwrap.wrap(joined, width, subsequent_indent=indent, break_on_hyphens=False, break_long_words=not advises)
    if advises:
        parts_of_line = ([line] if "`" in line else textwrap.wrap(line, width) for line in lines)
        lines = [part for parts in parts_of_line for part in parts]
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


def note_lines(note: str, width: int) -> list[Line]:
    """A note, wrapped."""
    return [Line(part, "note") for words in note.splitlines() for part in wrapped(words, width)]


def grid_lines(
    columns: Sequence[Column],
    rows: Sequence[Row],
    *,
    width: int,
    more: int = 0,
    complete: bool = False,
    in_sentences: bool = False,
    indented: bool = False,
    bars: bool = False,
) -> list[Line]:
    """Rows, at least one, as lines under a heading, and below them how many `more` there are.

    Args:
        complete: show every column, and let lines grow wider where they must.
        in_sentences: wrap long texts instead of shortening them.
        indented: indent the first text, which names the row, by the row's `depth`.
        bars: draw shares as bars beside their numbers where lines are wide.
    """
    columns_shown = list(columns) if complete else shown_columns(columns, rows)
    tree = next((c for c in columns if c.type == "text" and c != JOB), None) if indented else None
    texts = [[_cell(row, c, in_sentences, c is tree) for c in columns_shown] for row in rows]
    labels = heads(columns_shown)
    if bars and width >= _WIDE:
        _draw_shares(columns_shown, labels, rows, texts)
    for i, column in enumerate(columns_shown):
        if column.kernels:
            _replace(texts, i, short_names([row[i] for row in texts]))
    if not complete:
        fitting = _fitting_columns(columns_shown, labels, texts, width, in_sentences=in_sentences)
        columns_shown, labels = [columns_shown[i] for i in fitting], [labels[i] for i in fitting]
        texts = [[row[i] for i in fitting] for row in texts]
    widths = _widths(columns_shown, labels, texts, width)
    for i, column in enumerate(columns_shown):
        texts_of_column = [row[i] for row in texts]
        if column.kernels or (not in_sentences and _look_same(texts_of_column, widths[i])):
            _replace(texts, i, cut_apart(texts_of_column, widths[i]))
    lines = [Line(_joined(labels, columns_shown, widths), "head")]
    for row in texts:
        parts = _broken(row, columns_shown, widths) if in_sentences else [row]
        lines += [Line(_joined(part, columns_shown, widths, in_sentences=in_sentences)) for part in parts]
    if more:
        lines.append(Line(f"({count_text(more)} more rows)", "note"))
    hidden = [c.name for c in columns if c not in columns_shown]
    if hidden:
        lines += note_lines(f"(more columns: {', '.join(hidden)})", width)
    return lines


def _draw_shares(columns: Sequence[Column], labels: list[str], rows: Sequence[Row], texts: list[list[str]]) -> None:
    """Adds a bar to each value of the first column of shares; the largest value gets the longest."""
    shares = [i for i, c in enumerate(columns) if c.unit == "ratio" and c.name.endswith("share_ratio")]
    if not shares:
        return
    values = [row[columns[shares[0]].name] or 0.0 for row in rows]
    if (high := max(values)) <= 0:
        return
    labels[shares[0]] += " " * (_GAP + _BAR)
    for row, value in zip(texts, values, strict=True):
        eighths = round(max(value, 0.0) / high * _BAR * 8)
        bar = "█" * (eighths // 8) + (_EIGHTHS[eighths % 8 - 1] if eighths % 8 else "")
        row[shares[0]] += " " * _GAP + bar.ljust(_BAR)


def shown_columns(columns: Sequence[Column], rows: Sequence[Row]) -> list[Column]:
    """The columns to show if none were requested."""
    return [column for column in columns if _is_shown(column, rows)]


def _is_shown(column: Column, rows: Sequence[Row]) -> bool:
    if column.visible == "varying":
        return len({row[column.name] for row in rows}) > 1
    return column.visible


def _look_same(texts: Sequence[str], width: int) -> bool:
    """Whether different texts would look the same when shortened."""
    different = set(texts)
    return len({shortened(text, width) for text in different}) < len(different)


def _replace(rows: list[list[str]], position: int, texts: list[str]) -> None:
    for row, text in zip(rows, texts, strict=True):
        row[position] = text


def _cell(row: Row, column: Column, in_sentences: bool, indented: bool) -> str:
    text = value_text(row[column.name], column)
    if in_sentences and "\n" in text:
        return "\n".join(printable(line) for line in text.splitlines())
    text = one_line(text)
    return "  " * int(row.get("depth") or 0) + text if indented else text


def _widths(columns: list[Column], labels: list[str], rows: list[list[str]], width: int) -> list[int]:
    """Natural widths, except that the widest texts are narrowed first until the rest fits."""
    widths = [
        max(len(label), *(cells(part) for row in rows for part in row[i].split("\n") or [""]))
        for i, label in enumerate(labels)
    ]
    narrowest = [
        max(min(_NARROWEST_KERNEL, width // 2) if c.kernels else _NARROWEST_TEXT, len(labels[i]))
        for i, c in enumerate(columns)
    ]
    while (excess := sum(widths) + _GAP * (len(widths) - 1) - width) > 0:
        texts = [i for i, c in enumerate(columns) if c.type == "text" and widths[i] > narrowest[i]]
        if not texts:
            break
        widest = max(texts, key=lambda i: widths[i])
        second = max((widths[i] for i in texts if i != widest), default=0)
        widths[widest] = max(narrowest[widest], widths[widest] - excess, min(second, widths[widest] - 1))
    return widths


def _fitting_columns(
    columns: list[Column], labels: list[str], texts: list[list[str]], width: int, *, in_sentences: bool
) -> list[int]:
    """Which columns to show: the first (after the job), the sums, and as many others as fit, from the left.
    Columns without any value are dropped first. An answer in words also keeps its sentences."""
    indices = range(len(columns))
    first = {0, 1} if columns[0] == JOB and len(columns) > 1 else {0}
    sums = {*first, *(i for i in indices if columns[i].sums)}

    silent = {i for i in indices if all(row[i] == NOT_MEASURED for row in texts)}

    def fitting(staying: set[int]) -> list[int]:
        fitted = list(indices)
        leaving = sorted(fitted[1:], key=lambda i: (i not in staying, i in silent, i))
        while True:
            texts_fitted = [[row[i] for i in fitted] for row in texts]
            widths = _widths([columns[i] for i in fitted], [labels[i] for i in fitted], texts_fitted, width)
            if not leaving or sum(widths) + _GAP * (len(widths) - 1) <= width:
                return fitted
            fitted.remove(leaving.pop())

    if in_sentences and (of_text := [i for i in indices if columns[i].type == "text"]):
        # Count spaces: a list of names is not a sentence, however long.
        sentence = max(of_text, key=lambda i: max(row[i].count(" ") for row in texts))
        fitted = fitting({*sums, sentence})
        if sentence in fitted:
            return fitted
    return fitting(sums)


def _joined(row: list[str], columns: list[Column], widths: list[int], *, in_sentences: bool = False) -> str:
    padded = [
        left(cell if in_sentences and column.advises else shortened(cell, width), width)
        if column.type == "text"
        else right(cell, width)
        for cell, column, width in zip(row, columns, widths, strict=True)
    ]
    return (" " * _GAP).join(padded).rstrip()


def _broken(texts: list[str], columns: list[Column], widths: list[int]) -> list[list[str]]:
    """Breaks the texts into as many lines as the longest needs: sentences are not shortened, and a command of
    ours stays in one piece, however long, so that it can be copied."""
    broken = [
        [
            part
            for line in cell.split("\n")
            # Lists of names have no spaces.
            for part in _lines(_LISTED.sub(", ", line), width, advises=column.advises) or [""]
        ]
        if column.type == "text"
        else [cell]
        for cell, column, width in zip(texts, columns, widths, strict=True)
    ]
    return [list(line) for line in itertools.zip_longest(*broken, fillvalue="")]


def grid_html(columns: Sequence[Column], rows: Sequence[Row], *, in_sentences: bool = False) -> str:
    """Rows as an HTML table for light and dark backgrounds; texts are escaped, and shortened unless they are sentences.

    A column's meaning and unit are its heading's title; shares have a bar behind them.
    """
    shorter = {
        c.name: dict(zip(names, short_names(names), strict=True))
        for c in columns
        if c.kernels and (names := [row[c.name] or "" for row in rows])
    }
    head = "".join(
        f'<th style="text-align:{_side(c)}" title="{escape(_titled(c))}">{escape(c.name)}</th>' for c in columns
    )
    limit = _MAX_HTML_TITLE if in_sentences else _MAX_HTML_TEXT
    body = "".join(
        "<tr>" + "".join(_cell_html(row[c.name], c, shorter.get(c.name, {}), limit) for c in columns) + "</tr>"
        for row in rows
    )
    return f'<div style="overflow-x:auto"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _side(column: Column) -> str:
    return "left" if column.type == "text" else "right"


def _titled(column: Column) -> str:
    return f"{column.meaning} ({column.unit})" if column.unit else column.meaning


def _cell_html(value: Any, column: Column, shorter: Mapping[str, str], limit: int) -> str:
    text = one_line(value_text(value, column))
    short = shortened(one_line(shorter.get(value, text)), limit)
    style = f"text-align:{_side(column)}" + ("" if column.type == "text" else ";white-space:nowrap")
    if column.name.endswith("share_ratio") and value is not None and 0 < value <= 1:
        style += f";background:linear-gradient(to right,{_HTML_BAR} {100 * value:.1f}%,transparent 0)"
    title = f' title="{escape(shortened(text, _MAX_HTML_TITLE))}"' if short != text else ""
    return f'<td style="{style}"{title}>{escape(short)}</td>'
