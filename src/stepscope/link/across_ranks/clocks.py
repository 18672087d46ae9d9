"""Estimates how the clocks of ranks differ from when collectives that all ranks leave together ended.

All ranks of such a collective end it at one moment, except for some microseconds, so other differences between the ends
are those of the clocks. Ranks of one host share a clock. Half of the matches give a clock's lead and its drift; the
other half, held back, gives the error of the result: its residual. A difference below it is not applied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.formats.consecutive import run_starts
from stepscope.link.across_ranks.gather import Collectives, Known
from stepscope.link.across_ranks.matching import TOGETHER, Matches
from stepscope.link.columns import places
from stepscope.schema.arrays import Int32s, Int64s

Floats = NDArray[np.float64]

LEAST_MATCHES = 8
"""With fewer matches no clock is moved."""
MOST_MATCHES = 2048
"""Matches used of a set of ranks, evenly spaced: more do not improve the estimate."""
SURE = 4.0
"""Standard errors by which a drift must differ from 0."""
_DRIFT_BLOCKS = 16
_TO_DEVIATION = 1.4826
"""A normal distribution's standard deviation over its median absolute deviation."""
_COVERED = 95
"""Per cent of the residuals that the uncertainty covers."""
_ONE_CLOCK_NS = 1_000_000
"""Ranks whose ends differ by more may not share a clock, whatever the names of their hosts."""
_STRANGERS = 0.1
"""They do not share one if, with a clock for each, they differ by less than this part of it."""
_OF_SPACING = 0.5
"""A residual above this share of the time between two collectives shows that the matched ones are different."""


@dataclass(frozen=True, slots=True)
class Clock:
    """The clock of a rank.

    Args:
        ahead_ns: its lead over the run's clock when that shows `at_ns`.
        drift: how much faster it runs, as a ratio; None if not estimated.
        noise_ns: after correction, 95 of 100 ends of held-back collectives differ by at most this; None if there are
            none.
        rule: same host, epoch or collectives; None if nothing relates it to others.
        matches: collectives that were used.
        among: number of the set of clocks that it was aligned with; -1 for none.
        refused: whether its matches contradict one another.
    """

    ahead_ns: float
    drift: float | None
    at_ns: float
    noise_ns: float | None
    rule: str | None
    matches: int
    among: int
    refused: bool = False

    def ahead_at(self, time_ns: float) -> int:
        """Its lead when it shows a time (ns)."""
        return int(np.rint(_ahead(np.array(time_ns), self.ahead_ns, self.drift, self.at_ns)))

    def corrected(self, times: Int64s) -> Int64s:
        """Converts times that it shows to the run's clock (ns)."""
        ahead = _ahead(times, self.ahead_ns, self.drift, self.at_ns)
        moved: Int64s = times - np.rint(ahead).astype(np.int64)
        return moved


def _ahead(shown: NDArray[Any], ahead: float, drift: float | None, at: float) -> Floats:
    """The lead of a clock (ns) at times that it shows: `ahead` when it should show `at`."""
    rate = (drift or 0.0) / (1.0 + (drift or 0.0))
    found: Floats = ahead + rate * (shown - at - ahead)
    return found


@dataclass(frozen=True, slots=True)
class _Ends:
    """When ranks arrived at matched collectives and left them: match, rank and times (ns), and which are held back."""

    match: Int64s
    rank: Int32s
    start: Floats
    end: Floats
    held: NDArray[np.bool_]


def learn_clocks(found: Collectives, matches: Matches, ranks: Sequence[Known]) -> list[Clock]:
    """The clock of each rank."""
    ends = _ends(found, matches)
    hosts: dict[str, int] = {}
    unit = np.arange(len(ranks))
    for at, one in enumerate(ranks):
        if one.host is not None and one.epoch_ns is not None:
            unit[at] = hosts.setdefault(one.host, at)
    clocks = _solve(ends, unit, ranks)
    shared = np.bincount(unit, minlength=len(ranks))[unit] > 1
    strangers = {
        ranks[at].host
        for at, clock in enumerate(clocks)
        if shared[at] and clock.noise_ns is not None and clock.noise_ns > _ONE_CLOCK_NS
    }
    if strangers:
        apart = [at for at, one in enumerate(ranks) if one.host in strangers]
        unit[apart] = apart
        own = _solve(ends, unit, ranks)
        told = [(clocks[at].noise_ns or 0.0, own[at].noise_ns) for at in apart]
        refused = any(own[at].refused for at in apart)
        if not refused and all(after is None or after <= _STRANGERS * before for before, after in told if before):
            clocks = own
    return clocks


