"""Detects drift of values over time: a robust slope with its interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

ENOUGH = 10
"""Below this number of values no trend is computed."""
_MAX_VALUES = 200
"""The most values that are compared in pairs; more are reduced to medians of neighbours."""
_NORMAL = 1.959964
"""The 97.5 % point of the normal distribution."""


@dataclass(frozen=True, slots=True)
class Trend:
    """The change of values from the first to the last time: robust slope times length, its 95 % interval, and the
    medians of the first and last fifth of the values."""

    change: float
    low: float
    high: float
    first: float
    last: float

    @property
    def sure(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low > 0 or self.high < 0


def find_trend(time: ArrayLike, value: ArrayLike) -> Trend | None:
    """The trend of values over times in any order and unit; None for fewer than 10 values.

    The slope is the median of all pairs' slopes (Theil and Sen), its interval Sen's (1968), from the variance of
    Kendall's statistic without ties; correlated values make it too narrow.

    >>> trend = find_trend(range(10), [5, 5, 6, 6, 7, 7, 8, 8, 9, 9])
    >>> round(trend.change, 1), trend.first, trend.last, trend.sure
    (4.5, 5.0, 9.0, True)
    """
    at, of = np.asarray(time, dtype=np.float64), np.asarray(value, dtype=np.float64)
    if len(at) < ENOUGH:
        return None
    order = np.argsort(at, kind="stable")
    at, of = at[order], of[order]
    fifth = max(1, len(of) // 5)
    first, last = float(np.median(of[:fifth])), float(np.median(of[-fifth:]))
    length = float(at[-1] - at[0])
    if len(at) > _MAX_VALUES:
        pieces = [np.array_split(column, _MAX_VALUES) for column in (at, of)]
        at, of = (np.array([np.median(piece) for piece in column]) for column in pieces)
    first_of_pair, second_of_pair = np.triu_indices(len(at), 1)
    apart = at[second_of_pair] - at[first_of_pair]
    slopes = np.sort(((of[second_of_pair] - of[first_of_pair])[apart > 0]) / apart[apart > 0])
    if not len(slopes):
        return None
    n, pairs = len(at), len(slopes)
    half = _NORMAL * math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    low = max(0, math.floor((pairs - half) / 2) - 1)
    high = min(pairs - 1, math.ceil((pairs + half) / 2))
    slope, low_change, high_change = (
        float(change) * length for change in (np.median(slopes), slopes[low], slopes[high])
    )
    return Trend(slope, low_change, high_change, first, last)
