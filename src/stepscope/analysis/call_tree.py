"""Merges calls by their chain of callers: top down, or bottom up from each function."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.analysis.recording import Array
from stepscope.formats.nesting import Forest


@dataclass(frozen=True, slots=True)
class CallTree:
    """The nodes of a tree of calls, parents first."""

    parent: Array
    code: Array
    self_values: Array

    @property
    def totals(self) -> Array:
        """The values of each node with those of all nodes below."""
        forest = Forest.of(self.parent)
        columns = [forest.sum_up(values.copy()) for values in self.self_values.T]
        return np.stack(columns, axis=1) if columns else self.self_values

    @property
    def depth(self) -> Array:
        """The number of nodes above each."""
        depth = np.zeros(len(self.parent), dtype=np.int64)
        for here in Forest.of(self.parent).layers()[1:]:
            depth[here] = depth[self.parent[here]] + 1
        return depth


def call_tree(parent: Array, code: Array, values: Array) -> CallTree:
    """Merges calls whose names, and those of all their callers, are equal.

    Args:
        parent: each call's caller, or -1; in any order.
        code: what is called, from 0.
        values: a row per call, which are added up.
    """
    kinds = int(code.max(initial=0)) + 1
    place = np.full(len(parent), -1, dtype=np.int64)
    parents, codes, count = [], [], 0
    for here in Forest.of(parent).layers() if len(parent) else ():
        above = np.where(parent[here] >= 0, place[parent[here]], -1)
        distinct, which = np.unique((above + 1) * kinds + code[here], return_inverse=True)
        place[here] = count + which
        parents.append(distinct // kinds - 1)
        codes.append(distinct % kinds)
        count += len(distinct)
    return CallTree(_joined(parents), _joined(codes), added(place, values, count))


def call_tree_of_stacks(frames: Array, lengths: Array, sampled: Array) -> CallTree:
    """Builds the tree of sampled stacks.

    Args:
        frames: the frames' numbers from 0, stack after stack, the innermost first.
        lengths: frames of each stack, at least one.
        sampled: a row of values per stack.
    """
    ends = np.cumsum(lengths)
    above = np.arange(1, len(frames) + 1)
    above[ends - 1] = -1
    values = np.zeros((len(frames), sampled.shape[1]), np.int64)
    values[ends - lengths] = sampled
    return call_tree(above, frames, values)


def regrouped(tree: CallTree, groups: Array) -> CallTree:
    """Merges nodes whose groups, and those of all nodes above, are equal; `groups` has the group of each code."""
    return call_tree(tree.parent, groups[tree.code], tree.self_values)


def outermost(tree: CallTree) -> Array:
    """Mask of the nodes without the same code above them: their totals add up despite recursion."""
    first = np.ones(len(tree.parent), dtype=bool)
    at = tree.parent.copy()
    while (open_nodes := (at >= 0) & first).any():
        first[open_nodes] = tree.code[at[open_nodes]] != tree.code[open_nodes]
        at[open_nodes] = tree.parent[at[open_nodes]]
    return first


def from_below(tree: CallTree) -> CallTree:
    """Turns the tree upside down: functions at the top, their callers below. A node's values are those of chains that
    end there."""
    kinds = int(tree.code.max(initial=0)) + 1
    at, remaining = np.arange(len(tree.parent)), tree.self_values
    below = np.full(len(at), -1, dtype=np.int64)
    parents, codes, values, count = [], [], [], 0
    while len(at):
        distinct, which = np.unique((below + 1) * kinds + tree.code[at], return_inverse=True)
        ends = tree.parent[at] < 0
        parents.append(distinct // kinds - 1)
        codes.append(distinct % kinds)
        values.append(added(which[ends], remaining[ends], len(distinct)))
        goes = ~ends
        below, remaining, at = count + which[goes], remaining[goes], tree.parent[at[goes]]
        count += len(distinct)
    empty = np.zeros((0, tree.self_values.shape[1]), dtype=np.int64)
    return CallTree(_joined(parents), _joined(codes), np.concatenate([empty, *values]))


def heaviest(weights: Array, depth: Array, limit: int) -> Array:
    """Mask of the `limit` largest weights; ancestors are among them, since no weight exceeds its parent's."""
    chosen = np.zeros(len(weights), dtype=bool)
    chosen[np.lexsort((depth, -weights))[:limit]] = True
    return chosen


def _joined(parts: list[Array]) -> Array:
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts])


def added(place: Array, values: Array, count: int) -> Array:
    """Adds up the rows of values that go to each of `count` nodes."""
    sums = np.zeros((count, values.shape[1]), dtype=np.int64)
    np.add.at(sums, place, values)
    return sums
