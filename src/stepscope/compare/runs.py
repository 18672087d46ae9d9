"""Runs on different numbers of ranks: their measurements (`inline`, else `phases`, else `run_parts`), and how each
scales."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

from stepscope.base.statistics import student_t
from stepscope.compare.interval import RankMean, Timing, interval_of_change, over_ranks

ITERATION = "iteration"
MODES = ("weak", "strong")
BELOW = 0.8
_SMALL = 0.01
"""Labels below this share of the iteration are left to the table."""
FEWEST_SIZES = 3
"""The fewest numbers of ranks with which a model of two parameters has an error."""
_MODELS: dict[str, dict[str, Callable[[int], float]]] = {
    "weak": {"t = a + b log2(ranks)": math.log2, "t = a + b (1 - 1/ranks)": lambda ranks: 1 - 1 / ranks},
    "strong": {"t = a + b / ranks": lambda ranks: 1 / ranks},
}
"""Models that extrapolate a label's time to twice the ranks, by mode: trees or rings; Amdahl's law, which includes the
ring."""

Key = tuple[str, int]
Row = dict[str, Any]


@dataclass
class _Label:
    """A label in one run: its mean on each rank; of several streams the longest, as in `diff`."""

    place: float
    inside: str | None
    ranks: dict[int, RankMean] = field(default_factory=dict)

    def add(self, row: Row) -> None:
        n, std = row["n"] or 0, row["std_ns"]
        mean = RankMean(Fraction(row["mean_ns"]), n, std, row.get("effective_n"))
        previous = self.ranks.get(row["rank"])
        if previous is None or mean.mean_ns > previous.mean_ns:
            self.ranks[row["rank"]] = mean

    @cached_property
    def timing(self) -> Timing:
        return over_ranks(list(self.ranks.values()))

    @property
    def average(self) -> float:
        return float(self.timing.mean_ns)


@dataclass(slots=True)
class Run:
    """A run: its name, its number of ranks, and its measurements."""

    name: str
    ranks: int
    labels: dict[Key, _Label]


def run_of(name: str, ranks: int, rows: Iterable[Row]) -> Run:
    """Makes a run from the rows of `inline`."""
    labels: dict[Key, _Label] = {}
    for row in rows:
        # Another run may have more occurrences, and number this one.
        label = row["label"].removesuffix(f"#{row['occurrence']}")
        key = ITERATION if row["kind"] == "iteration" else label, row["occurrence"]
        place = row["start_index"]
        place = -1.0 if row["kind"] == "iteration" else float("inf") if place is None else place
        labels.setdefault(key, _Label(place, row["inside"])).add(row)
    return Run(name, ranks, labels)


def as_event(place: int, rank: int, part: str, mean: RankMean) -> Row:
    """The mean of a part of a rank's step, or of `step`, like a row of `inline`; `place` is its index among them."""
    kind = "iteration" if part == "step" else "event"
    measured = {"mean_ns": mean.mean_ns, "n": mean.samples, "std_ns": mean.std_ns}
    return {
        "kind": kind,
        "label": part,
        "occurrence": 0,
        "rank": rank,
        **measured,
        "start_index": place,
        "inside": None,
    }


def compare(runs: Iterable[Run], *, mode: str, below: float) -> list[Row]:
    """Each row is a label in a run, compared with the one of fewest ranks; the entire iteration comes first."""
    ordered = sorted(runs, key=lambda run: run.ranks)
    base = ordered[0]
    rows = []
    for key in _keys(ordered):
        reference = base.labels.get(key)
        of_label = []
        stops_at = None
        for run in ordered:
            here = run.labels.get(key)
            if here is None:
                continue
            shared = base.ranks / run.ranks
            row: Row = {
                "label": _text(key, ordered),
                "run": run.name,
                "ranks": run.ranks,
                "average_ns": here.average,
                "max_ns": float(max(mean.mean_ns for mean in here.ranks.values())),
                "slowest_rank": max(here.ranks, key=lambda rank: here.ranks[rank].mean_ns),
                "inside": here.inside,
            }
            if reference is not None and ordered[-1].ranks > base.ranks:
                weak = _ratio(reference.average, here.average)
                strong = None if weak is None else weak * shared
                row["weak_efficiency_ratio"], row["strong_efficiency_ratio"] = weak, strong
                row["efficiency_ratio"] = strong if mode == "strong" else weak
                row["over_ideal_ns"] = here.average - reference.average * (shared if mode == "strong" else 1.0)
                row |= _how_sure(row["efficiency_ratio"], reference.timing, here.timing)
                if run.ranks > base.ranks:
                    row |= _serial(row, run.ranks / base.ranks, mode)
                # Noise alone must not stop a label: the upper end of the interval counts.
                best = row.get("efficiency_high_ratio", row["efficiency_ratio"])
                if best is not None and run.ranks > base.ranks:
                    if best < below:
                        stops_at = stops_at or run.ranks
                    elif row["efficiency_ratio"] >= below:
                        stops_at = None  # it recovers on more ranks
            of_label.append(row)
        following = _next(key, ordered, mode)
        rows += [{**row, "stops_at_ranks": stops_at, **following} for row in of_label]
    small = small_labels(rows)
    for row in rows:
        row["stops_at_ranks"] = None if row["label"] in small else row["stops_at_ranks"]
    return rows


