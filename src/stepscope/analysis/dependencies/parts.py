"""Names what lies on a path: each moment is work, a wait, or unrecorded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.analysis.dependencies.builder import EdgeKind, NodeKind
from stepscope.analysis.dependencies.device import waited_copies
from stepscope.analysis.dependencies.events import Events, places
from stepscope.analysis.dependencies.graph import Graph
from stepscope.analysis.recording import Array, Columns
from stepscope.analysis.steps.gaps import COMMUNICATES, KERNEL_WAIT_NS, WAITS_FOR_DEVICE
from stepscope.link.intervals import expanded
from stepscope.query.scope import Scope

KINDS = (
    "operator", "between operators", "input wait", "runtime call", "launch", "launch delay", "computation", "transfer",
    "waiting for a rank", "communication", "copy", "synchronization", "kernel gap", "profiler", "unexplained",
)  # fmt: skip
(
    OPERATOR, BETWEEN, INPUT, RUNTIME, LAUNCH, LAUNCH_DELAY, COMPUTATION, MOVING_DATA, WAITING, COMMUNICATION, COPY,
    SYNCHRONIZATION, KERNEL_GAP, PROFILER, UNEXPLAINED,
) = range(len(KINDS))  # fmt: skip

_OF_HOST = (EdgeKind.THREAD, EdgeKind.WAKE, EdgeKind.SYNC, EdgeKind.QUEUE)
"""Edges whose time belongs to a thread: what the thread did names it."""
_OF_STREAM = (EdgeKind.STREAM, EdgeKind.EVENT_WAIT, EdgeKind.INFERRED_WAIT)


@dataclass(frozen=True, slots=True)
class Pieces:
    """The pieces of a path, in order; they fill the window.

    Args:
        kind: index in `KINDS`.
        recording: index in the graph's recordings; -1 if no rank is known.
        host, work: ids of the running host and device event; -1 for none.
        thread: thread of the host; -1 for others.
    """

    start: Array
    end: Array
    kind: Array
    recording: Array
    host: Array
    work: Array
    thread: Array

    @property
    def length(self) -> Array:
        """Durations (ns)."""
        return self.end - self.start


def pieces_of(scope: Scope, graph: Graph) -> Pieces:
    """Finds what lies on the critical path; `scope` has all events of the graph's ranks."""
    start, end, kind, recording, place = _raw(graph)
    start, end = (np.clip(edge, graph.window.start, graph.window.end) for edge in (start, end))
    full = start < end
    start, end, kind, recording, place = (column[full] for column in (start, end, kind, recording, place))
    order = np.argsort(start, kind="stable")
    start, end, kind, recording, place = (column[order] for column in (start, end, kind, recording, place))
    pieces = []
    for number, events in enumerate(graph.recordings):
        local = recording == number
        if not local.any():
            continue
        threads, loads = local & (kind == _THREAD), local & (kind == INPUT)
        moved, both = local & (kind == _ON_HOST), local & (kind == _AMBIGUOUS_ON_HOST)
        rows = local & ~threads & ~loads & ~moved & ~both
        pieces.append(_columns(start[loads], end[loads], INPUT, number))
        for on_host, sort in ((moved, MOVING_DATA), (both, COMMUNICATION)):
            pieces.append(_columns(start[on_host], end[on_host], sort, number, host=place[on_host]))
        with scope.of_rank(events.rank, all_times=True) as rank:
            pieces += _of_work(rank, events, number, start[rows], end[rows], kind[rows], place[rows])
            for thread in np.unique(place[threads]).tolist():
                rows = threads & (place == thread)
                pieces.append(_on_thread(rank, graph, number, thread, start[rows], end[rows]))
    lost = recording < 0
    pieces.append(_columns(start[lost], end[lost], kind[lost], -1))
    columns = {name: np.concatenate([columns_of[name] for columns_of in pieces]) for name in pieces[0]}
    order = np.argsort(columns["start"], kind="stable")
    return Pieces(**{name: values[order] for name, values in columns.items()})


def _columns(
    start: Array, end: Array, kind: Array | int, recording: int, *, host: Array | int = -1, work: Array | int = -1,
    thread: int = -1,
) -> Columns:  # fmt: skip
    count = len(start)
    full = {"kind": kind, "recording": recording, "host": host, "work": work, "thread": thread}
    return {"start": start, "end": end} | {
        name: np.broadcast_to(np.asarray(value, np.int64), count) for name, value in full.items()
    }


_THREAD, _OF_KERNEL, _ON_HOST, _AMBIGUOUS_ON_HOST = -1, -2, -3, -4


