"""Draws runs on different numbers of processes side by side: the entire iteration and its parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stepscope.api.comparisons import scaling
from stepscope.api.several import Source
from stepscope.base.units import plural, time_text
from stepscope.compare.runs import ITERATION
from stepscope.query.table import Table
from stepscope.report.figures import COLOURS, GREY, finish_axes, new_figure, plain_text

MAX_LABELS = 12
_BAR = 0.26
_OTHERS = "all others"

Row = dict[str, Any]


def scaling_chart(
    results: Sequence[Source] | Table, names: Sequence[str] | None = None, *, title: str | None = None
) -> Any:
    """Draws, for each run, the entire iteration beside its measured events, stacked: once the averages over ranks, and
    once the maxima, for which the other ranks wait.

    With several sizes it also draws the efficiency of the iteration with its interval, and where the model of `scaling`
    expects twice the ranks.

    Events inside another measured event are not stacked, because that one includes their time. The 12 largest labels
    have their own colours, the others share one.

    Args:
        results: for each run a result of `parse_result`, a path or an open trace; or a table of `scaling`.

    Returns:
        A matplotlib `Figure`; a notebook shows it, and `figure.savefig(path)` keeps it.

    Raises:
        SourceError: a run has no measurements.
        StepScopeError: matplotlib is not installed.
    """
    table = results if isinstance(results, Table) else scaling(results, names=names)
    rows = table.rows()
    runs = list(dict.fromkeys((row["ranks"], row["run"]) for row in rows))
    runs.sort(key=lambda run: run[0])
    outermost = [row for row in rows if row["label"] != ITERATION and row["inside"] is None]
    largest: dict[str, float] = {}
    for row in outermost:
        largest[row["label"]] = max(largest.get(row["label"], 0.0), row["average_ns"])
    labels = sorted(largest, key=lambda label: -largest[label])[:MAX_LABELS]
    labels = [label for label in largest if label in labels]  # in the order of execution

    iteration_of = {(row["ranks"], row["run"]): row for row in rows if row["label"] == ITERATION}
    sizes = {ranks for ranks, _ in iteration_of}
    width = max(7.5, 4.6 + 1.5 * len(runs))
    figure = new_figure(width + 3.2 * (len(sizes) > 1), 5.2)
    if len(sizes) > 1:
        axes, efficiency_axes = figure.subplots(1, 2, width_ratios=(width, 3.2))
        _efficiency(efficiency_axes, [iteration_of[key] for key in sorted(iteration_of)])
    else:
        axes = figure.subplots()
    ticks: list[tuple[float, str]] = []
    for place, run in enumerate(runs):
        of_run = [row for row in outermost if (row["ranks"], row["run"]) == run]
        iterations = [row for row in rows if row["label"] == ITERATION and row["run"] == run[1]]
        for row in iterations:
            height = row["average_ns"] / 1e6
            axes.bar(place - _BAR, height, _BAR * 0.92, color="#555555")
            text = time_text(row["average_ns"])
            axes.text(place - _BAR, height, text, ha="center", va="bottom", fontsize=6.5)
        _stack(axes, place, of_run, "average_ns", labels)
        _stack(axes, place + _BAR, of_run, "max_ns", labels)
        for offset, words in ((-_BAR, "complete"), (0.0, "average"), (_BAR, "maximum")):
            ticks.append((place + offset, words))
        processes = f"{run[0]} {plural(run[0], 'process')}"
        axes.annotate(
            f"{plain_text(run[1], 24)}\n{processes}",
            (place, 0),
            xycoords=("data", "axes fraction"),
            xytext=(0, -20),
            textcoords="offset points",
            ha="center",
            va="top",
            fontsize=8,
            annotation_clip=False,
        )
    _legend(axes, labels, others=len(largest) > len(labels))
    axes.set_xticks([at for at, _ in ticks], [words for _, words in ticks], fontsize=6.5)
    # Room for the names of the runs below the ticks.
    axes.set_xlabel(" \n ", fontsize=9)
    axes.set_xlim(-0.6, len(runs) - 0.4)
    # Leaves a margin above the bars; an automatic limit would stick to a bar that ends in a part without height.
    axes.set_ylim(0, 1.06 * axes.dataLim.y1)
    axes.set_ylabel("ms per iteration", fontsize=8)
    axes.tick_params(axis="y", labelsize=7)
    axes.tick_params(axis="x", length=0)
    finish_axes(axes, "y", hidden=("top", "right"), title=title and plain_text(title, 90))
    return figure


def _efficiency(axes: Any, rows: Sequence[Row]) -> None:
    """Draws the iteration's efficiency by ranks, with its interval and the model's next doubling."""
    mode = rows[0]["mode"]
    axes.axhline(1, color=GREY, linewidth=0.8, linestyle="--")
    measured = [row for row in rows if row["efficiency_ratio"] is not None]
    for row in measured:
        low, high = row["efficiency_low_ratio"], row["efficiency_high_ratio"]
        if low is not None and high is not None:
            axes.plot([row["ranks"]] * 2, [low, high], color="#555555", linewidth=1.2)
    axes.plot(
        [row["ranks"] for row in measured],
        [row["efficiency_ratio"] for row in measured],
        color="#555555", marker="o", markersize=4, linewidth=1, label="measured",
    )  # fmt: skip
    ticks = [row["ranks"] for row in measured]
    first, last = rows[0], rows[-1]
    if last["next_ns"]:
        ideal = first["average_ns"] * (first["ranks"] / last["next_ranks"] if mode == "strong" else 1)
        ends = [ideal / ns for ns in (last["next_low_ns"], last["next_high_ns"]) if ns]
        axes.plot([last["next_ranks"]] * len(ends), ends, color=COLOURS[6], linewidth=1.2)
        axes.plot(
            [last["next_ranks"]], [ideal / last["next_ns"]], color=COLOURS[6], marker="o",
            markersize=4, linestyle="none", markerfacecolor="white", label=last["model"],
        )  # fmt: skip
        ticks.append(last["next_ranks"])
    axes.set_xscale("log", base=2)
    axes.set_xticks(sorted(set(ticks)), [str(ranks) for ranks in sorted(set(ticks))])
    axes.minorticks_off()
    axes.set_ylim(0, max(1.1, *(1.05 * row["efficiency_ratio"] for row in measured)))
    axes.set_xlabel("ranks", fontsize=8)
    axes.set_ylabel(f"{mode}-scaling efficiency of the iteration", fontsize=8)
    axes.tick_params(labelsize=7)
    axes.legend(loc="lower left", fontsize=6.5, frameon=False)
    finish_axes(axes, "y", hidden=("top", "right"), title=None)


def _stack(axes: Any, x: float, rows: Sequence[Row], column: str, labels: Sequence[str]) -> None:
    bottom = 0.0
    others = sum(row[column] for row in rows if row["label"] not in labels)
    parts = [(label, row) for label in labels for row in rows if row["label"] == label]
    heights = [(COLOURS[labels.index(label)], row[column]) for label, row in parts]
    for colour, value_ns in [*heights, (GREY, others)]:
        axes.bar(x, value_ns / 1e6, _BAR * 0.92, bottom=bottom, color=colour)
        bottom += value_ns / 1e6


def _legend(axes: Any, labels: Sequence[str], *, others: bool) -> None:
    axes.bar(0, 0, color="#555555", label="complete iteration")
    if others:
        axes.bar(0, 0, color=GREY, label=_OTHERS)
    # In the order of the stack: the first to run is at the bottom.
    for number in range(len(labels) - 1, -1, -1):
        axes.bar(0, 0, color=COLOURS[number], label=plain_text(labels[number], 44))
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), fontsize=6.5, frameon=False)