def _ends(found: Collectives, matches: Matches) -> _Ends:
    """The usable ends, of at most `MOST_MATCHES` matches of each group, every other one held back."""
    together = np.array([one[0] in TOGETHER for one in found.kinds], dtype=bool)
    first = matches.rows[matches.first]
    telling = np.flatnonzero(together[found.kind[first]])
    telling = telling[np.argsort(found.group[first[telling]], kind="stable")]
    starts = np.flatnonzero(run_starts(found.group[first[telling]]))
    # -1 for an unused match, else whether it is held back.
    use = np.full(len(matches), -1, np.int8)
    for own in np.split(telling, starts[1:]):
        at = np.linspace(0, len(own) - 1, min(len(own), MOST_MATCHES)).astype(np.int64)
        use[own[at]] = np.arange(len(at)) % 2
    of_row = matches.each(use)
    rows = matches.rows[of_row >= 0]
    return _Ends(
        matches.match[rows],
        found.rank[rows],
        found.start[rows].astype(float),
        found.end[rows].astype(float),
        of_row[of_row >= 0] > 0,
    )


@dataclass(frozen=True, slots=True)
class _Line:
    """The lead of a clock (ns) at a time of the run, and its drift."""

    ahead: float = 0.0
    drift: float | None = None
    at: float = 0.0

    def of(self, times: Floats) -> Floats:
        return self.ahead + (self.drift or 0.0) * (times - self.at)


@dataclass(frozen=True, slots=True)
class _Fit:
    line: _Line
    rule: str | None
    among: int
    refused: bool = False


def _solve(ends: _Ends, unit: NDArray[np.int64], ranks: Sequence[Known]) -> list[Clock]:
    """The clocks of units, which are ranks that share one: starts from the first unit and goes on to units with matches
    to solved ones, until none is left.
    """
    fits: dict[int, _Fit] = {}
    of_end = unit[ends.rank]
    corrected = ends.end.copy()
    waiting = np.unique(of_end).tolist()
    among = 0
    while waiting:
        seed = waiting.pop(0)
        alone = int((unit == seed).sum()) == 1
        rule = "epoch" if alone else "same host"
        fits[seed] = _Fit(_Line(), rule if ranks[seed].epoch_ns is not None else None, among)
        solved = of_end == seed
        while waiting:
            moment = _moments(ends.match[solved], corrected[solved], ends.match)
            reached = []
            for one in waiting:
                rows = np.flatnonzero((of_end == one) & ~np.isnan(moment))
                if not len(rows):
                    continue
                ahead = corrected[rows] - moment[rows]
                fit = _fit(moment[rows], ahead, ends, rows, ranks[one], among)
                if fit is None:
                    continue
                fits[one] = fit
                reached.append(one)
            if not reached:
                break
            waiting = [one for one in waiting if one not in reached]
            for one in reached:
                if not fits[one].refused:
                    rows = np.flatnonzero(of_end == one)
                    line = fits[one].line
                    corrected[rows] -= _ahead(corrected[rows], line.ahead, line.drift, line.at)
                    solved[rows] = True
        among += 1
    return _with_residuals(ends, corrected, unit, fits, ranks)


