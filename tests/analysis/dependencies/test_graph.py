"""The path through a graph is the longest of all: every one is walked and compared."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from stepscope.analysis.dependencies.builder import EdgeKind, GraphBuilder, NodeKind
from stepscope.analysis.dependencies.graph import Graph, assembled
from stepscope.analysis.dependencies.step_window import StepWindow

Edge = tuple[int, int, int, bool]


def window(start: int, end: int) -> StepWindow:
    return StepWindow(0, (0,), (0,), start, end, (start,), (end,), start, end + 1, None, 0)


def graph_of(times: list[int], durations: list[int], edges: list[Edge], start: int = -1) -> Graph:
    """A graph of (source, target, lag, over); done at the latest end of all."""
    builder = GraphBuilder()
    nodes = builder.nodes(NodeKind.WORK, 0, np.array(times), np.arange(len(times)), np.array(durations))
    for source, target, lag, over in edges:
        builder.edges(EdgeKind.THREAD, np.array([source]), np.array([target]), lag, over=over)
    end = max(t + d for t, d in zip(times, durations, strict=True))
    return assembled(builder, window(start, end), nodes)


@st.composite
def graphs(draw: Any) -> Graph:
    count = draw(st.integers(2, 9))
    times = draw(st.lists(st.integers(0, 30), min_size=count, max_size=count))
    durations = draw(st.lists(st.integers(0, 6), min_size=count, max_size=count))
    edges: list[Edge] = []
    for target in range(count):
        for source in range(count):
            over = draw(st.booleans())
            room = times[target] - times[source] - (durations[source] if over else 0)
            if source == target or times[source] > times[target] or not draw(st.booleans()):
                continue
            if times[source] == times[target] and source > target:
                continue  # the order of moments of one time is that of their numbers
            edges.append((source, target, room - draw(st.integers(0, 5)), over))
    return graph_of(times, durations, edges)


def lengths(graph: Graph, node: int) -> list[int]:
    """When `node` would be by each of the ways that lead to it, from when the first moment of each was."""
    before = [edge for edge in range(len(graph.source)) if graph.target[edge] == node]
    if not before:
        return [int(graph.time[node])]
    found = []
    for edge in before:
        source = int(graph.source[edge])
        takes = int(graph.lag[edge] + graph.slack[node])
        takes += int(graph.duration[source]) if graph.over[edge] else 0
        found += [length + takes for length in lengths(graph, source)]
    return found


@given(graph=graphs())
@examples(150)
def test_no_way_through_the_graph_is_longer(graph: Graph) -> None:
    assert graph.contradicting == 0
    assert (graph.source < graph.target).all()
    path = graph.path()
    assert int(graph.done[graph.end]) == int(graph.done[graph.ends].max())
    node = graph.end
    assert max(lengths(graph, node)) == int(graph.time[node])
    for edge in path[::-1].tolist():
        assert int(graph.target[edge]) == node
        source = int(graph.source[edge])
        explained = graph.time[source] + graph.lag[edge] + graph.slack[node]
        explained += graph.duration[source] if graph.over[edge] else 0
        assert explained == graph.time[node]  # nothing that comes before it is later
        node = source
    assert not (graph.target == node).any()


def test_what_leads_back_in_time_is_left_out_and_counted() -> None:
    graph = graph_of([0, 10], [5, 5], [(0, 1, 5, True), (1, 0, 0, False)])
    assert graph.contradicting == 1
    assert graph.path().tolist() == [0]


def test_a_circle_of_one_moment_ends() -> None:
    graph = graph_of([0, 5, 5], [5, 0, 0], [(0, 1, 0, True), (1, 2, 0, False), (2, 1, 0, False)])
    assert graph.contradicting >= 1
    assert (graph.source < graph.target).all()


def test_an_empty_stretch_has_no_path() -> None:
    builder = GraphBuilder()
    none = np.zeros(0, np.int64)
    builder.nodes(NodeKind.HOST, 0, none, none)
    builder.edges(EdgeKind.THREAD, none, none, 0)
    graph = assembled(builder, window(0, 1), none)
    assert (graph.end, graph.path().tolist()) == (-1, [])