def small_labels(rows: Sequence[Row]) -> set[str]:
    """Labels of `scaling` that are always a negligible part of the iteration: none of them counts as stopping."""
    iteration_ns = {row["run"]: row["average_ns"] for row in rows if row["label"] == ITERATION}
    large = {row["label"] for row in rows if row["average_ns"] >= _SMALL * iteration_ns.get(row["run"], 0)}
    return {row["label"] for row in rows} - large


def _how_sure(efficiency: float | None, reference: Timing, here: Timing) -> Row:
    """The 95 % interval of an efficiency, from that of the change, as in `diff`."""
    change = None if reference is here else interval_of_change(reference, here)
    if efficiency is None or change is None:
        return {}
    now = float(here.mean_ns)
    low, high = (float(reference.mean_ns) + end for end in change)
    # A time of 0 or less does not bound the efficiency.
    return {
        "efficiency_low_ratio": efficiency * now / high,
        "efficiency_high_ratio": efficiency * now / low if low > 0 else math.inf,
    }


def _serial(row: Row, times: float, mode: str) -> Row:
    """The serial part of the work, and its interval, on `times` as many ranks as in the smallest run.

    Strong: the serial fraction e = (1/S - 1/p) / (1 - 1/p) of A. H. Karp and H. P. Flatt, CACM 33 (1990). Weak: s = (p
    - S) / (p - 1) of J. L. Gustafson's scaled speedup, CACM 31 (1988).
    """

    def fraction(efficiency: float | None) -> float | None:
        if not efficiency:
            return None
        speedup = times * efficiency
        if mode == "strong":
            return (1 / speedup - 1 / times) / (1 - 1 / times)
        return (times - speedup) / (times - 1)

    # A higher efficiency means a smaller serial part.
    part = fraction(row["efficiency_ratio"])
    low = fraction(row.get("efficiency_high_ratio"))
    high = fraction(row.get("efficiency_low_ratio"))
    # Time that grows with the ranks, or shrinks faster than they grow, is not serial work, unless noise explains it.
    if part is None or (part if low is None else low) > 1 or (part if high is None else high) < 0:
        return {}
    return {
        "serial_ratio": min(max(part, 0.0), 1.0),
        "serial_low_ratio": None if low is None else max(low, 0.0),
        "serial_high_ratio": None if high is None else min(high, 1.0),
    }


@dataclass(frozen=True, slots=True)
class _Fit:
    """A line fitted to points: its sum of squared errors, and its value at another place."""

    model: str
    off: float
    value: float
    reach: float
    """1 + 1/n + the squared distance of that place from the middle, over the spread of the points"""


def _fit(model: str, basis: Callable[[int], float], points: dict[int, float], at: int) -> _Fit:
    x, y = [basis(ranks) for ranks in points], list(points.values())
    middle, mean = _mean(x), _mean(y)
    spread = sum((value - middle) ** 2 for value in x)
    slope = sum((a - middle) * (b - mean) for a, b in zip(x, y, strict=True)) / spread
    off = sum((b - mean - slope * (a - middle)) ** 2 for a, b in zip(x, y, strict=True))
    away = basis(at) - middle
    return _Fit(model, off, mean + slope * away, 1 + 1 / len(x) + away**2 / spread)


def _next(key: Key, runs: Sequence[Run], mode: str) -> Row:
    """Extrapolates a label to twice the ranks, by least squares of the mode's best-fitting model.

    The interval is that of a new measurement (N. R. Draper and H. Smith, "Applied Regression Analysis"), from the
    model's error or the measurements', whichever is larger.
    """
    of_size: dict[int, list[_Label]] = {}
    for run in runs:
        if key in run.labels:
            of_size.setdefault(run.ranks, []).append(run.labels[key])
    if len(of_size) < FEWEST_SIZES or max(of_size) != runs[-1].ranks:
        return {}
    points = {ranks: _mean([label.average for label in labels]) for ranks, labels in of_size.items()}
    ranks = 2 * max(points)
    fits = (_fit(model, basis, points, ranks) for model, basis in _MODELS[mode].items())
    fit = min(fits, key=lambda fitted: fitted.off)
    errors = [label.timing.error_ns or 0.0 for labels in of_size.values() for label in labels]
    measured = _mean([error**2 for error in errors])
    free = len(points) - 2
    half = student_t(free) * math.sqrt(max(fit.off / free, measured) * fit.reach)
    return {
        "model": fit.model,
        "next_ranks": ranks,
        "next_ns": max(fit.value, 0.0),
        "next_low_ns": max(fit.value - half, 0.0),
        "next_high_ns": max(fit.value + half, 0.0),
    }


def _keys(runs: Sequence[Run]) -> list[Key]:
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
    """A ratio of times; None if the label did not run in the smallest run: it comes with more ranks."""
    return before / now if now > 0 and before > 0 else None
