"""Orders rows that have parents as a tree is read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stepscope.analysis.recording import Array


def parents_first(parents: Sequence[int]) -> list[int]:
    """Orders rows so that each precedes its children, which keep their order; a root's parent is -1.

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
    """Lists rows of a tree: each below its parent, siblings in the order of `order`. Returns the rows and each parent's
    position, -1 if not listed."""
    place = np.full(len(parents) + 1, -1)
    place[order] = np.arange(len(order))
    rows = order[parents_first(place[parents[order]].tolist())]
    place[rows] = np.arange(len(rows))
    above: list[int] = place[parents[rows]].tolist()
    return rows, above