def _moments(match: Int64s, ends: Floats, asked: Int64s) -> Floats:
    """The median end of each asked match; NaN if there is no end of it."""
    order = np.lexsort((ends, match))
    match, ends = match[order], ends[order]
    first = np.flatnonzero(run_starts(match))
    count = np.diff(np.append(first, len(match)))
    middle = (ends[first + (count - 1) // 2] + ends[first + count // 2]) / 2
    at = places(match[first], asked)
    return np.where(at >= 0, np.append(middle, np.nan)[at], np.nan)


def _fit(moment: Floats, ahead: Floats, ends: _Ends, rows: Int64s, rank: Known, among: int) -> _Fit | None:
    """The clock of a unit, from the ends of its ranks, one of which is `rank`; None if there are too few and its times
    have no epoch either.
    """
    known, resolution = rank.epoch_ns is not None, rank.resolution_ns
    held = ends.held[rows]
    told = len(np.unique(ends.match[rows]))
    if told < LEAST_MATCHES or held.all() or not held.any():
        return _Fit(_Line(), "epoch", among) if known else None
    line = _line(moment[~held], ahead[~held])
    after = _covering(ahead[held] - line.of(moment[held]))
    spacing = float(np.median(np.diff(np.unique(moment)))) if told > 1 else 0.0
    if after > max(_OF_SPACING * spacing, _ONE_CLOCK_NS):
        return _Fit(_Line(), "epoch" if known else None, -1, refused=True)
    if known and np.abs(line.of(moment)).max() <= max(after, resolution):
        return _Fit(_Line(), "epoch", among)
    return _Fit(line, "collectives", among)


def _line(time: Floats, ahead: Floats) -> _Line:
    """A line through most of the points. Its slope is the median slope between medians of blocks (Theil and Sen), so
    that wrong matches do not bend it, and 0 if the medians scatter so much that there may be no drift.
    """
    at = float(time.mean())
    blocks = min(_DRIFT_BLOCKS, len(time) // 2)
    drift = None
    if blocks >= 4:
        parts = np.array_split(np.argsort(time, kind="stable"), blocks)
        x = np.array([np.median(time[part]) for part in parts])
        y = np.array([np.median(ahead[part]) for part in parts])
        left, right = np.triu_indices(blocks, 1)
        apart = x[right] > x[left]
        left, right = left[apart], right[apart]
        drift = 0.0
        if len(left):
            slope = float(np.median((y[right] - y[left]) / (x[right] - x[left])))
            off = y - slope * x
            scatter = _TO_DEVIATION * float(np.median(np.abs(off - np.median(off))))
            error = scatter / float(np.sqrt(((x - x.mean()) ** 2).sum()))
            if abs(slope) > SURE * error and abs(slope) * np.ptp(time) > 1:
                drift = slope
    return _Line(float(np.median(ahead - (drift or 0.0) * (time - at))), drift, at)


def _covering(residuals: Floats) -> float:
    """A limit that most residuals stay below; all of them if there are few."""
    sizes = np.abs(residuals)
    return float(sizes.max() if len(sizes) < 20 else np.percentile(sizes, _COVERED))


def _with_residuals(
    ends: _Ends, corrected: Floats, unit: NDArray[np.int64], fits: dict[int, _Fit], ranks: Sequence[Known]
) -> list[Clock]:
    """The clock of each rank, with the residuals of its held-back ends from those of the other ranks."""
    among = np.array([fits[one].among if one in fits else -1 for one in unit.tolist()])
    moment = np.full(len(ends.end), np.nan)
    count = np.zeros(len(ends.end), np.int64)
    for number in np.unique(among[among >= 0]).tolist():
        rows = np.flatnonzero(among[ends.rank] == number)
        moment[rows] = _moments(ends.match[rows], corrected[rows], ends.match[rows])
        _, which, size = np.unique(ends.match[rows], return_inverse=True, return_counts=True)
        count[rows] = size[which.reshape(-1)]
    bound = _by_order(ends, corrected, count > 1, len(ranks))
    clocks = []
    for at, one in enumerate(ranks):
        fit = fits.get(int(unit[at]), _Fit(_Line(), None if one.epoch_ns is None else "epoch", -1))
        own = np.flatnonzero((ends.rank == at) & (count > 1))
        held = own[ends.held[own]] if len(own) >= LEAST_MATCHES else own
        noise, rule = None, fit.rule
        if len(held):
            rule = rule or "collectives"
            # The median includes the rank's own end.
            apart = (corrected[held] - moment[held]) * (count[held] / (count[held] - 1))
            most = min(_covering(apart), bound[at])
            noise = max(float(np.ceil(most)), float(one.resolution_ns))
        clocks.append(
            Clock(fit.line.ahead, fit.line.drift, fit.line.at, noise, rule, len(own), fit.among, fit.refused)
        )  # fmt: skip
    return clocks


def _by_order(ends: _Ends, corrected: Floats, told: NDArray[np.bool_], ranks: int) -> Floats:
    """An upper limit of each rank's clock error, since none leaves before all have arrived (ns): on threads of the
    host, ends differ by when each is scheduled. Infinite if contradicted.

    Args:
        told: the ends whose matches have several ranks with clocks that agree.
    """
    match, rank, left = ends.match[told], ends.rank[told], corrected[told]
    came = ends.start[told] - ends.end[told] + left
    ahead = _least(rank, left + _next(match, -came), ranks)
    behind = _least(rank, _next(match, left) - came, ranks)
    return np.where((ahead >= 0) & (behind >= 0), np.maximum(ahead, behind), np.inf)


def _least(rank: Int32s, values: Floats, ranks: int) -> Floats:
    found = np.full(ranks, np.inf)
    np.minimum.at(found, rank, values)
    return found


def _next(match: Int64s, values: Floats) -> Floats:
    """For each value the least of the other values of its match; every match has several."""
    order = np.lexsort((values, match))
    first = np.flatnonzero(run_starts(match[order]))
    size = np.diff(np.append(first, len(order)))
    found = np.empty_like(values)
    found[order] = np.repeat(values[order[first]], size)
    found[order[first]] = values[order[first + 1]]
    return found
