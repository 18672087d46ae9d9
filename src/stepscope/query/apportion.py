"""Rounds parts so that they still add up to their total."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def largest_remainder(parts: Sequence[Fraction], total: int | None = None) -> list[int]:
    """Rounds parts to integers whose sum is the rounded sum of the parts.

    Those with the largest remainders are rounded up, as many as necessary, the others down.

    Args:
        total: their sum as the caller rounded it, down or up; by default to the nearest integer.

    >>> largest_remainder([Fraction(3, 2), Fraction(3, 2), Fraction(1, 4)])
    [2, 1, 0]
    """
    down = [math.floor(part) for part in parts]
    rounded = math.floor(sum(parts, Fraction(1, 2))) if total is None else total
    missing = rounded - sum(down)
    by_remainder = sorted(range(len(parts)), key=lambda place: down[place] - parts[place])
    for place in by_remainder[:missing]:
        down[place] += 1
    return down


def apportion(
    amount: npt.NDArray[np.int64], weight: npt.NDArray[np.int64], group: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Splits each group's amount into integer parts, in proportion to weights, that add up to it.

    Like `largest_remainder`, for many groups at once and exact for any 64-bit numbers.

    Args:
        amount: for each row the amount of its group, not negative.
        weight: of each row, not negative; a group whose weights are all 0 is split evenly.
        group: number of each row's group.

    >>> import numpy as np
    >>> apportion(np.array([10, 10, 10, 7]), np.array([1, 1, 1, 0]), np.array([0, 0, 0, 1])).tolist()
    [4, 3, 3, 7]
    """
    import numpy as np

    groups = int(group.max(initial=-1)) + 1
    heavy = np.bincount(group, weights=weight, minlength=groups) > 0
    weight = np.where(heavy[group], weight, 1).astype(np.int64)
    sums = np.zeros(groups, dtype=object if weight.size and weight.max() >= 1 << 31 else np.int64)
    np.add.at(sums, group, weight)
    if sums.dtype != object and sums.max(initial=0) >= 1 << 31:
        sums = sums.astype(object)  # products of remainder and weight may exceed 64 bits
    total_weight = sums[group]
    product = amount % total_weight * weight
    down = amount // total_weight * weight + product // total_weight
    remainder = product % total_weight
    left = np.zeros(groups, dtype=sums.dtype)
    np.add.at(left, group, remainder)
    missing = (left // np.maximum(sums, 1)).astype(np.int64)
    order = np.lexsort((-(remainder / total_weight).astype(np.float64), group))
    ordered = group[order]
    position = np.arange(len(order)) - np.searchsorted(ordered, ordered)
    down[order[position < missing[ordered]]] += 1
    return down.astype(np.int64)