def _raw(graph: Graph) -> tuple[Array, Array, Array, Array, Array]:
    """Start, end, kind, recording and place of the pieces: the place is a thread (kind _THREAD), a host event's id
    (_ON_HOST, or _AMBIGUOUS_ON_HOST if part may be a wait for an unrecorded rank), else a row of the work."""
    path, window = graph.path(), graph.window
    source, target, edge_kind = graph.source[path], graph.target[path], graph.edge_kind[path]
    started, finish = graph.time[source], graph.time[target]
    pieces: list[tuple[Array, Array, Array, Array, Array]] = []

    def add(rows: Array, start: Array, end: Array, kind: Array | int, node: Array, place: Array) -> None:
        kinds = np.broadcast_to(np.asarray(kind, np.int64), len(rows))
        pieces.append((start, end, kinds, graph.recording[node], place))

    worked = np.flatnonzero(graph.over[path])
    run = np.minimum(graph.done[source[worked]], finish[worked])
    add(worked, started[worked], run, _OF_KERNEL, source[worked], graph.place[source[worked]])
    remaining = started.copy()
    remaining[worked] = run
    for reasons, sort in ((_OF_HOST, _THREAD), ((EdgeKind.LOADER,), INPUT)):
        rows = np.flatnonzero(np.isin(edge_kind, reasons))
        add(rows, remaining[rows], finish[rows], sort, target[rows], _thread_of(graph, source[rows], target[rows]))
    rows = np.flatnonzero(edge_kind == EdgeKind.LAUNCH)
    returned = np.minimum(_call_end(graph, target[rows]), finish[rows])
    add(rows, started[rows], returned, _THREAD, source[rows], graph.place[source[rows]])
    slow = graph.slack[target[rows]] >= KERNEL_WAIT_NS
    usual = np.where(slow, np.maximum(returned, finish[rows] - graph.slack[target[rows]]), finish[rows])
    add(rows, returned, usual, LAUNCH_DELAY, target[rows], graph.place[target[rows]])
    add(rows, usual, finish[rows], UNEXPLAINED, target[rows], graph.place[target[rows]])
    rows = np.flatnonzero(np.isin(edge_kind, _OF_STREAM))
    short = finish[rows] - remaining[rows] < KERNEL_WAIT_NS
    kind = np.where(short, KERNEL_GAP, UNEXPLAINED)
    add(rows, remaining[rows], finish[rows], kind, target[rows], graph.place[target[rows]])
    lacking = graph.lacking
    for reason, other in (
        (EdgeKind.TRANSFER, MOVING_DATA),
        (EdgeKind.LOCAL, MOVING_DATA),
        (EdgeKind.ARRIVAL, UNEXPLAINED),
    ):
        rows = np.flatnonzero(edge_kind == reason)
        node = source[rows] if reason == EdgeKind.ARRIVAL else target[rows]
        on_host, ambiguous = graph.kind[node] == NodeKind.HOST, lacking[node]
        place = np.where(on_host, _exchange(graph, node), graph.place[node])
        together = np.where(on_host, _AMBIGUOUS_ON_HOST, COMMUNICATION)
        sorts = np.where(ambiguous, together, np.where(on_host, _ON_HOST, other))
        add(rows, started[rows], finish[rows], sorts, node, place)
    last = np.array([graph.end] if graph.end >= 0 else [], np.int64)
    add(last, graph.time[last], graph.done[last], _OF_KERNEL, last, graph.place[last])
    first = int(graph.time[source[0]] if len(path) else graph.time[last[0]] if len(last) else window.end)
    until = int(graph.done[last[0]]) if len(last) else window.end
    edges = np.array([[window.start, first], [until, window.end]])
    nowhere = np.full(2, -1)
    pieces.append((edges[:, 0], edges[:, 1], np.full(2, UNEXPLAINED), nowhere, nowhere))
    start, end, kinds, recording, place = (np.concatenate(column) for column in zip(*pieces, strict=True))
    return start, end, kinds, recording, place


def _thread_of(graph: Graph, source: Array, target: Array) -> Array:
    """If one thread waited for another, the piece belongs to the training loop, if that is one of them."""
    main = np.array([-1 if events.main is None else events.main for events in graph.recordings], np.int64)
    before = graph.place[source]
    host = graph.kind[source] == graph.kind[target]
    return np.where(host & (before == main[graph.recording[source]]), before, graph.place[target])


def _exchange(graph: Graph, node: Array) -> Array:
    """The id of the host's collective that runs on each node's thread at that moment; -1 for none."""
    result = np.full(len(node), -1, np.int64)
    for number, events in enumerate(graph.recordings):
        exchanges = events.exchanges
        for at in np.flatnonzero((graph.recording[node] == number) & (graph.kind[node] == NodeKind.HOST)).tolist():
            time = graph.time[node[at]]
            running = np.flatnonzero(
                (exchanges["thread"] == graph.place[node[at]])
                & (exchanges["start_ns"] <= time)
                & (time <= exchanges["end_ns"])
            )
            result[at] = exchanges["id"][running[-1]] if len(running) else -1
    return result


def _call_end(graph: Graph, node: Array) -> Array:
    result = np.zeros(len(node), np.int64)
    for number, events in enumerate(graph.recordings):
        local = graph.recording[node] == number
        result[local] = events.calls["end_ns"][events.work["call"][graph.place[node[local]]]]
    return result


