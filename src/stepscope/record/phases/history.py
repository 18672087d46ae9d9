"""Keeps an entire run's steps in bounded memory: evenly spaced steps, and exact sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class History:
    """Rows of integers, at most `capacity`, each with an attachment.

    Every `stride`-th row is stored. When there is no room, every second one is dropped and the stride doubles, so that
    the stored rows always cover the entire run evenly. `count`, `weight`, `totals` and `largest` cover all rows; a row
    counts in the totals as often as its weight says.

    Args:
        columns: numbers in a row.
        capacity: stored rows, at least 2.
        adds_up: columns in which a stored row has the sum including the dropped rows after it. In the totals they count
            once.

    >>> history = History(1, capacity=2)
    >>> for value in range(8):
    ...     history.add((value,))
    >>> history.rows, history.stride, history.totals
    ([(0,), (4,)], 4, [28])
    """

    def __init__(self, columns: int, capacity: int = 2048, *, adds_up: tuple[int, ...] = ()) -> None:
        self.rows: list[Sequence[int]] = []
        self.attachments: list[Any] = []
        """The attachment of each row."""
        self.stride = 1
        self.count = 0
        self.weight = 0
        self.totals = [0] * columns
        self.largest = [0] * columns
        self._capacity = capacity
        self._adds_up = adds_up

    @property
    def keeps_next(self) -> bool:
        """Whether the next row will be stored, as far as can be known without it."""
        return self.count % self.stride == 0

    def thinned(self, limit: int) -> tuple[list[Sequence[int]], list[Any], int]:
        """At most `limit` of the stored rows, also evenly spaced, with their attachments and stride."""
        stride = max(1, -(-len(self.rows) // limit))
        return self._merged(stride), self.attachments[::stride], self.stride * stride

    def _merged(self, stride: int) -> list[Sequence[int]]:
        rows = self.rows[::stride]
        for column in self._adds_up if stride > 1 else ():
            for place, row in enumerate(rows):
                of_all = sum(merged[column] for merged in self.rows[place * stride : (place + 1) * stride])
                rows[place] = (*row[:column], of_all, *row[column + 1 :])
        return rows

    def add_weight(self, weight: int, *values: int) -> None:
        """Increases the weight of the last stored row, and its values in the columns that add up."""
        if not self.rows:
            return
        self.weight += weight
        for column, value in enumerate(self.rows[-1]):
            self.totals[column] += value * weight
        for column, value in zip(self._adds_up, values, strict=True):
            self.totals[column] += value - self.rows[-1][column] * weight
        self._add_to_last(values)

    def _add_to_last(self, values: Sequence[int]) -> None:
        row = list(self.rows[-1])
        for column, value in zip(self._adds_up, values, strict=True):
            row[column] += value
        self.rows[-1] = tuple(row)

    def add(self, row: Sequence[int], attachment: Any = None, weight: int = 1) -> None:
        self.weight += weight
        for column, value in enumerate(row):
            self.totals[column] += value if column in self._adds_up else value * weight
            if value > self.largest[column]:
                self.largest[column] = value
        if self.count % self.stride == 0:
            if len(self.rows) >= self._capacity:
                self.rows = self._merged(2)
                del self.attachments[1::2]
                self.stride *= 2
            if self.count % self.stride == 0:
                self.rows.append(tuple(row))
                self.attachments.append(attachment)
                self.count += 1
                return
        if self._adds_up:
            self._add_to_last([row[column] for column in self._adds_up])
        self.count += 1
