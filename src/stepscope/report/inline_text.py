"""Inline measurements in a terminal: what they show in a few lines, and then the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepscope.answers.text_grid import Line, wrapped
from stepscope.floor.quoting import one_line
from stepscope.floor.units import count_text, ratio_text, time_text

if TYPE_CHECKING:
    from stepscope.answers.table import Table

Row = dict[str, Any]

_MOST = 3
_SURE_WITHIN = 0.05


def inline_lines(table: Table, *, width: int, most: int | None, bars: bool) -> list[Line]:
    """The answer of `inline` as lines.

    Args:
        table: the answer.
        width: columns of text to fit into.
        most: rows to show at most; None for all.
        bars: draw shares as bars where there is room.
    """
    lines = table.lines(width=width, most=most, bars=bars)
    if table.jobs or table.asked.get("by") != "rank":
        return lines
    told = [
        Line(text) for words in conclusion(table.rows()) for text in wrapped(words, width, "  ")
    ]
    titles = sum(line.style == "title" for line in lines)
    return [*lines[:titles], *told, *([Line("")] if told else []), *lines[titles:]]


def conclusion(rows: list[Row]) -> list[str]:
    """Five sentences at most: of the slowest rank what an iteration takes, what of it where, how sure that is,
    and what measuring cost.

    Args:
        rows: those of `inline`, by rank.
    """
    iterations = [row for row in rows if row["kind"] == "iteration"]
    if not iterations:
        return []
    whole = max(iterations, key=_usual)
    own = [
        row
        for row in rows
        if row["kind"] == "event" and (row["rank"], row["span"]) == (whole["rank"], whole["span"])
    ]
    told = [_whole(whole, len({row["rank"] for row in iterations}))]
    if own and _usual(whole):
        told += [*_parts(own, _usual(whole)), _how_sure(own)]
    if whole["overhead_ratio"] is not None:
        told.append(_cost(whole))
    return told


def _cost(whole: Row) -> str:
    low, high = whole["overhead_low_ratio"], whole["overhead_high_ratio"]
    ends = f"({ratio_text(low)} to {ratio_text(high)} of it)"
    if low <= 0:
        return f"Measuring an event added nothing to an iteration that can be told from its scatter {ends}."
    return f"Measuring an event added {ratio_text(whole['overhead_ratio'])} to an iteration {ends}."


def _whole(whole: Row, ranks: int) -> str:
    of = f"On rank {whole['rank']}, the slowest of {ranks}, an" if ranks > 1 else "An"
    if whole["median_ns"] is None:
        return f"{of} iteration takes {time_text(whole['mean_ns'])} on average."
    interval = ""
    if whole["ci95_low_ns"] is not None:
        low, high = (time_text(max(whole[f"ci95_{end}_ns"], 0.0)) for end in ("low", "high"))
        interval = f", {low} to {high}"
    mean = f"(median of {count_text(whole['n'])}; mean {time_text(whole['mean_ns'])}{interval})"
    return f"{of} iteration takes {time_text(whole['median_ns'])} {mean}."


def _parts(own: list[Row], iteration_ns: float) -> list[str]:
    """What is within no other event, and what is inside of these and has none within."""
    around = {row["inside"] for row in own}
    plain = [{**row, "plain": row["label"].removesuffix(f"#{row['occurrence']}")} for row in own]
    outer = [row for row in plain if row["inside"] is None]
    inner = [row for row in plain if row["inside"] is not None and row["plain"] not in around]
    told = []
    if outer:
        rest = 1 - sum(map(_usual, outer)) / iteration_ns
        # On several streams events run beside one another.
        alone = len({(row["device"], row["stream"]) for row in outer}) == 1
        left = f"; in none that was measured {ratio_text(rest)}" if alone and rest > 0 else ""
        told.append(f"Most of it is in {_listed(outer, iteration_ns)}{left}.")
    if inner:
        told.append(f"Of what was measured within them, {_listed(inner, iteration_ns)} take most.")
    return told


def _usual(row: Row) -> float:
    """The median; where the file has averages alone, that."""
    return float(row["mean_ns"] if row["median_ns"] is None else row["median_ns"])


def _listed(rows: list[Row], iteration_ns: float) -> str:
    largest = sorted(rows, key=lambda row: -_usual(row))[:_MOST]
    return ", ".join(
        f"{one_line(row['label'])} ({time_text(_usual(row))}, {ratio_text(_usual(row) / iteration_ns)})"
        for row in largest
    )


def _how_sure(own: list[Row]) -> str:
    halves = {
        place: (row["ci95_high_ns"] - row["ci95_low_ns"]) / 2 / row["mean_ns"]
        for place, row in enumerate(own)
        if row["ci95_low_ns"] is not None and row["mean_ns"]
    }
    events = f"{len(own)} event{'' if len(own) == 1 else 's'}"
    if not halves:
        return f"Of {events} no mean has an interval: each was measured once, or the file has averages alone."
    sure = sum(half <= _SURE_WITHIN for half in halves.values())
    place, half = max(halves.items(), key=lambda one: one[1])
    known = f"Of {events} {sure} {'is' if sure == 1 else 'are'}" if sure else f"None of {events} is"
    return (
        f"{known} known within ± {ratio_text(_SURE_WITHIN)} of the mean; least sure "
        f"is {one_line(own[place]['label'])}, ± {ratio_text(half)} by {count_text(own[place]['n'])} measurements."
    )
