"""Operators that call other operators, which the recording shows below them.

`aten::linear` calls `aten::addmm`; both appear in a trace and both have a model, but the work was done
once. A sum of work must count the innermost operator that has a model and skip the enclosing ones:
`answering` finds that operator for each row.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def answering(
    parent: npt.NDArray[np.int64], modelled: npt.NDArray[np.bool_], composite: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """Find for each row the innermost row with a model that it is or lies within.

    A composite only counts if nothing within it has a model: otherwise its work, which is that
    of its parts, would count twice.

    Args:
        parent: for each row, the index of the row that encloses it, -1 for none. A parent may
            be anywhere, but the rows must form a forest.
        modelled: whether the row's work can be counted; false for views, which have none.
        composite: whether the row's operator calls other operators (`work.Model.composites`).

    Returns:
        For each row, the index of the row whose work explains its device time, -1 if there is none.

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
    """Whether a row with a model lies within each row."""
    result = np.zeros(len(parent), dtype=bool)
    frontier = np.flatnonzero(modelled)
    while frontier.size:
        frontier = np.unique(parent[frontier])
        frontier = frontier[frontier >= 0]
        frontier = frontier[~result[frontier]]
        result[frontier] = True
    return result
