"""Means over ranks, and the uncertainty of the difference of two of them.

Means are exact fractions, so that parts add up to their total; they are rounded once, together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from stepscope.base.statistics import student_t


@dataclass(frozen=True, slots=True)
class RankMean:
    """What one rank measured: mean, number of samples, and their standard deviation (None for fewer than two, or an
    average).

    `effective` is the number of equally weighted samples with the same information; None for equal weights.
    """

    mean_ns: Fraction
    samples: int
    std_ns: float | None
    effective: float | None = None

    @property
    def effective_samples(self) -> float:
        """Number of equally weighted samples with the same information."""
        return self.samples if self.effective is None else self.effective

    @classmethod
    def of(cls, samples: Sequence[int], *, steps: int | None = None) -> RankMean:
        """The mean of samples in ns; over `steps` steps, those without a sample counting as 0.

        >>> RankMean.of([2, 4], steps=3)
        RankMean(mean_ns=Fraction(2, 1), samples=3, std_ns=2.0, effective=None)
        """
        count = len(samples) if steps is None else steps
        mean = Fraction(sum(samples), count)
        return cls(mean, count, deviation(samples, mean, count))


def deviation(samples: Sequence[float], mean: Fraction, count: int) -> float | None:
    """The sample standard deviation of `count` samples, missing ones being 0."""
    if count < 2:
        return None
    middle = float(mean)
    squares = sum((sample - middle) ** 2 for sample in samples)
    squares += (count - len(samples)) * middle * middle
    return math.sqrt(squares / (count - 1))


@dataclass(frozen=True, slots=True)
class Timing:
    """The average over ranks of their means, with its standard error (None with too few samples) and degrees of
    freedom."""

    mean_ns: Fraction
    samples: int
    error_ns: float | None
    degrees: float

    def of_nothing(self) -> Timing:
        """The timing of something that ran in none of the same steps."""
        error = None if self.error_ns is None else 0.0
        return Timing(Fraction(0), self.samples, error, self.degrees)


def over_ranks(ranks: Sequence[RankMean]) -> Timing:
    """The average of ranks' means, equally weighted, however many steps they recorded.

    Ranks wait for one another, so errors do not shrink with their number: the standard error is the mean of theirs, its
    largest possible value, with the degrees of freedom of the rank with the fewest samples.
    """
    mean = sum((rank.mean_ns for rank in ranks), Fraction(0)) / len(ranks)
    fewest = min(rank.effective_samples for rank in ranks)
    errors = [
        rank.std_ns / math.sqrt(rank.effective_samples)
        for rank in ranks
        if rank.std_ns is not None and rank.effective_samples > 1
    ]
    complete = len(errors) == len(ranks)
    return Timing(
        mean, sum(rank.samples for rank in ranks), sum(errors) / len(errors) if complete else None, fewest - 1
    )


def interval_of_change(before: Timing, after: Timing) -> tuple[float, float] | None:
    """Welch's 95 % interval of `after` minus `before` in ns; None if unknown.

    B. L. Welch, Biometrika 34 (1947); degrees of freedom after F. E. Satterthwaite.
    """
    if before.error_ns is None or after.error_ns is None:
        return None
    change = float(after.mean_ns - before.mean_ns)
    left, right = before.error_ns**2, after.error_ns**2
    both = left + right
    if both == 0:
        return change, change
    # Ratios: the fourth powers of the errors themselves may be too small for a float.
    degrees = 1 / ((left / both) ** 2 / before.degrees + (right / both) ** 2 / after.degrees)
    half = student_t(degrees) * math.sqrt(both)
    return change - half, change + half
