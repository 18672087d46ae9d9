"""Replays a graph with other durations and lags.

A moment with one dependency follows it at the edge's lag, so only the others are computed one by one. Moments that
depend only on the previous one form a *path*: its first moment, the *head*, decides, and the rest is a running sum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.analysis.dependencies.builder import EdgeKind
from stepscope.analysis.dependencies.graph import Graph
from stepscope.analysis.recording import NEVER, Array
from stepscope.link.intervals import expanded

_DROPPABLE = (EdgeKind.ARRIVAL, EdgeKind.LOADER)
"""Edges that a change may drop: a moment that depends only on such an edge has no running sum."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The order of a replay, independent of durations.

    Args:
        fixed: moments that do not move: before the window, or without edges.
        edge: the edge to each moment within a path; -1 for a head.
        order: all moments, path by path.
        start: position of each one's head in that order.
        at: index of the value of each moment's head; 0 for fixed ones.
        first, second: the two values that each value is the later of.
        of_first, of_second: the edges from these; -1 for the value before, -2 for the recorded time.
        moment: the moment of each value.
        last: whether a value is the final one of its moment.
    """

    graph: Graph
    fixed: Array
    edge: Array
    order: Array
    start: Array
    at: Array
    first: list[int]
    second: list[int]
    of_first: Array
    of_second: Array
    moment: Array
    last: Array

    @classmethod
    def of(cls, graph: Graph, pinned: Array) -> Plan:
        """Plans a graph's replay; `pinned` moments come no earlier than recorded."""
        count = len(graph.time)
        edges = np.diff(graph.first)
        fixed = (graph.time < graph.window.since) | (edges == 0)
        edge = np.full(count, -1, np.int64)
        single = np.flatnonzero(~fixed & (edges == 1) & ~pinned)
        leads = graph.first[single]
        follows = ~fixed[graph.source[leads]] & ~np.isin(graph.edge_kind[leads], _DROPPABLE)
        single, leads = single[follows], leads[follows]
        # Of the moments that depend only on the same one, one continues in its path.
        first_of_source = np.unique(graph.source[leads], return_index=True)[1]
        edge[single[first_of_source]] = leads[first_of_source]
        head = np.arange(count)
        head[single[first_of_source]] = graph.source[leads[first_of_source]]
        while not np.array_equal(further := head[head], head):
            head = further
        order = np.argsort(head, kind="stable")
        place = np.empty(count, np.int64)
        place[order] = np.arange(count)
        heads = np.flatnonzero(~fixed & (edge < 0))
        # Each head's edges, and the recorded time if it is held.
        number = edges[heads] + pinned[heads]
        values = np.maximum(number - 1, 1)
        of_head, nth = expanded(np.zeros_like(values), values)
        moment = heads[of_head]
        final = np.cumsum(values)  # the value before the first is 0
        at = np.zeros(count, np.int64)
        at[heads] = final
        at = np.where(fixed, 0, at[head])

        def leading(nth_edge: Array) -> Array:
            edge_at = graph.first[moment] + nth_edge
            return np.where(nth_edge < edges[moment], edge_at, -2)

        of_first = np.where(nth == 0, leading(np.zeros_like(nth)), -1)
        of_second = leading(np.minimum(nth + 1, number[of_head] - 1))

        def values_of(of: Array) -> list[int]:
            before = np.arange(len(of))
            led = np.where(of >= 0, at[graph.source[np.maximum(of, 0)]], 0) if len(graph.source) else 0
            return np.where(of == -1, before, led).tolist()

        last = np.zeros(len(moment), bool)
        last[final - 1] = True
        return cls(
            graph, fixed, edge, order, place[head][order], at, values_of(of_first), values_of(of_second),
            of_first, of_second, moment, last,
        )  # fmt: skip

    def run(self, duration: Array, lag: Array, dropped: Array | None = None) -> Array:
        """Computes when each moment would be (ns), without `dropped` edges."""
        graph = self.graph
        weight = lag + np.where(graph.over, duration[graph.source], 0)
        if dropped is not None:
            weight = np.where(dropped, NEVER // 2, weight)
        if not len(weight):
            return self.graph.time
        steps = np.where(self.edge >= 0, weight[self.edge] + graph.slack, 0)
        sums = np.cumsum(steps[self.order])
        after = np.empty_like(sums)
        after[self.order] = sums - sums[self.start]
        after = np.where(self.fixed, graph.time, after)
        slack = np.where(self.last, graph.slack[self.moment], 0)

        def later(of: Array) -> list[int]:
            edge = np.maximum(of, 0)
            added_ns = np.where(of >= 0, weight[edge] + after[graph.source[edge]], 0) + slack
            return np.where(of == -2, graph.time[self.moment], added_ns).tolist()

        values = [0]
        append = values.append
        for a, x, b, y in zip(self.first, later(self.of_first), self.second, later(self.of_second), strict=True):
            left, right = values[a] + x, values[b] + y
            append(left if left > right else right)
        return np.array(values, np.int64)[self.at] + after
