"""Rows that have parents, in the order in which a tree is read."""

from __future__ import annotations

from collections.abc import Sequence


def parents_first(parents: Sequence[int]) -> list[int]:
    """Rows by their parents (-1 at a root): each before its parts, and these in their order.

    >>> parents_first([2, -1, -1, 2])
    [1, 2, 0, 3]
    """
    parts: list[list[int]] = [[] for _ in parents]
    roots: list[int] = []
    for row, parent in enumerate(parents):
        (parts[parent] if parent >= 0 else roots).append(row)
    order, waiting = [], roots[::-1]
    while waiting:
        order.append(waiting.pop())
        waiting += reversed(parts[order[-1]])
    return order
