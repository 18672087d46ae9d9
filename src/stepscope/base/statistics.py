"""Statistics of measured times, and whether they can be trusted."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from typing import Any

STABLE_BELOW = 0.02
"""Relative standard deviation below which a measurement counts as stable."""

CONFIDENCE = 0.95
_NEIGHBOR_DISTANCE = 2
"""Numbers of neighbouring iterations differ by at most this."""

_MAX_DEGREES = 1000.0
"""From here on one quantile of Student's distribution serves for all: a thousandth wider than the normal one's."""
_STRIPS = 64


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of n times in one unit; std, the interval and stable are None if n is below 2."""

    n: int
    mean: float
    median: float
    std: float | None
    p5: float
    p95: float
    ci95_low: float | None
    ci95_high: float | None
    stable: bool | None

    def of_more(self, n: int, mean: float, squares: float, effective_n: float) -> Statistics:
        """Statistics of `n` times, two or more, with this median and these percentiles."""
        std = math.sqrt(squares * effective_n / (effective_n - 1))
        half = student_t(effective_n - 1) * std / math.sqrt(effective_n)
        return replace(
            self,
            n=n,
            mean=mean,
            std=std,
            ci95_low=max(mean - half, min(mean, 0.0)),  # no time is negative
            ci95_high=mean + half,
            stable=mean > 0 and std / mean < STABLE_BELOW,
        )


@dataclass(frozen=True, slots=True)
class Overhead:
    """What measuring costs per iteration (ns): armed minus neighbouring unarmed iterations.

    `median_ns` and its 95 % interval come from the pairs' differences; None with fewer than 6
    pairs, which cannot give such an interval. `ratio` is the median over the unarmed median.
    """

    pairs: int
    median_ns: float | None
    ci95_low_ns: float | None
    ci95_high_ns: float | None
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None


def student_t(degrees: float) -> float:
    """The 97.5 % point of Student's distribution, for any number of degrees of freedom from 1.

    >>> [round(student_t(degrees), 3) for degrees in (1, 1.5, 2, 5, 30)]
    [12.706, 6.017, 4.303, 2.571, 2.042]
    """
    step = 10.0 ** (math.floor(math.log10(max(degrees, 1.0))) - 2)
    # Rounded down, which errs on the wide side: then many parts share few distinct values.
    return _student_t(min(_MAX_DEGREES, math.floor(max(degrees, 1.0) / step + 1e-9) * step))


@lru_cache(maxsize=4096)
def _student_t(degrees: float) -> float:
    """Solves for the point by bisection. With t = √ν tan θ the density is a power of cos θ."""
    full_area = math.sqrt(math.pi) / 2
    full_area *= math.exp(math.lgamma(degrees / 2) - math.lgamma((degrees + 1) / 2))
    low, high = 1.9, 13.0
    for _halving in range(48):
        middle = (low + high) / 2
        if _area(math.atan(middle / math.sqrt(degrees)), degrees - 1) < CONFIDENCE * full_area:
            low = middle
        else:
            high = middle
    return high


def _area(end: float, power: float) -> float:
    """The integral of cos θ to a power from 0 to `end`, by Simpson's rule."""
    width = end / _STRIPS
    heights: list[float] = [math.cos(place * width) ** power for place in range(_STRIPS + 1)]
    inner = 4 * sum(heights[1:-1:2]) + 2 * sum(heights[2:-1:2])
    return width / 3 * (heights[0] + inner + heights[-1])


def quantile(ordered: Sequence[float], share: float) -> float:
    """A quantile of an ordered list, interpolated between neighbours.

    >>> quantile([0.0, 10.0], 0.25)
    2.5
    """
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def is_informative(half: float, value: float) -> bool:
    """Whether an interval of a time or rate, `half` to either side, excludes 0; others come from too few values.

    >>> is_informative(4, 10), is_informative(10, 10), is_informative(0, 0)
    (True, False, True)
    """
    return half < abs(value) or not half


def effective_sample_size(weight: int, squares: int) -> float:
    """Kish's effective sample size, from the sum of weights and of their squares.

    L. Kish, "Survey Sampling", 1965: so many equally weighted times would give as certain a mean.

    >>> tell_as_much(1 + 1 + 1, 1 + 1 + 1), tell_as_much(1 + 1 + 4, 1 + 1 + 16)
    (3.0, 2.0)
    """
    return weight * weight / squares


