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
from stepscope.link.across_ranks.gather import Collectives, RankInfo
from stepscope.link.across_ranks.matching import TOGETHER, Matches
from stepscope.link.columns import places
from stepscope.schema.arrays import Int32s, Int64s

Floats = NDArray[np.float64]

MIN_MATCHES = 8
"""With fewer matches no clock is moved."""
MAX_MATCHES = 2048
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
        return times - np.rint(ahead).astype(np.int64)


def _ahead(clock_time: NDArray[Any], ahead: float, drift: float | None, at: float) -> Floats:
    """The lead of a clock (ns) at times that it shows: `ahead` when it should show `at`."""
    rate = (drift or 0.0) / (1.0 + (drift or 0.0))
    return ahead + rate * (clock_time - at - ahead)


@dataclass(frozen=True, slots=True)
class _Ends:
    """When ranks arrived at matched collectives and left them: match, rank and times (ns), and which are held back."""

    match: Int64s
    rank: Int32s
    start: Floats
    end: Floats
    is_validation: NDArray[np.bool_]


def learn_clocks(collectives: Collectives, matches: Matches, ranks: Sequence[RankInfo]) -> list[Clock]:
    """The clock of each rank."""
    ends = _ends(collectives, matches)
    hosts: dict[str, int] = {}
    unit = np.arange(len(ranks))
    for at, rank in enumerate(ranks):
        if rank.host is not None and rank.epoch_ns is not None:
            unit[at] = hosts.setdefault(rank.host, at)
    clocks = _solve(ends, unit, ranks)
    shared = np.bincount(unit, minlength=len(ranks))[unit] > 1
    strangers = {
        ranks[at].host
        for at, clock in enumerate(clocks)
        if shared[at] and clock.noise_ns is not None and clock.noise_ns > _ONE_CLOCK_NS
    }
    if strangers:
        apart = [at for at, rank in enumerate(ranks) if rank.host in strangers]
        unit[apart] = apart
        separate = _solve(ends, unit, ranks)
        noise = [(clocks[at].noise_ns or 0.0, separate[at].noise_ns) for at in apart]
        refused = any(separate[at].refused for at in apart)
        if not refused and all(after is None or after <= _STRANGERS * before for before, after in noise if before):
            clocks = separate
    return clocks


