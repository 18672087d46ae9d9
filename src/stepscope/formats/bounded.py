"""Numbers in files of others: one that its column cannot have becomes None, and is counted as a loss.

Columns are integers of 64 bits and finite doubles; sums of times and counts stay within 64 bits if each is below 2^62.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepscope.formats.tables import ReadReport

LIMIT = 1 << 62
LONGEST = 400
"""Characters of a number: the longest double has fewer, and Python refuses to convert thousands of digits."""
INT32 = 1 << 31
LARGEST = 1e300
"""A larger double becomes infinite when a unit scales it."""
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")


def integer(value: Any, report: ReadReport | None = None, *, low: int = 0, below: int = LIMIT) -> int | None:
    """An integer from `low` to less than `below`; None for anything else, which `report` counts unless it is None."""
    if isinstance(value, int) and not isinstance(value, bool) and low <= value < below:
        return value
    _count(value, report)
    return None


def real(value: Any, report: ReadReport | None = None, *, low: float = -LARGEST, high: float = LARGEST) -> float | None:
    """A finite number from `low` to `high`; None for anything else, which `report` counts unless it is None."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number) and low <= number <= high:
            return number
    _count(value, report)
    return None


def integer_in(text: str | None, report: ReadReport | None = None, *, low: int = 0, below: int = LIMIT) -> int | None:
    """The same for digits in text; an empty one is None."""
    digits = (text or "").strip()
    return integer(int(digits) if _INTEGER.fullmatch(digits) else digits or None, report, low=low, below=below)


def real_in(text: str | None, report: ReadReport | None = None, *, high: float = LARGEST) -> float | None:
    """The same for a number in text, up to `high` to either side of 0."""
    stripped = (text or "").strip()
    try:
        number: float | str | None = float(stripped[:LONGEST])
    except ValueError:
        number = stripped or None
    return real(number, report, low=-high, high=high)


def _count(value: Any, report: ReadReport | None) -> None:
    if report is not None and value is not None:
        report.note("wrong_type")
