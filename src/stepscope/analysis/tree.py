"""Rows that have parents, in the order in which a tree is read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stepscope.analysis.recording import Array


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


def listed(order: Array, parents: Array) -> tuple[Array, list[int]]:
    """Rows of a tree as they are listed: each below its parent, and siblings as they were ordered.

    Args:
        order: the rows that are listed.
        parents: the row above each row of the tree, or -1.

    Returns:
        The rows, and for each the place in them of the row above; -1 where that is not listed.
    """
    place = np.full(len(parents) + 1, -1)
    place[order] = np.arange(len(order))
    rows = order[parents_first(place[parents[order]].tolist())]
    place[rows] = np.arange(len(rows))
    above: list[int] = place[parents[rows]].tolist()
    return rows, above
