"""The graphs of the requested steps and their critical paths: pieces with rank, step, kind, operator and module."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from stepscope.analysis.dependencies.builder import NodeKind
from stepscope.analysis.dependencies.events import NO_STEP, places
from stepscope.analysis.dependencies.graph import Graph, build
from stepscope.analysis.dependencies.parts import COMPUTATION, KINDS, Pieces, pieces_of
from stepscope.analysis.dependencies.step_window import step_windows
from stepscope.analysis.operators.work import classes_of_events
from stepscope.analysis.recording import Array, Columns, every_step, once
from stepscope.costs import CLASSES
from stepscope.query.scope import Scope

PIECES = pa.schema(
    [
        ("span", pa.int64()),
        ("rank", pa.int64()),
        ("step", pa.int64()),
        ("start_ns", pa.int64()),
        ("dur_ns", pa.int64()),
        *((name, pa.string()) for name in ("kind", "class", "name", "operator", "module")),
    ]
)
"""Columns of the pieces of paths."""

_OF_HOST = """
    SELECT id, event.name, event.thread, CASE WHEN event.kind = 'operator' THEN event.name WHEN around.kind = 'operator'
        THEN around.name END AS operator, module.path AS module
    FROM (SELECT * FROM host_event WHERE rank = $rank AND span = $span AND id IN (SELECT id FROM path.host)) AS event
    LEFT JOIN (SELECT id AS parent_id, name, kind FROM host_event WHERE rank = $rank AND span = $span) AS around
        USING (parent_id)
    LEFT JOIN (SELECT module_id, path FROM module WHERE rank = $rank AND span = $span) AS module USING (module_id)
"""
_OF_WORK = """
    SELECT id, work.name, operator_name AS operator, module.path AS module
    FROM (SELECT * FROM device_event WHERE rank = $rank AND span = $span AND id IN (SELECT id FROM path.work)) AS work
    LEFT JOIN (SELECT module_id, path FROM module WHERE rank = $rank AND span = $span) AS module USING (module_id)
"""


@once
def graphs_of(scope: Scope) -> list[Graph]:
    """The graph of each window of requested steps, or of those that count."""
    with every_step(scope) as all_steps:
        return [build(all_steps, window) for window in step_windows(scope, all_steps)]


@once
def paths_of(scope: Scope) -> list[pa.Table]:
    """The pieces of each graph's path (`named_pieces`)."""
    with every_step(scope) as all_steps:
        return [named_pieces(all_steps, graph) for graph in graphs_of(scope)]


def named_pieces(scope: Scope, graph: Graph) -> pa.Table:
    """A row for each piece of a graph's path by time, cut at step ends, with the columns of `PIECES`; `rank` is NULL if
    unknown, `step` between steps."""
    pieces = _cut(pieces_of(scope, graph), graph)
    window = graph.window
    step = np.searchsorted(np.array(window.ends), pieces.start, side="right")
    before = pieces.start < np.array([*window.starts, np.iinfo(np.int64).max])[step]
    numbers = np.array([*window.steps, NO_STEP])[step]
    count = len(pieces.start)
    labels: dict[str, Array] = {name: np.full(count, None, object) for name in ("name", "operator", "module")}
    class_of = np.full(count, None, object)
    for number, events in enumerate(graph.recordings):
        local = pieces.recording == number
        if not local.any():
            continue
        key = {"rank": events.rank, "span": events.span}
        tables = {
            "host": pa.table({"id": np.unique(pieces.host[local])}),
            "work": pa.table({"id": np.unique(pieces.work[local])}),
        }
        computes = np.flatnonzero(local & (pieces.kind == COMPUTATION))
        with scope.of_rank(events.rank, all_times=True) as rank, rank.with_temp_tables("path", tables):
            labelled = (rank.sql(_OF_HOST, key), rank.sql(_OF_WORK, key))
        if len(computes):
            ids_of_work, classes = classes_of_events(scope, events.rank)
            at = places(ids_of_work, pieces.work[computes])
            class_of[computes] = np.array(CLASSES, object)[classes[at]]
        for ids, rows in zip((pieces.host, pieces.work), labelled, strict=True):
            mine = np.flatnonzero(local & (ids >= 0))
            at = places(rows.column("id").to_numpy(), ids[mine])
            for name, values in labels.items():
                values[mine] = rows.column(name).to_numpy()[at]
    ranks = np.array([events.rank for events in graph.recordings] + [-1])[pieces.recording]
    return pa.table(
        {
            "span": np.full(count, window.span),
            "rank": pa.array(ranks, pa.int64(), mask=ranks < 0),
            "step": pa.array(numbers, pa.int64(), mask=before | (numbers == NO_STEP)),
            "start_ns": pieces.start,
            "dur_ns": pieces.length,
            "kind": pa.array(np.array(KINDS, object)[pieces.kind], pa.string()),
            "class": pa.array(class_of, pa.string()),
            **{name: pa.array(values, pa.string()) for name, values in labels.items()},
        },
        PIECES,
    )


def _cut(pieces: Pieces, graph: Graph) -> Pieces:
    edges = np.unique([*graph.window.starts, *graph.window.ends])
    edges = edges[(edges > graph.window.start) & (edges < graph.window.end)]
    within = np.searchsorted(pieces.end, edges, side="right")
    cuts = pieces.start[np.minimum(within, len(pieces.start) - 1)] < edges
    within, edges = within[cuts], edges[cuts]
    columns: Columns = {
        name: np.insert(getattr(pieces, name), within, getattr(pieces, name)[within]) for name in Pieces.__slots__
    }
    first = within + np.arange(len(within))
    columns["end"][first] = edges
    columns["start"][first + 1] = edges
    return Pieces(**columns)


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
