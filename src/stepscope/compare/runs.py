"""Runs on different numbers of ranks: what was measured in each, and the efficiency of every label.

A run has the rows of `inline`, or of `phases` where nothing was measured inline.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

WHOLE = "iteration"
MODES = ("weak", "strong")
BELOW = 0.8

Key = tuple[str, int]
Row = dict[str, Any]


@dataclass(slots=True)
class _Label:
    """A label in one run: its time on each rank, and both ends of its mean's interval there."""

    place: float
    inside: str | None
    means: dict[int, float] = field(default_factory=dict)
    lows: list[float] = field(default_factory=list)
    highs: list[float] = field(default_factory=list)

    def add(self, row: Row) -> None:
        mean, rank = float(row["mean_ns"]), int(row["rank"])
        self.means[rank] = max(mean, self.means.get(rank, mean))
        low, high = row.get("ci95_low_ns"), row.get("ci95_high_ns")
        self.lows.append(mean if low is None else max(low, 0.0))
        self.highs.append(mean if high is None else high)

    @property
    def average(self) -> float:
        return sum(self.means.values()) / len(self.means)


@dataclass(slots=True)
class Run:
    """A run: what to call it, how many ranks it had, and what was measured in it."""

    name: str
    ranks: int
    labels: dict[Key, _Label]


def run_of(name: str, ranks: int, rows: Iterable[Row]) -> Run:
    """A run of the rows of `inline`."""
    labels: dict[Key, _Label] = {}
    for row in rows:
        key = WHOLE if row["kind"] == "iteration" else row["label"], row["occurrence"]
        place = row["start_index"]
        place = -1.0 if row["kind"] == "iteration" else float("inf") if place is None else place
        labels.setdefault(key, _Label(place, row["inside"])).add(row)
    return Run(name, ranks, labels)


def as_event(place: int, row: Row) -> Row:
    """A row of `phases` like one of `inline`; `place` is its place among them."""
    return {
        "kind": "iteration" if row["phase"] == "step" else "event",
        "label": row["phase"],
        "occurrence": 0,
        "rank": row["rank"],
        "mean_ns": row["mean_ns"],
        "start_index": place,
        "inside": None,
    }


def compare(runs: Iterable[Run], *, mode: str, below: float) -> list[Row]:
    """One row is a label in a run; the whole iteration comes first, then labels as they run.

    Args:
        runs: the runs; the one with the fewest ranks is what the others are compared with.
        mode: `weak` when every rank has the same work in all runs, `strong` when all work is shared.
        below: a label stops scaling where its efficiency is below this.
    """
    ordered = sorted(runs, key=lambda run: run.ranks)
    base = ordered[0]
    rows = []
    for key in _keys(ordered):
        there = base.labels.get(key)
        of_label = []
        stops_at = None
        for run in ordered:
            here = run.labels.get(key)
            if here is None:
                continue
            row: Row = {
                "label": _text(key, ordered),
                "run": run.name,
                "ranks": run.ranks,
                "average_ns": here.average,
                "max_ns": max(here.means.values()),
                "slowest_rank": max(here.means, key=lambda rank: here.means[rank]),
                "inside": here.inside,
            }
            if there is not None:
                weak = _ratio(there.average, here.average)
                shared = base.ranks / run.ranks
                row["weak_efficiency_ratio"] = weak
                row["strong_efficiency_ratio"] = None if weak is None else weak * shared
                # Even at the favourable ends of both intervals: noise alone stops no label.
                best = _ratio(_mean(there.highs), _mean(here.lows))
                if best is not None and stops_at is None and run.ranks > base.ranks:
                    best *= shared if mode == "strong" else 1.0
                    stops_at = run.ranks if best < below else None
            of_label.append(row)
        rows += [{**row, "stops_at_ranks": stops_at} for row in of_label]
    return rows


def _keys(runs: Sequence[Run]) -> list[Key]:
    """All labels, in the order of the first run that has them."""
    places: dict[Key, tuple[float, str, int]] = {}
    for run in runs:
        for key, label in run.labels.items():
            places.setdefault(key, (label.place, *key))
    return sorted(places, key=lambda key: places[key])


def _text(key: Key, runs: Sequence[Run]) -> str:
    label, occurrence = key
    several = any((label, 1) in run.labels for run in runs)
    return f"{label}#{occurrence}" if several or occurrence else label


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _ratio(before: float, now: float) -> float | None:
    return before / now if now > 0 else None
