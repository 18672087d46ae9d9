"""Operators and ranges inside another one with their name, which a total must not count twice.

A call's total includes what it calls. If `aten::to` calls `aten::to`, adding both totals counts the inner one twice;
adding only those of the outermost calls counts it once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.formats.nesting import climb
from stepscope.link.columns import words
from stepscope.link.host import ANNOTATION, NOWHERE, OPERATOR, Host
from stepscope.schema.arrays import Int32s

NO_KEY = -1


def find_recursion(host: Host) -> NDArray[np.bool_]:
    """For each position, whether it is an operator or a range within another of its kind and name, at any
    distance."""
    if not len(host):
        return np.zeros(0, dtype=np.bool_)
    is_operator = host.kind == OPERATOR
    chosen = is_operator | (host.kind == ANNOTATION)
    name, names = words(host.table, "name")
    key = np.where(chosen, name[host.nesting.row] * 2 + is_operator, NO_KEY)
    key[~_at_several_depths(key, host.nesting.depth, 2 * len(names))[key]] = NO_KEY
    # Frames and runtime calls are skipped: a stack may be deep, and each of its levels costs a step.
    nearest = np.where(key >= 0, np.arange(len(host), dtype=np.int32), np.int32(NOWHERE))
    host.nesting.inherit(nearest)
    parent = host.nesting.parent
    above = np.where(parent >= 0, nearest[parent], np.int32(NOWHERE))
    return inside_same_key(above, key, key >= 0)


def _at_several_depths(key: Int32s, depth: NDArray[Any], keys: int) -> NDArray[np.bool_]:
    """For each key, and for none at the end, whether its events are at more than one depth: only
    those can enclose one another."""
    has = key >= 0
    min_depth = np.full(keys + 1, np.iinfo(depth.dtype).max, dtype=depth.dtype)
    max_depth = np.zeros(keys + 1, dtype=depth.dtype)
    np.minimum.at(min_depth, key[has], depth[has])
    np.maximum.at(max_depth, key[has], depth[has])
    return max_depth > min_depth


def inside_same_key(
    above: NDArray[np.integer[Any]], key: NDArray[np.integer[Any]], chosen: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Which of the chosen rows have one with the same key above them."""
    at = np.where(chosen, above, -1).astype(np.int32)
    return climb(at, above, lambda which, at: key[at] == key[which]) >= 0
