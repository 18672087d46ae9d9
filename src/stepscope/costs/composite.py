"""Operators that call other operators with a model of their own: `aten::linear` calls `aten::addmm`, which did the work
once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def answering(
    parent: npt.NDArray[np.int64], modelled: npt.NDArray[np.bool_], composite: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """Finds for each row the innermost row with a model that it is or lies within; -1 if there is none.

    A composite only counts if nothing within it has a model.

    Args:
        parent: index of the enclosing row, -1 for none; in any order.
        modelled: whether the row's work can be counted; false for views.
        composite: whether its operator calls other operators (`work.Model.composites`).

    >>> linear, addmm, copy = 0, 1, 2
    >>> parent = np.array([-1, linear, addmm])
    >>> answering(parent, np.array([True, True, False]), np.array([True, False, False])).tolist()
    [-1, 1, 1]
    """
    counts = modelled & ~(composite & _encloses(parent, modelled))
    owner = np.where(counts, np.arange(len(parent)), -1)
    above = np.where(counts, -1, parent)
    # Each round doubles the distance searched upwards, so 64 rounds reach any depth.
    for _round in range(64):
        pending = np.flatnonzero(above >= 0)
        if not pending.size:
            break
        step = above[pending]
        answer = owner[step]
        further = above[step]
        owner[pending] = answer
        above[pending] = np.where(answer >= 0, -1, further)
    return owner


def _encloses(parent: npt.NDArray[np.int64], modelled: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    result = np.zeros(len(parent), dtype=bool)
    frontier = np.flatnonzero(modelled)
    while frontier.size:
        frontier = np.unique(parent[frontier])
        frontier = frontier[frontier >= 0]
        frontier = frontier[~result[frontier]]
        result[frontier] = True
    return result