def describe(values: Sequence[float], weights: Sequence[int] | None = None) -> Statistics | None:
    """Statistics of some times; None when there are none."""
    if not values:
        return None
    pairs = sorted(zip(values, weights or [1] * len(values), strict=True))
    ordered = _Repeated(pairs)
    n = len(pairs)
    mean = math.fsum(value * weight for value, weight in pairs) / len(ordered)
    statistics = Statistics(
        n=n,
        mean=mean,
        median=quantile(ordered, 0.5),
        std=None,
        p5=quantile(ordered, 0.05),
        p95=quantile(ordered, 0.95),
        ci95_low=None,
        ci95_high=None,
        stable=None,
    )
    if n == 1:
        return statistics
    squares = math.fsum(weight * (value - mean) ** 2 for value, weight in pairs) / len(ordered)
    effective_n = effective_sample_size(len(ordered), sum(weight * weight for _, weight in pairs))
    return statistics.of_more(n, mean, squares, effective_n)


def describe_blocks(times: Sequence[int], weights: Sequence[int], block_sums: Sequence[int]) -> Statistics | None:
    """Statistics of block samples: percentiles of the sampled times, mean and confidence interval of block means.

    >>> describe_blocks([1, 1, 1], [2, 2, 2], [2, 10, 6]).mean
    3.0
    """
    timed = describe(times, weights)
    of_blocks = describe([ns / n for ns, n in zip(block_sums, weights, strict=True)], weights)
    if timed is None or of_blocks is None:
        return None
    return replace(of_blocks, median=timed.median, p5=timed.p5, p95=timed.p95)


class _Repeated(Sequence[float]):
    """Ordered values, each as often as its weight says."""

    def __init__(self, pairs: Sequence[tuple[float, int]]) -> None:
        self._values = [value for value, _ in pairs]
        self._ends = list(accumulate(weight for _, weight in pairs))

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, place: Any) -> Any:
        return self._values[bisect_right(self._ends, place)]


def median_interval(ordered: Sequence[float]) -> tuple[float, float] | None:
    """A 95 % interval of the median of an ordered list, whatever its distribution.

    From the binomial order statistics of the sign test; None below 6 values, where not even the
    smallest and the largest reach 95 %.
    """
    n = len(ordered)
    if n < 6:
        return None
    if n > 400:
        rank = math.floor(n / 2 - 0.98 * math.sqrt(n))
    else:
        total, rank, cumulated = 2**n, 0, 1
        while 40 * cumulated <= total:
            rank += 1
            cumulated += math.comb(n, rank)
    return ordered[rank - 1], ordered[n - rank]


def overhead(iterations: Sequence[tuple[int, bool, int]]) -> Overhead:
    """What measuring costs, from iterations in the order they ran, as (number, armed, time in ns).

    Each unarmed iteration is compared with one armed neighbour, alternating between the one before and the one after if
    there are both, so that a slow drift of the job (clocks, temperature, longer batches) does not look like overhead.
    With one, not with the mean of both: times of iterations are skewed, a mean of two is less so, and the median of the
    difference would not be 0 if measuring costs nothing. No armed iteration is used twice; an unarmed one without its
    neighbour is left out. At most one iteration that does not count is between neighbours.
    """
    differences = []
    unarmed = []
    before, used = True, -1
    for index, (number, armed, time_ns) in enumerate(iterations):
        if armed:
            continue
        unarmed.append(time_ns)
        near = [
            place
            for place in (index - 1, index + 1)
            if 0 <= place < len(iterations)
            and iterations[place][1]
            and abs(iterations[place][0] - number) <= _NEIGHBOR_DISTANCE
        ]
        if near and (neighbor := near[0 if before else -1]) > used:
            differences.append(float(iterations[neighbor][2] - time_ns))
            before, used = not before, neighbor
    differences.sort()
    interval = median_interval(differences)
    if interval is None:
        return Overhead(len(differences), None, None, None, None, None, None)
    middle = quantile(differences, 0.5)
    usual = quantile(sorted(unarmed), 0.5)
    ratios = tuple(value / usual if usual > 0 else None for value in (middle, *interval))
    return Overhead(len(differences), middle, *interval, *ratios)
