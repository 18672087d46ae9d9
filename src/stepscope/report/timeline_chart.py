"""The measured events of an iteration, drawn where they run in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from stepscope.api.several import Source, check_one_job, opened
from stepscope.floor.errors import SourceError
from stepscope.floor.units import time_text
from stepscope.report.figures import COLOURS, finish_axes, new_figure, plain_text

MOST_LABELS = 60
MOST_RANKS = 8

Row = dict[str, Any]
Key = tuple[str, int]


def timeline_chart(result: Source, *, title: str | None = None) -> Any:
    """Draws the events of an iteration: one line each, in order, with a bar for each rank.

    A bar starts at the event's median offset from the iteration's start on its device and is as long
    as its median duration: each event was measured in other iterations, and a few slow ones would
    move means past their neighbours. Beyond 8 ranks there is one bar for their average, with a line from the
    shortest to the longest; beyond 60 events the 60 longest are drawn.

    Args:
        result: what `parse_result` returned, an open trace, or a path of either.
        title: above the chart.

    Returns:
        A matplotlib `Figure`; a notebook shows it, and `figure.savefig(path)` keeps it.

    Raises:
        SourceError: there are no measured events in it.
        StepScopeError: matplotlib is not installed.
    """
    with ExitStack() as stack:
        trace = opened(result, stack)
        check_one_job(trace)
        rows = trace.ask("inline").rows()
    events = [
        # A file with averages alone has no medians.
        {**row, "time_ns": row["mean_ns"] if row["median_ns"] is None else row["median_ns"]}
        for row in rows
        if row["kind"] == "event" and row["start_offset_ns"] is not None
    ]
    if not events:
        raise SourceError(
            "no measured events to draw",
            hint="record with stepscope record --inline PLAN -- train.py",
            slug="no-inline-profile",
        )
    whole = [row["mean_ns"] for row in rows if row["kind"] == "iteration"]
    return _draw(events, sum(whole) / len(whole) if whole else None, title)


def _draw(events: list[Row], whole_ns: float | None, title: str | None) -> Any:
    ranks = sorted({row["rank"] for row in events})
    lines = _lines(events)
    left_out = max(0, len(lines) - MOST_LABELS)
    if left_out:
        longest = sorted(lines, key=lambda key: -_mean(lines[key], "time_ns"))[:MOST_LABELS]
        lines = {key: rows for key, rows in lines.items() if key in set(longest)}
    figure = new_figure(11, 1.3 + len(lines) * 0.19)
    axes = figure.subplots()
    if len(ranks) == 1:
        _draw_one_rank(axes, lines)
    elif len(ranks) <= MOST_RANKS:
        _draw_ranks(axes, lines, ranks)
    else:
        _draw_average(axes, lines)
    ends = [row["start_offset_ns"] + row["time_ns"] for rows in lines.values() for row in rows]
    right = max([*ends, whole_ns or 0]) / 1e6
    for place, rows in enumerate(lines.values()):
        end = max(row["start_offset_ns"] + row["time_ns"] for row in rows) / 1e6
        text = time_text(_mean(rows, "time_ns"))
        axes.text(end + right * 0.006, place, text, va="center", fontsize=6.5, color="#444444")
    if whole_ns:
        axes.axvline(whole_ns / 1e6, color="#444444", linewidth=0.8, linestyle="--")
        axes.annotate(
            f"complete iteration {time_text(whole_ns)}",
            (whole_ns / 1e6, -0.9),
            xytext=(-3, 0),
            textcoords="offset points",
            ha="right",
            va="bottom",
            fontsize=7,
            color="#444444",
        )
    axes.set_yticks(range(len(lines)), [_name(key, lines) for key in lines], fontsize=7)
    axes.set_ylim(len(lines) - 0.4, -1.0)
    axes.set_xlim(0, right * 1.08)
    axes.set_xlabel("ms since the iteration started" + _also(left_out), fontsize=8)
    axes.tick_params(axis="x", labelsize=7)
    axes.tick_params(axis="y", length=0)
    finish_axes(axes, "x", hidden=("top", "right", "left"), title=title and plain_text(title, 100))
    return figure


def _draw_one_rank(axes: Any, lines: dict[Key, list[Row]]) -> None:
    """Coloured by the first part of the label: the part of the model."""
    parts = list(dict.fromkeys(label.split(".")[0] for label, _ in lines))
    for place, ((label, _), rows) in enumerate(lines.items()):
        colour = COLOURS[parts.index(label.split(".")[0]) % len(COLOURS)]
        for row in rows:
            _bar(axes, place, 0.62, row["start_offset_ns"], row["time_ns"], colour)


def _draw_ranks(axes: Any, lines: dict[Key, list[Row]], ranks: list[int]) -> None:
    height = 0.74 / len(ranks)
    for place, rows in enumerate(lines.values()):
        for row in rows:
            number = ranks.index(row["rank"])
            middle = place - 0.37 + height * (number + 0.5)
            colour = COLOURS[number % len(COLOURS)]
            _bar(axes, middle, height, row["start_offset_ns"], row["time_ns"], colour)
    for number, rank in enumerate(ranks):
        axes.barh(0, 0, color=COLOURS[number % len(COLOURS)], label=f"rank {rank}")
    axes.legend(loc="upper right", fontsize=7, frameon=True, framealpha=0.9, borderaxespad=1.2)


def _draw_average(axes: Any, lines: dict[Key, list[Row]]) -> None:
    for place, rows in enumerate(lines.values()):
        begin = _mean(rows, "start_offset_ns")
        _bar(axes, place, 0.62, begin, _mean(rows, "time_ns"), COLOURS[0])
        times = [row["time_ns"] for row in rows]
        ends = [(begin + min(times)) / 1e6, (begin + max(times)) / 1e6]
        axes.plot(ends, [place, place], color=COLOURS[6], linewidth=1.2)


def _bar(axes: Any, y: float, height: float, begin_ns: float, dur_ns: float, colour: str) -> None:
    # The edge keeps an event of some µs visible in an iteration of some ms.
    axes.barh(
        y,
        dur_ns / 1e6,
        height,
        left=begin_ns / 1e6,
        color=colour,
        edgecolor=colour,
        linewidth=0.7,
    )


def _lines(events: list[Row]) -> dict[Key, list[Row]]:
    """Rows by label and occurrence, in the order in which they start."""
    lines: dict[Key, list[Row]] = {}
    for row in events:
        lines.setdefault((row["label"], row["occurrence"]), []).append(row)

    def place(key: Key) -> tuple[float, float]:
        indices = [row["start_index"] for row in lines[key] if row["start_index"] is not None]
        return (min(indices) if indices else float("inf"), _mean(lines[key], "start_offset_ns"))

    return {key: lines[key] for key in sorted(lines, key=place)}


def _name(key: Key, lines: Mapping[Key, object]) -> str:
    label, occurrence = key
    several = occurrence or (label, 1) in lines
    return plain_text(label) + (f" #{occurrence}" if several else "")


def _also(left_out: int) -> str:
    return f" ({left_out} shorter events are not drawn)" if left_out else ""


def _mean(rows: Sequence[Row], column: str) -> float:
    return sum(float(row[column]) for row in rows) / len(rows)
