"""Findings in a terminal: a paragraph each, in the answer's order.

Computes nothing: every number is in the rows of the question `findings`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stepscope.base.units import ratio_text, time_text
from stepscope.findings.declare import HIGH, MEDIUM, WITH_HOST, WITH_OTHERS
from stepscope.query.text_grid import MARK, Line, note_lines, wrapped
from stepscope.report.advice import advice_lines
from stepscope.report.renderers import Layout, Renderer

if TYPE_CHECKING:
    from stepscope.query.table import Table

Row = dict[str, Any]

_SEVERITY = f"Severity: high from {100 * HIGH:.0f} % of the step that ranks lose, medium from {100 * MEDIUM:.0f} %."
_LAST = "The evidence and queries behind these numbers: --json."


def findings_lines(table: Table, layout: Layout) -> list[Line]:
    """Formats findings as paragraphs: what was found, what it could save, what to do."""
    width, max_rows = layout.width, layout.max_rows
    lines = [Line(text, "title") for text in wrapped(table.question.asks, width)]
    rows = table.rows()
    if not rows:
        return lines + note_lines(table.note, width)
    for number, row in enumerate(rows[:max_rows], start=1):
        lines += [Line(""), *_paragraph(number, row, layout._replace(width=width - 3))]
    hidden = len(rows) - len(rows[:max_rows])
    last = f"{hidden} more with --top {len(rows)}. {_LAST}" if hidden else _LAST
    saves = any(row["saving_high_ns"] is not None for row in rows[:max_rows])
    notes = [_SEVERITY, last] if saves else [last]
    return [*lines, Line(""), *(line for note in notes for line in note_lines(note, width))]


def _paragraph(number: int, row: Row, inside: Layout) -> list[Line]:
    """Formats a finding; its lines after the first are indented."""
    width = inside.width
    lines = [Line(text, "head") for text in wrapped(f"{number}. {row['title']}", width + 3, "   ")]
    lines += [Line(f"   {text}") for text in wrapped(_saving(row), width)]
    # The bound states what it includes and excludes.
    advice = row["advice"].replace(WITH_HOST, "").replace(WITH_OTHERS, "")
    below = advice_lines("Next: ", advice, inside)
    if row["saving_high_ns"] is not None and row["trade_off"]:
        below += [Line(text) for text in wrapped(f"Trade-off: {row['trade_off']}", width, "  ")]
    lines += [replace(line, text=f"   {line.text}") for line in below]
    if row["failing_checks"]:
        words = f"{MARK} read with care: {row['failing_checks']}"
        lines += [Line(f"   {text}", "warning") for text in wrapped(words, width)]
    return lines


def _saving(row: Row) -> str:
    """The saving and severity of a finding, how certain the cause is, and its rule."""
    high, low = row["saving_high_ns"], row["saving_low_ns"]
    sure = f"Confidence in the cause: {row['confidence']}. Rule: {row['id']}."
    if high is None:
        return sure
    share = ratio_text(row["saving_share_ratio"])
    bounds = f"at most {time_text(high)}" if not low else f"{time_text(low)} to {time_text(high)}"
    share = share if not low else f"at most {share}"
    included, by, of_rank, others = "", "", "", ""
    if WITH_HOST in row["advice"]:
        included, by = ", including other waits that faster host code may shorten", " by the loss alone"
    if WITH_OTHERS in row["advice"]:
        of_rank, others = " of a rank's own time", WITH_OTHERS
    saved = f"Could save {bounds} a {row['per']}{of_rank} ({share}){included}; severity {row['severity']}{by}."
    return f"{saved}{others} {sure}"


RENDERER = Renderer(lines=findings_lines, chart="none", is_per_job=True, completes_commands=True)
