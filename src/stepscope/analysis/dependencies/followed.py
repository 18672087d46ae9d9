"""The graphs of the requested steps, and their paths: made once, for all questions that follow them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from stepscope.analysis.dependencies.graph import Graph, build
from stepscope.analysis.dependencies.named import named_pieces
from stepscope.analysis.dependencies.net import MEETING
from stepscope.analysis.dependencies.stretch import stretches
from stepscope.analysis.recording import every_step
from stepscope.query.scope import Scope


def graphs_of(scope: Scope) -> list[Graph]:
    """The graph of each stretch of requested steps, or of those that count."""

    def made() -> list[Graph]:
        with every_step(scope) as whole:
            return [build(whole, stretch) for stretch in stretches(scope, whole)]

    return scope.once((__name__, "graphs"), made)


def paths_of(scope: Scope) -> list[pa.Table]:
    """The pieces of each graph's path (`named_pieces`)."""

    def made() -> list[pa.Table]:
        graphs = graphs_of(scope)
        with every_step(scope) as whole:
            return [named_pieces(whole, graph) for graph in graphs]

    return scope.once((__name__, "paths"), made)


def lacks(graphs: Sequence[Graph], unmatched: str) -> str:
    """Says what the recordings lack, and what follows from it.

    Args:
        unmatched: what follows if collectives were not matched across ranks.
    """
    notes = []
    alone = sum(graph.unmatched for graph in graphs)
    if alone:
        were = "collective was" if alone == 1 else "collectives were"
        notes.append(f"{alone} {were} not matched across ranks: {unmatched}.")
    if lacking := sum(int(((graph.kind == MEETING) & (graph.place > 0)).sum()) for graph in graphs):
        were = "collective lacks a rank that was" if lacking == 1 else "collectives lack a rank that was"
        notes.append(
            f"{lacking} {were} not recorded, and may have come last: what of their time was a wait for it is not known."
        )
    if not all(all(graph.waits_recorded) for graph in graphs):
        notes.append(
            "Waits of streams are not all recorded (cuda_sync): what a stream or a call waited for is told by the order of "
            "calls and by what had just ended."
        )
    if left_out := max((graph.stretch.left_out for graph in graphs), default=0):
        notes.append(f"These are the last steps; {left_out} before them are left out.")
    if contradicting := sum(graph.contradicting for graph in graphs):
        notes.append(f"{contradicting} dependencies contradict the recorded times and are left out.")
    return " ".join(notes)
