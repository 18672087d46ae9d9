"""Draws the measured events of an iteration where they run in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from stepscope.api.several import Source, check_one_job, opened
from stepscope.base.errors import SourceError
from stepscope.base.units import count_text, plural, ratio_text, time_text
from stepscope.report.figures import COLOURS, finish_axes, new_figure, plain_text

if TYPE_CHECKING:
    from stepscope.api.trace import Trace

MAX_LABELS = 60
MAX_RANKS = 8

Row = dict[str, Any]
Lane = tuple[int, int]
Key = tuple[int, int, str, int]
"""Device, stream, label and occurrence."""

_INK = "#444444"


@dataclass(slots=True)
class _Bar:
    """An event of one or more ranks: its place, length, and the range of its time (ns)."""

    row: Row
    start: float
    width: float
    low: float
    high: float


def timeline_chart(result: Source, *, title: str | None = None) -> Any:
    """Draws the events of an iteration in order: one line per event, a bar per rank, by device and stream.

    A bar is as long as the event's median and starts at its median offset from the start of the enclosing measured
    event, or of the iteration. Each event was measured in other iterations: a bar that would start before its enclosing
    event, reach beyond it, or overlap the one before it on its stream is moved, and shortened if there is no room; the
    figure beside it stays. A thin line goes from the 5th to the 95th percentile, with an arrow where it leaves the
    chart. Beyond 8 ranks one bar shows their median, with a line from the shortest to the longest; beyond 60 events the
    60 longest are drawn.

    Args:
        result: what `parse_result` returned, an open trace, or a path of either.
        title: the chart's title; by default the command that ran, if the recording states it.

    Returns:
        A matplotlib `Figure`; a notebook shows it, and `figure.savefig(path)` keeps it.

    Raises:
        SourceError: it has no measured events.
        StepScopeError: matplotlib is not installed.
    """
    with ExitStack() as stack:
        trace = opened(result, stack)
        check_one_job(trace)
        # A file with only averages has no medians.
        rows = [
            {**row, "time_ns": row["mean_ns"] if row["median_ns"] is None else row["median_ns"]}
            for row in trace.ask("inline").rows()
        ]
        heading = title or _what_was_run(trace, rows)
    events = [row for row in rows if row["kind"] == "event" and row["start_offset_ns"] is not None]
    if not events:
        raise SourceError(
            "no measured events to draw",
            hint="record with stepscope record --inline -- train.py",
            slug="no-inline-profile",
        )
    iterations = {row["rank"]: row["time_ns"] for row in rows if row["kind"] == "iteration"}
    return _draw(events, iterations, heading)


def _what_was_run(trace: Trace, rows: list[Row]) -> str:
    sources = trace.sql(
        "SELECT DISTINCT metadata->>'$.script' AS script, rank.host FROM source JOIN rank USING (rank)"
    ).rows()
    scripts, hosts = (sorted({row[name] for row in sources if row[name]}) for name in ("script", "host"))
    ranks = len({row["rank"] for row in rows})
    measured = [row["n"] for row in rows if row["kind"] == "event" and row["n"]]
    where = f" on {', '.join(hosts[:3])}{' and others' if len(hosts) > 3 else ''}" if hosts else ""
    return ", ".join(
        [
            *(script.removesuffix(" ARGS").rpartition("/")[2] for script in scripts),
            f"{ranks} {plural(ranks, 'rank')}{where}",
            f"medians of {_range(measured)} measurements" if measured else "averages",
        ]
    )


def _range(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return count_text(low) if low == high else f"{count_text(low)} to {count_text(high)}"


def placed(events: Iterable[Row], iteration_ns: float | None) -> list[_Bar]:
    """Places the events of one rank, each within its enclosing event and in the order of their stream.

    Args:
        iteration_ns: the time of an iteration; None if that was not measured.
    """
    lanes: dict[Any, list[Row]] = {}
    for row in events:
        lanes.setdefault((row["span"], *_lane(row)), []).append(row)
    bars: list[_Bar] = []
    for rows in lanes.values():
        if any(row["start_index"] is None or row["end_index"] is None for row in rows):
            bars += [_bar(row, row["start_offset_ns"], row["time_ns"]) for row in rows]
        else:
            rows.sort(key=lambda row: (row["start_index"], -row["end_index"]))
            bars += _nested(rows, 0.0, 0.0, float("inf") if iteration_ns is None else iteration_ns)
    return bars


def _nested(rows: Sequence[Row], offset: float, start: float, room: float) -> list[_Bar]:
    """The bars of the events inside one event.

    Args:
        offset: median offset of the enclosing event (ns).
        room: its drawn length.
    """
    outer: list[list[Row]] = []
    for row in rows:
        if outer and row["end_index"] < outer[-1][0]["end_index"]:
            outer[-1].append(row)
        else:
            outer.append([row])
    widths = [float(group[0]["time_ns"]) for group in outer]
    # Events measured in other iterations may have taken longer than their enclosing event did in its own.
    longest = _longest_chain(outer, widths)
    squeeze = min(1.0, room / longest) if longest else 1.0
    widths = [width * squeeze for width in widths]
    places = [max(float(group[0]["start_offset_ns"]) - offset, 0.0) for group in outer]
    for number, group_rows in enumerate(outer):
        for before in range(number):
            end = places[before] + widths[before] * _follows(group_rows, outer[before])
            places[number] = max(places[number], end)
    for number in range(len(outer) - 1, -1, -1):
        limit = room - widths[number]
        for after in range(number + 1, len(outer)):
            limit = min(limit, places[after] - widths[number] * _follows(outer[after], outer[number]))
        places[number] = max(min(places[number], limit), 0.0)
    bars = []
    for group, place, width in zip(outer, places, widths, strict=True):
        first, *within = group
        bars.append(_bar(first, start + place, width))
        bars += _nested(within, first["start_offset_ns"], start + place, width)
    return bars


def _follows(group: Sequence[Row], before: Sequence[Row]) -> bool:
    """Whether an event starts after another has ended; else they overlap."""
    return bool(before[0]["end_index"] < group[0]["start_index"])


def _longest_chain(outer: Sequence[Sequence[Row]], widths: Sequence[float]) -> float:
    chains: list[float] = []
    for number, group in enumerate(outer):
        ended = [chains[before] for before in range(number) if _follows(group, outer[before])]
        chains.append(widths[number] + max(ended, default=0.0))
    return max(chains, default=0.0)


def _bar(row: Row, start: float, width: float) -> _Bar:
    time = row["time_ns"]
    low, high = (time if row[name] is None else row[name] for name in ("p5_ns", "p95_ns"))
    return _Bar(row, start, width, start + low, start + high)


def _draw(events: list[Row], iterations: Mapping[int, float], title: str) -> Any:
    ranks = sorted({row["rank"] for row in events})
    bars = [
        bar for rank in ranks for bar in placed([row for row in events if row["rank"] == rank], iterations.get(rank))
    ]
    lines = _lines(bars)
    left_out = max(0, len(lines) - MAX_LABELS)
    if left_out:
        longest = sorted(lines, key=lambda key: -_time(lines[key]))[:MAX_LABELS]
        lines = {key: line_bars for key, line_bars in lines.items() if key in set(longest)}
    if len(ranks) > MAX_RANKS:
        lines = {key: [_over_ranks(line_bars)] for key, line_bars in lines.items()}
    places = _places(lines)
    figure = new_figure(11, 1.5 + (max(places.values()) + 1) * 0.19)
    axes = figure.subplots()
    iteration = median(iterations.values()) if iterations else None
    everything = [bar for line_bars in lines.values() for bar in line_bars]
    right = max([*(bar.start + bar.width for bar in everything), iteration or 0]) / 1e6
    colours = _colours(lines, ranks)
    height = 0.74 / min(len(ranks), MAX_RANKS) if 1 < len(ranks) <= MAX_RANKS else 0.62
    for key, line_bars in lines.items():
        for bar in line_bars:
            middle = float(places[key])
            if 1 < len(ranks) <= MAX_RANKS:
                middle += height * (ranks.index(bar.row["rank"]) + 0.5) - 0.37
            _draw_bar(axes, bar, middle, height, colours(key, bar), right)
        ends = (max(bar.start + bar.width, bar.high) for bar in line_bars)
        end = min(max(ends) / 1e6, right * 1.02)
        words = _figures([bar.row for bar in line_bars])
        axes.text(end + right * 0.006, places[key], words, va="center", fontsize=6.5, color=_INK)
    if 1 < len(ranks) <= MAX_RANKS:
        for number, rank in enumerate(ranks):
            axes.barh(0, 0, color=COLOURS[number % len(COLOURS)], label=f"rank {rank}")
        axes.legend(loc="upper right", fontsize=7, frameon=True, framealpha=0.9, borderaxespad=1.2)
    if iteration:
        axes.axvline(iteration / 1e6, color=_INK, linewidth=0.8, linestyle="--")
        axes.annotate(
            f"complete iteration {time_text(iteration)}",
            (iteration / 1e6, -0.6),
            xytext=(-3, 0),
            textcoords="offset points",
            ha="right",
            va="bottom",
            fontsize=7,
            color=_INK,
        )
    _name_lanes(axes, lines, places)
    axes.set_yticks(list(places.values()), [_name(key, lines) for key in lines], fontsize=7)
    axes.set_ylim(max(places.values()) + 0.6, -1.0)
    axes.set_xlim(0, right * 1.2)
    also = f" ({left_out} shorter events are not drawn)" if left_out else ""
    axes.set_xlabel(f"ms since the iteration started{also}", fontsize=8)
    axes.tick_params(axis="x", labelsize=7)
    axes.tick_params(axis="y", length=0)
    finish_axes(axes, "x", hidden=("top", "right", "left"), title=plain_text(title, 100))
    return figure


def _draw_bar(axes: Any, bar: _Bar, y: float, height: float, colour: str, right: float) -> None:
    # The edge keeps an event of some µs visible in an iteration of some ms. Scattered times are pale.
    axes.barh(
        y,
        bar.width / 1e6,
        height,
        left=bar.start / 1e6,
        color=colour,
        alpha=0.55 if bar.row["stable"] is False else 1.0,
        edgecolor=colour,
        linewidth=0.7,
    )
    if bar.high > bar.low:
        # A rare long event would make all others too small to see: its line ends in an arrow.
        cut = bar.high / 1e6 > right * 1.02
        ends = [min(end / 1e6, right * 1.02) for end in (bar.low, bar.high)]
        marker = ">" if cut else "|"
        axes.plot(ends, [y, y], color=_INK, linewidth=0.8, marker=marker, markersize=3, markevery=[1])


def _colours(lines: Mapping[Key, object], ranks: Sequence[int]) -> Any:
    """A bar's colour: by rank if there are several, else by the label's first part, the part of the model."""
    if 1 < len(ranks) <= MAX_RANKS:
        return lambda _, bar: COLOURS[ranks.index(bar.row["rank"]) % len(COLOURS)]
    parts = list(dict.fromkeys(key[2].split(".")[0] for key in lines))
    return lambda key, _: COLOURS[parts.index(key[2].split(".")[0]) % len(COLOURS)]


def _lane(row: Row) -> Lane:
    return row["device"] or 0, row["stream"] or 0


def _lines(bars: list[_Bar]) -> dict[Key, list[_Bar]]:
    """Bars by lane, label and occurrence, by start."""
    lines: dict[Key, list[_Bar]] = {}
    for bar in bars:
        label = bar.row["label"].removesuffix(f"#{bar.row['occurrence']}")
        lines.setdefault((*_lane(bar.row), label, bar.row["occurrence"]), []).append(bar)

    def place(key: Key) -> tuple[Lane, float, float]:
        rows = [bar.row for bar in lines[key]]
        indices = [row["start_index"] for row in rows if row["start_index"] is not None]
        first = min(indices) if indices else float("inf")
        return key[:2], first, median(bar.start for bar in lines[key])

    return {key: lines[key] for key in sorted(lines, key=place)}


def _places(lines: Mapping[Key, object]) -> dict[Key, int]:
    """The line of each event; with several lanes, each has one more for its name."""
    places: dict[Key, int] = {}
    several = len({key[:2] for key in lines}) > 1
    line = -1
    for key in lines:
        line += 1 + (several and key[:2] not in {placed_key[:2] for placed_key in places})
        places[key] = line
    return places


def _name_lanes(axes: Any, lines: Mapping[Key, object], places: Mapping[Key, int]) -> None:
    lanes = list(dict.fromkeys(key[:2] for key in lines))
    if len(lanes) < 2:
        return
    for lane in lanes:
        above = min(place for key, place in places.items() if key[:2] == lane) - 1
        device, stream = lane
        name = "host" if stream == -1 else f"device {device}, stream {stream}"
        axes.axhline(above, color="#dddddd", linewidth=0.6)
        axes.text(0, above, f" {name}", va="center", fontsize=7, color=_INK, weight="bold")


def _over_ranks(bars: Sequence[_Bar]) -> _Bar:
    """One bar for many ranks, with the shortest and longest of them."""
    times = [bar.row["time_ns"] for bar in bars]
    start = median(bar.start for bar in bars)
    of_all = {**bars[0].row, "time_ns": median(times), "stable": None}
    return _Bar(of_all, start, median(bar.width for bar in bars), start + min(times), start + max(times))


def _time(bars: Sequence[_Bar]) -> float:
    return float(median(bar.row["time_ns"] for bar in bars))


def _figures(rows: Sequence[Row]) -> str:
    """The text beside an event: its time, the number of measurements, and their scatter if there is any."""
    text = time_text(median(row["time_ns"] for row in rows))
    counts = [row["n"] for row in rows if row["n"]]
    if counts:
        text += f"  n {_range(counts)}"
    unstable = [row["relative_std_ratio"] for row in rows if row["stable"] is False]
    return text + (f"  ± {ratio_text(max(unstable))}" if unstable else "")


def _name(key: Key, lines: Mapping[Key, object]) -> str:
    _, _, label, occurrence = key
    several = occurrence or any(other[2:] == (label, 1) for other in lines)
    return plain_text(label) + (f" #{occurrence}" if several else "")
