"""An entire run's steps in bounded memory: evenly spaced ones are kept, the sums are exact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class History:
    """Rows of integers, at most `capacity` of them, and what belongs to each.

    Every `stride`-th row is kept. When there is no room, every second one is dropped and the stride
    doubles, so that what is kept always covers the whole run evenly. `count`, `weight`, `totals` and
    `largest` are of all rows; a row counts in the totals as often as its weight says.

    Args:
        columns: numbers in a row.
        capacity: rows kept, at least 2.

    >>> history = History(1, capacity=2)
    >>> for value in range(8):
    ...     history.add((value,))
    >>> history.rows, history.stride, history.totals
    ([(0,), (4,)], 4, [28])
    """

    def __init__(self, columns: int, capacity: int = 2048) -> None:
        self.rows: list[Sequence[int]] = []
        self.beside: list[Any] = []
        """What was given with each of the rows."""
        self.stride = 1
        self.count = 0
        self.weight = 0
        self.totals = [0] * columns
        self.largest = [0] * columns
        self._capacity = capacity

    @property
    def keeps_next(self) -> bool:
        """Whether the next row is one of those that are kept, as far as can be known without it."""
        return self.count % self.stride == 0

    def thinned(self, most: int) -> tuple[list[Sequence[int]], list[Any], int]:
        """At most so many of the kept rows, evenly spaced too, with what is beside them, and their stride."""
        every = max(1, -(-len(self.rows) // most))
        return self.rows[::every], self.beside[::every], self.stride * every

    def add(self, row: Sequence[int], beside: Any = None, weight: int = 1) -> None:
        """Counts a row, and keeps it when it is its turn."""
        self.weight += weight
        for column, value in enumerate(row):
            self.totals[column] += value * weight
            if value > self.largest[column]:
                self.largest[column] = value
        if self.count % self.stride == 0:
            if len(self.rows) >= self._capacity:
                del self.rows[1::2]
                del self.beside[1::2]
                self.stride *= 2
            if self.count % self.stride == 0:
                self.rows.append(tuple(row))
                self.beside.append(beside)
        self.count += 1
