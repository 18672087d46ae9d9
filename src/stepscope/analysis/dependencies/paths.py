"""The graphs of the requested steps, and their paths: made once, for all questions that follow them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from stepscope.analysis.dependencies.builder import NodeKind
from stepscope.analysis.dependencies.graph import Graph, build
from stepscope.analysis.dependencies.named import named_pieces
from stepscope.analysis.dependencies.step_window import step_windows
from stepscope.analysis.recording import every_step
from stepscope.query.scope import Scope


def graphs_of(scope: Scope) -> list[Graph]:
    """The graph of each stretch of requested steps, or of those that count."""

    def build_all() -> list[Graph]:
        with every_step(scope) as all_steps:
            return [build(all_steps, window) for window in step_windows(scope, all_steps)]

    return scope.cached((__name__, "graphs"), build_all)


def paths_of(scope: Scope) -> list[pa.Table]:
    """The pieces of each graph's path (`named_pieces`)."""

    def find_all() -> list[pa.Table]:
        graphs = graphs_of(scope)
        with every_step(scope) as all_steps:
            return [named_pieces(all_steps, graph) for graph in graphs]

    return scope.cached((__name__, "paths"), find_all)


def lacks(graphs: Sequence[Graph], unmatched: str) -> str:
    """Says what the recordings lack, and what follows from it; `unmatched` says so for unmatched collectives."""
    notes = []
    lone = sum(graph.unmatched for graph in graphs)
    if lone:
        were = "collective was" if lone == 1 else "collectives were"
        notes.append(f"{lone} {were} not matched across ranks: {unmatched}.")
    if lacking := sum(int(((graph.kind == NodeKind.LAST_ARRIVAL) & (graph.place > 0)).sum()) for graph in graphs):
        were = "collective lacks a rank that was" if lacking == 1 else "collectives lack a rank that was"
        notes.append(
            f"{lacking} {were} not recorded, and may have come last: what of their time was a wait for it is not known."
        )
    if not all(all(graph.waits_recorded) for graph in graphs):
        notes.append(
            "Waits of streams are not all recorded (cuda_sync): what a stream or a call waited for is told by the order of "
            "calls and by what had just ended."
        )
    if left_out := max((graph.window.left_out for graph in graphs), default=0):
        notes.append(f"These are the last steps; {left_out} before them are left out.")
    if contradicting := sum(graph.contradicting for graph in graphs):
        notes.append(f"{contradicting} dependencies contradict the recorded times and are left out.")
    return " ".join(notes)
