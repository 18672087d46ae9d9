"""Inline measurements in a terminal: a few sentences, then the table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from stepscope.base.quoting import one_line
from stepscope.base.statistics import is_informative
from stepscope.base.units import count_text, plural, ratio_text, time_text
from stepscope.query.text_grid import Line, wrapped
from stepscope.report.renderers import Layout, Renderer

if TYPE_CHECKING:
    from stepscope.query.table import Table

Row = dict[str, Any]

_MAX_NAMED = 3
_SURE_WITHIN = 0.05
_KNOWN_WITHIN = 0.5
"""With an interval wider than this part of the mean, on either side, neither share nor order is stated."""


def inline_lines(table: Table, layout: Layout) -> list[Line]:
    """Formats the answer of `inline` as lines: conclusions between the title and the grid."""
    lines = table.lines(width=layout.width, limit=layout.max_rows, bars=layout.bars)
    if table.jobs:
        return lines
    sentences = [Line(text) for words in _conclusions(table) for text in wrapped(words, layout.width, "  ")]
    titles = sum(line.style == "title" for line in lines)
    return [*lines[:titles], *sentences, *([Line("")] if sentences else []), *lines[titles:]]


def _conclusions(table: Table) -> list[str]:
    return conclusion(table.rows()) if table.arguments.get("by") == "rank" else []


def conclusion(rows: list[Row]) -> list[str]:
    """Concludes in at most seven sentences: how long an iteration takes on the slowest rank, where that time goes, how
    certain that is, what measuring cost, and which part of the run it covers.
    """
    iterations = [row for row in rows if row["kind"] == "iteration"]
    if not iterations:
        return []
    iteration = max(iterations, key=_usual)
    events = [
        row
        for row in rows
        if row["kind"] == "event" and (row["rank"], row["span"]) == (iteration["rank"], iteration["span"])
    ]
    sentences = [_iteration_sentence(iteration, len({row["rank"] for row in iterations}))]
    if events and _usual(iteration):
        sentences += [*(_apart(iteration, events) or _parts(events, iteration)), _how_sure(events)]
    if iteration["overhead_ratio"] is not None:
        sentences.append(_cost(iteration))
    if events and (part := _part(iteration)):
        sentences.append(part)
    return sentences


def _part(iteration: Row) -> str:
    """The part of the run that was measured; empty if it is all of it."""
    until, run = iteration["complete_after"], iteration["iterations"]
    if until is None or (run is not None and run <= until):
        return ""
    of = "" if run is None else f" of {count_text(run)}"
    return (
        f"The plan was complete after {count_text(until)}{of} iterations: means and intervals of events cover only that part "
        "of the run."
    )


def _cost(iteration: Row) -> str:
    low, high = iteration["overhead_low_ratio"], iteration["overhead_high_ratio"]
    ends = f"({ratio_text(low)} to {ratio_text(high)} of it)"
    if low <= 0 and high > _SURE_WITHIN:
        wide = "" if low < -1 else f" {ends}"  # a time of an iteration cannot be negative
        return f"The overhead of measuring an event is not known yet{wide}."
    if low <= 0:
        return f"The overhead of measuring an event is within the scatter of iterations {ends}."
    sentence = f"Measuring an event added {ratio_text(iteration['overhead_ratio'])} to an iteration {ends}"
    interval = iteration["armed_every"] or 1
    if interval == 1:
        return f"{sentence}."
    return f"{sentence}, so the costliest event was measured in only one of {interval} at the end."


def _iteration_sentence(iteration: Row, ranks: int) -> str:
    of = f"On rank {iteration['rank']}, the slowest of {ranks}, an" if ranks > 1 else "An"
    if iteration["median_ns"] is None:
        return f"{of} iteration takes {time_text(iteration['mean_ns'])} on average."
    interval = ""
    if iteration["ci95_low_ns"] is not None:
        interval = f", {time_text(iteration['ci95_low_ns'])} to {time_text(iteration['ci95_high_ns'])}"
        if not _is_bounded(iteration):
            interval = f": {_too_few(iteration, 'iteration')}"
    mean = f"(median of {count_text(iteration['n'])}; mean {time_text(iteration['mean_ns'])}{interval})"
    return f"{of} iteration takes {time_text(iteration['median_ns'])} {mean}."


def _apart(iteration: Row, events: list[Row]) -> list[str]:
    """Why parts cannot be compared with the iteration; empty if they can."""
    sentences = []
    if (iteration["models"] or 1) > 1:
        sentences.append(
            f"{count_text(iteration['models'])} models were measured one after the other: a mean covers those that were "
            "trained at its turn, and parts of an iteration cannot be compared."
        )
    longer = [row for row in events if row["exceeds"]]
    if longer:
        row = max(longer, key=lambda row: float(row["mean_ns"]))
        sentences.append(
            f"{one_line(row['label'])} took longer than {one_line(row['exceeds'])} around it: they were measured "
            "in iterations that did different work, and parts of an iteration cannot be compared."
        )
    larger = [row for row in events if _may_exceed(row, iteration)]
    if larger and not sentences:
        row = _largest(larger)[0]
        sentences.append(
            f"{one_line(row['label'])} takes {time_text(row['mean_ns'])} in the iterations that measured it, which differ "
            "too much from the others to compare parts with an iteration."
        )
    return sentences


def _may_exceed(row: Row, iteration: Row) -> bool:
    """Whether a part is, or may be within its uncertainty, longer than its parent."""
    mean, around, half = float(row["mean_ns"]), float(iteration["mean_ns"]), _half_ratio(row)
    if half is None or not _SURE_WITHIN < half <= _KNOWN_WITHIN:
        return mean > around
    return mean * (1 + half) > around


def _parts(events: list[Row], iteration: Row) -> list[str]:
    """The outermost events, and the innermost events inside them."""
    around = {row["inside"] for row in events}
    plain = [{**row, "plain": row["label"].removesuffix(f"#{row['occurrence']}")} for row in events]
    outer = [row for row in plain if row["inside"] is None]
    inner = [row for row in plain if row["inside"] is not None and row["plain"] not in around]
    sentences = []
    if listed := _listed(outer, iteration):
        sentences.append(f"Most of it is in {listed}{_unmeasured(outer, iteration)}.")
    elif doubted := _doubted(outer):
        sentences.append(f"Its largest part is not known yet: {doubted}.")
    if listed := _listed(inner, iteration):
        takes = "takes" if listed.count("±") == 1 else "take"
        sentences.append(f"Within other events, {listed} {takes} most.")
    return sentences


def _half_ratio(row: Row) -> float | None:
    """Half the 95 % interval of the mean, divided by the mean; None without an interval."""
    if row["ci95_low_ns"] is None or not row["mean_ns"]:
        return None
    return float(row["ci95_high_ns"] / row["mean_ns"] - 1)


def _is_bounded(row: Row) -> bool:
    return is_informative(_half_ratio(row) or 0.0, 1.0)


def _too_few(row: Row, what: str = "measurement") -> str:
    return f"{count_text(row['n'])} {plural(row['n'], what)} are too few for an interval"


def _scattered(row: Row) -> str:
    """Describes an event without a meaningful interval: two of its quantiles, as in the table."""
    return f"{_too_few(row)} ({time_text(row['median_ns'])} in the median, {time_text(row['p95_ns'])} at the 95th percentile)"


def _is_known(row: Row) -> bool:
    half = _half_ratio(row)
    return half is not None and half <= _KNOWN_WITHIN


def _unmeasured(outer: list[Row], iteration: Row) -> str:
    """The time outside all events, if its interval is above zero; errors of independent means add as squares."""
    halves = [_half_ratio(row) for row in (iteration, *outer)]
    shares = [row["share_ratio"] for row in outer]
    # Events on several streams run at the same time.
    if None in halves or len({(row["device"], row["stream"]) for row in outer}) > 1:
        return ""
    other_ratio = 1 - sum(shares)
    half = math.hypot(*(share * (of or 0.0) for share, of in zip((1 - other_ratio, *shares), halves, strict=True)))
    if other_ratio <= half:
        return ""
    return f"; outside measured events {ratio_text(other_ratio)} ± {ratio_text(half)}"


def _usual(row: Row) -> float:
    """The median, or the mean if the file has only averages."""
    return float(row["mean_ns"] if row["median_ns"] is None else row["median_ns"])


def _largest(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: -float(row["mean_ns"]))


def _listed(rows: list[Row], iteration: Row) -> str:
    """The largest by mean, each with its share and the share's interval; empty if uncertain which these are."""
    bounded = [row for row in _largest(rows) if _is_known(row)]
    iteration_half = _half_ratio(iteration)
    if not bounded or iteration_half is None or iteration_half > _KNOWN_WITHIN:
        return ""
    highest = max((_high(row) for row in rows if not _is_known(row)), default=0.0)
    if highest > bounded[0]["mean_ns"]:
        return ""
    return ", ".join(
        f"{one_line(row['label'])} ({time_text(row['mean_ns'])}, {ratio_text(row['share_ratio'])} "
        f"± {ratio_text(row['share_ratio'] * math.hypot(_half_ratio(row) or 0.0, iteration_half))})"
        for row in bounded[:_MAX_NAMED]
        if row["mean_ns"] >= highest
    )


