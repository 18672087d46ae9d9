"""Rounding parts so that they still add up to their total."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction


def whole_parts(parts: Sequence[Fraction]) -> list[int]:
    """Parts in whole units whose sum is the sum of the parts, rounded.

    Each is rounded down or up: those with the largest remainders are rounded up, as many as it takes.

    >>> whole_parts([Fraction(3, 2), Fraction(3, 2), Fraction(1, 4)])
    [2, 1, 0]
    """
    down = [math.floor(part) for part in parts]
    missing = math.floor(sum(parts, Fraction(1, 2))) - sum(down)
    by_remainder = sorted(range(len(parts)), key=lambda place: down[place] - parts[place])
    for place in by_remainder[:missing]:
        down[place] += 1
    return down