def _ends(collectives: Collectives, matches: Matches) -> _Ends:
    """The usable ends, of at most `MAX_MATCHES` matches of each group, every other one held back."""
    together = np.array([kind[0] in TOGETHER for kind in collectives.kinds], dtype=bool)
    first = matches.rows[matches.first]
    telling = np.flatnonzero(together[collectives.kind[first]])
    telling = telling[np.argsort(collectives.group[first[telling]], kind="stable")]
    starts = np.flatnonzero(run_starts(collectives.group[first[telling]]))
    # -1 for an unused match, else whether it is held back.
    use = np.full(len(matches), -1, np.int8)
    for of_group in np.split(telling, starts[1:]):
        at = np.linspace(0, len(of_group) - 1, min(len(of_group), MAX_MATCHES)).astype(np.int64)
        use[of_group[at]] = np.arange(len(at)) % 2
    of_row = matches.each(use)
    rows = matches.rows[of_row >= 0]
    return _Ends(
        matches.match[rows],
        collectives.rank[rows],
        collectives.start[rows].astype(float),
        collectives.end[rows].astype(float),
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


def _solve(ends: _Ends, unit: NDArray[np.int64], ranks: Sequence[RankInfo]) -> list[Clock]:
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
        is_single = int((unit == seed).sum()) == 1
        rule = "epoch" if is_single else "same host"
        fits[seed] = _Fit(_Line(), rule if ranks[seed].epoch_ns is not None else None, among)
        solved = of_end == seed
        while waiting:
            moment = _moments(ends.match[solved], corrected[solved], ends.match)
            reached = []
            for waiting_unit in waiting:
                rows = np.flatnonzero((of_end == waiting_unit) & ~np.isnan(moment))
                if not len(rows):
                    continue
                ahead = corrected[rows] - moment[rows]
                fit = _fit(moment[rows], ahead, ends, rows, ranks[waiting_unit], among)
                if fit is None:
                    continue
                fits[waiting_unit] = fit
                reached.append(waiting_unit)
            if not reached:
                break
            waiting = [waiting_unit for waiting_unit in waiting if waiting_unit not in reached]
            for waiting_unit in reached:
                if not fits[waiting_unit].refused:
                    rows = np.flatnonzero(of_end == waiting_unit)
                    line = fits[waiting_unit].line
                    corrected[rows] -= _ahead(corrected[rows], line.ahead, line.drift, line.at)
                    solved[rows] = True
        among += 1
    return _with_residuals(ends, corrected, unit, fits, ranks)


def _moments(match: Int64s, ends: Floats, wanted_match: Int64s) -> Floats:
    """The median end of each asked match; NaN if there is no end of it."""
    order = np.lexsort((ends, match))
    match, ends = match[order], ends[order]
    first = np.flatnonzero(run_starts(match))
    count = np.diff(np.append(first, len(match)))
    middle = (ends[first + (count - 1) // 2] + ends[first + count // 2]) / 2
    at = places(match[first], wanted_match)
    return np.where(at >= 0, np.append(middle, np.nan)[at], np.nan)


def _fit(moment: Floats, ahead: Floats, ends: _Ends, rows: Int64s, rank: RankInfo, among: int) -> _Fit | None:
    """The clock of a unit, from the ends of its ranks, one of which is `rank`; None if there are too few and its times
    have no epoch either.
    """
    has_epoch, resolution = rank.epoch_ns is not None, rank.resolution_ns
    validation = ends.is_validation[rows]
    match_count = len(np.unique(ends.match[rows]))
    if match_count < MIN_MATCHES or validation.all() or not validation.any():
        return _Fit(_Line(), "epoch", among) if has_epoch else None
    line = _line(moment[~validation], ahead[~validation])
    after = _covering(ahead[validation] - line.of(moment[validation]))
    spacing = float(np.median(np.diff(np.unique(moment)))) if match_count > 1 else 0.0
    if after > max(_OF_SPACING * spacing, _ONE_CLOCK_NS):
        return _Fit(_Line(), "epoch" if has_epoch else None, -1, refused=True)
    if has_epoch and np.abs(line.of(moment)).max() <= max(after, resolution):
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
    ends: _Ends, corrected: Floats, unit: NDArray[np.int64], fits: dict[int, _Fit], ranks: Sequence[RankInfo]
) -> list[Clock]:
    """The clock of each rank, with the residuals of its held-back ends from those of the other ranks."""
    among = np.array([fits[rank].among if rank in fits else -1 for rank in unit.tolist()])
    moment = np.full(len(ends.end), np.nan)
    count = np.zeros(len(ends.end), np.int64)
    for number in np.unique(among[among >= 0]).tolist():
        rows = np.flatnonzero(among[ends.rank] == number)
        moment[rows] = _moments(ends.match[rows], corrected[rows], ends.match[rows])
        _, which, size = np.unique(ends.match[rows], return_inverse=True, return_counts=True)
        count[rows] = size[which.reshape(-1)]
    bound = _by_order(ends, corrected, count > 1, len(ranks))
    clocks = []
    for at, rank in enumerate(ranks):
        fit = fits.get(int(unit[at]), _Fit(_Line(), None if rank.epoch_ns is None else "epoch", -1))
        of_rank = np.flatnonzero((ends.rank == at) & (count > 1))
        checked = of_rank[ends.is_validation[of_rank]] if len(of_rank) >= MIN_MATCHES else of_rank
        noise, rule = None, fit.rule
        if len(checked):
            rule = rule or "collectives"
            # The median includes the rank's own end.
            apart = (corrected[checked] - moment[checked]) * (count[checked] / (count[checked] - 1))
            limit = min(_covering(apart), bound[at])
            noise = max(float(np.ceil(limit)), float(rank.resolution_ns))
        clocks.append(
            Clock(fit.line.ahead, fit.line.drift, fit.line.at, noise, rule, len(of_rank), fit.among, fit.refused)
        )  # fmt: skip
    return clocks


def _by_order(ends: _Ends, corrected: Floats, usable: NDArray[np.bool_], ranks: int) -> Floats:
    """An upper limit of each rank's clock error, since none leaves before all have arrived (ns): on threads of the
    host, ends differ by when each is scheduled. Infinite if contradicted.

    Args:
        usable: the ends whose matches have several ranks with clocks that agree.
    """
    match, rank, left = ends.match[usable], ends.rank[usable], corrected[usable]
    arrived = ends.start[usable] - ends.end[usable] + left
    ahead = _min_by_rank(rank, left + _next(match, -arrived), ranks)
    behind = _min_by_rank(rank, _next(match, left) - arrived, ranks)
    return np.where((ahead >= 0) & (behind >= 0), np.maximum(ahead, behind), np.inf)


def _min_by_rank(rank: Int32s, values: Floats, ranks: int) -> Floats:
    smallest = np.full(ranks, np.inf)
    np.minimum.at(smallest, rank, values)
    return smallest


def _next(match: Int64s, values: Floats) -> Floats:
    """For each value the least of the other values of its match; every match has several."""
    order = np.lexsort((values, match))
    first = np.flatnonzero(run_starts(match[order]))
    size = np.diff(np.append(first, len(order)))
    smallest = np.empty_like(values)
    smallest[order] = np.repeat(values[order[first]], size)
    smallest[order[first]] = values[order[first + 1]]
    return smallest