def _high(row: Row) -> float:
    return float(row["mean_ns"] if row["ci95_high_ns"] is None else row["ci95_high_ns"])


def _doubted(rows: list[Row]) -> str:
    """Names the events, measured more than once, of which too little is known."""
    unsure = [row for row in _largest(rows) if _half_ratio(row) and not _is_known(row)]
    if not unsure:
        return ""
    row = max(unsure, key=_high)
    name = one_line(row["label"])
    if not _is_bounded(row):
        return f"of {name} {_scattered(row)}"
    return f"{name} takes {time_text(row['mean_ns'])} ± {ratio_text(_half_ratio(row))} by {count_text(row['n'])} measurements"


def _how_sure(events: list[Row]) -> str:
    halves = {place: half for place, row in enumerate(events) if (half := _half_ratio(row)) is not None}
    number = f"{len(events)} {plural(len(events), 'event')}"
    if not halves:
        return f"Of {number} no mean has an interval: each was measured once, or the file has averages alone."
    sure = sum(half <= _SURE_WITHIN for half in halves.values())
    place, half = max(halves.items(), key=lambda item: item[1])
    within = f"Of {number} {sure} {'is' if sure == 1 else 'are'}" if sure else f"None of {number} is"
    row = events[place]
    around = f"± {ratio_text(half)} by {count_text(row['n'])} measurements"
    if not _is_bounded(row):
        around = f"of which {_scattered(row)}"
    return f"{within} known within ± {ratio_text(_SURE_WITHIN)} of the mean; least certain is {one_line(row['label'])}, {around}."


RENDERER = Renderer(lines=inline_lines, conclusions=_conclusions)