_WAITED = """
    SELECT id, coalesce(wait_ns, 0) AS wait_ns, wait_ns IS NOT NULL AS known FROM collective
    WHERE rank = $rank AND span = $span AND id IS NOT NULL
"""


def _of_work(
    scope: Scope, events: Events, number: int, start: Array, end: Array, kind: Array, place: Array
) -> list[Columns]:
    """Pieces of a rank's device work and the delays before it; waits that the graph does not show come from
    `collective`."""
    work = events.work
    ids = work["id"][place]
    runs = kind == _OF_KERNEL
    talks, moves = work["communicates"][place], work["moves"][place]
    kind = np.where(runs, np.where(talks, COMMUNICATION, np.where(moves, COPY, COMPUTATION)), kind)
    talking = np.flatnonzero(runs & talks)
    if not len(talking):
        return [_columns(start, end, kind, number, work=ids)]
    waited = scope.numpy(_WAITED, {"rank": events.rank, "span": events.span})
    row = places(waited["id"], ids[talking])
    has_wait = (row >= 0) & waited["known"][row] if len(waited["id"]) else np.zeros(len(row), bool)
    measured, row = talking[has_wait], row[has_wait]
    arrived = np.clip(work["start_ns"][place[measured]] + waited["wait_ns"][row], start[measured], end[measured])
    waits = _columns(start[measured], arrived, WAITING, number, work=ids[measured])
    start, kind = start.copy(), kind.copy()
    start[measured], kind[measured] = arrived, MOVING_DATA
    pieces = [waits, _columns(start, end, kind, number, work=ids)]
    return [{name: values[piece["start"] < piece["end"]] for name, values in piece.items()} for piece in pieces]


_HOST = f"""
    SELECT id, start_ns, start_ns + dur_ns AS end_ns, depth, coalesce(parent_id, -1) AS parent_id, CASE
            WHEN role = 'dataloader' THEN {INPUT}
            WHEN role IN ('launch', 'graph_launch', 'fill') OR role = 'copy' THEN {LAUNCH}
            WHEN {WAITS_FOR_DEVICE} THEN {SYNCHRONIZATION}
            WHEN {COMMUNICATES} THEN {COMMUNICATION}
            WHEN kind = 'runtime' THEN {RUNTIME}
            WHEN kind = 'operator' THEN {OPERATOR}
            WHEN kind = 'overhead' THEN {PROFILER}
            ELSE {BETWEEN}
        END::TINYINT AS kind
    FROM host_event
    WHERE rank = $rank AND span = $span AND thread = $thread AND role IS DISTINCT FROM 'step' AND dur_ns > 0
        AND start_ns < $until AND start_ns + dur_ns > $since
"""


def _on_thread(scope: Scope, graph: Graph, number: int, thread: int, start: Array, end: Array) -> Columns:
    """What a thread did in some stretches of time, in order: the innermost event of each moment."""
    events, window = graph.recordings[number], graph.window
    key = {"rank": events.rank, "span": events.span, "thread": thread}
    host = scope.numpy(_HOST, key | {"since": window.start, "until": window.end})
    count = len(host["id"])
    # At a start the event itself is innermost, at an end the one around it. Of several changes at the same time the
    # last one counts: ends come before starts, inner ends first and outer starts first.
    change = np.concatenate([host["end_ns"], host["start_ns"]])
    now = np.concatenate([places(host["id"], host["parent_id"]), np.arange(count)])
    starts = np.repeat([0, 1], count)
    order = np.lexsort((np.concatenate([-host["depth"].astype(np.int64), host["depth"]]), starts, change))
    change, now = change[order], now[order]
    first_change = np.searchsorted(change, start, side="right") - 1
    next_change = np.searchsorted(change, end, side="left")
    of, at = expanded(first_change, next_change - first_change)
    edges = np.append(change, np.iinfo(np.int64).max)
    low = np.where(at >= 0, np.maximum(edges[at], start[of]), start[of])
    high = np.minimum(edges[at + 1], end[of])
    event = np.where(at >= 0, np.append(now, -1)[at], -1)
    full = low < high
    low, high, event = low[full], high[full], event[full]
    recorded = event >= 0
    kind = np.where(recorded, np.append(host["kind"], BETWEEN)[event], BETWEEN)
    ids = np.where(recorded, np.append(host["id"], -1)[event], -1)
    waits = events.calls["id"][events.work["call"][waited_copies(events)]]
    kind = np.where(np.isin(ids, waits), SYNCHRONIZATION, kind)
    loads = events.loader["thread"] == thread
    since, until = (np.append(events.loader[name][loads], window.until) for name in ("start_ns", "end_ns"))
    within = np.searchsorted(since, low, side="right") - 1
    kind = np.where((within >= 0) & (low < until[within]) & (within < loads.sum()), INPUT, kind)
    return _columns(low, high, kind, number, host=ids, thread=thread)
