"""Names what lies on a path: every moment is one piece of work, of a wait, or unrecorded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.analysis.dependencies.device import waited_copies
from stepscope.analysis.dependencies.events import Events, places
from stepscope.analysis.dependencies.graph import Graph
from stepscope.analysis.dependencies.net import (
    ARRIVED,
    HANDED,
    HELD,
    HOST,
    LAUNCHED,
    LIKELY,
    LOADER,
    OWN,
    QUEUE,
    RETURNED,
    STREAM,
    THREAD,
    TRANSFER,
)
from stepscope.analysis.recording import Array, Columns
from stepscope.analysis.steps.gaps import COMMUNICATES, KERNEL_WAIT_NS, WAITS_FOR_DEVICE
from stepscope.query.scope import Scope

KINDS = (
    "operator",
    "between operators",
    "input wait",
    "runtime call",
    "launch",
    "launch delay",
    "computation",
    "transfer",
    "waiting for a rank",
    "communication",
    "copy",
    "synchronization",
    "kernel gap",
    "profiler",
    "unexplained",
)
(
    OPERATOR, BETWEEN, INPUT, RUNTIME, LAUNCH, LAUNCH_DELAY, COMPUTATION, MOVING_DATA, WAITING, COMMUNICATION, COPY,
    SYNCHRONIZATION, KERNEL_GAP, PROFILER, UNEXPLAINED,
) = range(len(KINDS))  # fmt: skip

_OF_HOST = (THREAD, HANDED, RETURNED, QUEUE)
"""Edges whose time belongs to a thread: what the thread did names it."""
_OF_STREAM = (STREAM, HELD, LIKELY)


@dataclass(frozen=True, slots=True)
class Pieces:
    """The pieces of a path, in order of time; they touch, and fill the stretch.

    Args:
        start, end: of each (ns).
        kind: index in `KINDS`.
        recording: index in the graph's recordings; -1 if no rank is known.
        host: id of the host event that was under way; -1 for none.
        work: id of the device event that ran; -1 for none.
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
        """ns."""
        return self.end - self.start


def pieces_of(scope: Scope, graph: Graph) -> Pieces:
    """Finds what lies on the path that decided when a stretch was done.

    Args:
        scope: the ranks of the graph with all their events.
    """
    start, end, kind, recording, place = _raw(graph)
    start, end = (np.clip(edge, graph.stretch.start, graph.stretch.end) for edge in (start, end))
    full = start < end
    start, end, kind, recording, place = (column[full] for column in (start, end, kind, recording, place))
    order = np.argsort(start, kind="stable")
    start, end, kind, recording, place = (column[order] for column in (start, end, kind, recording, place))
    found = []
    for number, events in enumerate(graph.recordings):
        own = recording == number
        if not own.any():
            continue
        threads, loads = own & (kind == _THREAD), own & (kind == INPUT)
        moved, both = own & (kind == _ON_HOST), own & (kind == _UNTOLD_ON_HOST)
        rows = own & ~threads & ~loads & ~moved & ~both
        found.append(_columns(start[loads], end[loads], INPUT, number))
        for on_host, sort in ((moved, MOVING_DATA), (both, COMMUNICATION)):
            found.append(_columns(start[on_host], end[on_host], sort, number, host=place[on_host]))
        with scope.of_rank(events.rank, all_times=True) as rank:
            found += _of_work(rank, events, number, start[rows], end[rows], kind[rows], place[rows])
            for thread in np.unique(place[threads]).tolist():
                rows = threads & (place == thread)
                found.append(_on_thread(rank, graph, number, thread, start[rows], end[rows]))
    lost = recording < 0
    found.append(_columns(start[lost], end[lost], kind[lost], -1))
    columns = {name: np.concatenate([one[name] for one in found]) for name in found[0]}
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


_THREAD, _OF_KERNEL, _ON_HOST, _UNTOLD_ON_HOST = -1, -2, -3, -4


def _raw(graph: Graph) -> tuple[Array, Array, Array, Array, Array]:
    """Start, end, kind, recording and place of the pieces of a path; of those of a thread the kind is -1 and the place
    the thread, of a collective of the host it is -3 and the id of its event (-4 where it may have been a wait for a rank that
    was not recorded), of others the place is a row of the recording's work."""
    path, stretch = graph.path(), graph.stretch
    source, target, why = graph.source[path], graph.target[path], graph.why[path]
    begin, finish = graph.time[source], graph.time[target]
    found: list[tuple[Array, Array, Array, Array, Array]] = []

    def add(rows: Array, start: Array, end: Array, kind: Array | int, node: Array, place: Array) -> None:
        kinds = np.broadcast_to(np.asarray(kind, np.int64), len(rows))
        found.append((start, end, kinds, graph.recording[node], place))

    worked = np.flatnonzero(graph.over[path])
    run = np.minimum(graph.done[source[worked]], finish[worked])
    add(worked, begin[worked], run, _OF_KERNEL, source[worked], graph.place[source[worked]])
    rest = begin.copy()
    rest[worked] = run
    for reasons, sort in ((_OF_HOST, _THREAD), ((LOADER,), INPUT)):
        rows = np.flatnonzero(np.isin(why, reasons))
        add(rows, rest[rows], finish[rows], sort, target[rows], _thread_of(graph, source[rows], target[rows]))
    rows = np.flatnonzero(why == LAUNCHED)
    called = np.minimum(_call_end(graph, target[rows]), finish[rows])
    add(rows, begin[rows], called, _THREAD, source[rows], graph.place[source[rows]])
    slow = graph.slack[target[rows]] >= KERNEL_WAIT_NS
    usual = np.where(slow, np.maximum(called, finish[rows] - graph.slack[target[rows]]), finish[rows])
    add(rows, called, usual, LAUNCH_DELAY, target[rows], graph.place[target[rows]])
    add(rows, usual, finish[rows], UNEXPLAINED, target[rows], graph.place[target[rows]])
    rows = np.flatnonzero(np.isin(why, _OF_STREAM))
    short = finish[rows] - rest[rows] < KERNEL_WAIT_NS
    kind = np.where(short, KERNEL_GAP, UNEXPLAINED)
    add(rows, rest[rows], finish[rows], kind, target[rows], graph.place[target[rows]])
    lacking = _lacking(graph)
    for reason, why_so in ((TRANSFER, MOVING_DATA), (OWN, MOVING_DATA), (ARRIVED, UNEXPLAINED)):
        rows = np.flatnonzero(why == reason)
        node = source[rows] if reason == ARRIVED else target[rows]
        on_host, untold = graph.kind[node] == HOST, lacking[node]
        place = np.where(on_host, _exchange(graph, node), graph.place[node])
        together = np.where(on_host, _UNTOLD_ON_HOST, COMMUNICATION)
        sorts = np.where(untold, together, np.where(on_host, _ON_HOST, why_so))
        add(rows, begin[rows], finish[rows], sorts, node, place)
    last = np.array([graph.end] if graph.end >= 0 else [], np.int64)
    add(last, graph.time[last], graph.done[last], _OF_KERNEL, last, graph.place[last])
    first = int(graph.time[source[0]] if len(path) else graph.time[last[0]] if len(last) else stretch.end)
    until = int(graph.done[last[0]]) if len(last) else stretch.end
    edges = np.array([[stretch.start, first], [until, stretch.end]])
    nowhere = np.full(2, -1)
    found.append((edges[:, 0], edges[:, 1], np.full(2, UNEXPLAINED), nowhere, nowhere))
    start, end, kinds, recording, place = (np.concatenate(column) for column in zip(*found, strict=True))
    return start, end, kinds, recording, place


def _lacking(graph: Graph) -> Array:
    """Which moments end a collective that lacks a rank, which may have come last: transfer and waiting are not told apart."""
    found = np.zeros(len(graph.time), bool)
    edges = np.flatnonzero(graph.why == TRANSFER)
    found[graph.target[edges]] = graph.place[graph.source[edges]] > 0
    return found


def _thread_of(graph: Graph, source: Array, target: Array) -> Array:
    """If one thread waited for another, the piece belongs to the training loop, if that is one of them."""
    main = np.array([-1 if one.main is None else one.main for one in graph.recordings], np.int64)
    before = graph.place[source]
    host = graph.kind[source] == graph.kind[target]
    result: Array = np.where(host & (before == main[graph.recording[source]]), before, graph.place[target])
    return result


def _exchange(graph: Graph, node: Array) -> Array:
    """The id of the host's collective that runs on each node's thread at that moment; -1 for none."""
    result = np.full(len(node), -1, np.int64)
    for number, events in enumerate(graph.recordings):
        exchanges = events.exchanges
        for at in np.flatnonzero((graph.recording[node] == number) & (graph.kind[node] == HOST)).tolist():
            time = graph.time[node[at]]
            own = np.flatnonzero(
                (exchanges["thread"] == graph.place[node[at]])
                & (exchanges["start_ns"] <= time)
                & (time <= exchanges["end_ns"])
            )
            result[at] = exchanges["id"][own[-1]] if len(own) else -1
    return result


def _call_end(graph: Graph, node: Array) -> Array:
    """When the calls returned that launched the work which starts at some nodes."""
    result = np.zeros(len(node), np.int64)
    for number, events in enumerate(graph.recordings):
        own = graph.recording[node] == number
        result[own] = events.calls["end_ns"][events.work["call"][graph.place[node[own]]]]
    return result


_WAITED = """
    SELECT id, coalesce(wait_ns, 0) AS wait_ns, wait_ns IS NOT NULL AS known FROM collective
    WHERE rank = $rank AND span = $span AND id IS NOT NULL
"""


def _of_work(
    scope: Scope, events: Events, number: int, start: Array, end: Array, kind: Array, place: Array
) -> list[Columns]:
    """Pieces of device work of one rank, and of the delays before them.

    If no other rank of the graph shows when a communication kernel waited, the time is taken from
    the tables, if known.
    """
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
    known = (row >= 0) & waited["known"][row] if len(waited["id"]) else np.zeros(len(row), bool)
    told, row = talking[known], row[known]
    arrived = np.clip(work["start_ns"][place[told]] + waited["wait_ns"][row], start[told], end[told])
    waits = _columns(start[told], arrived, WAITING, number, work=ids[told])
    start, kind = start.copy(), kind.copy()
    start[told], kind[told] = arrived, MOVING_DATA
    found = [waits, _columns(start, end, kind, number, work=ids)]
    return [{name: values[one["start"] < one["end"]] for name, values in one.items()} for one in found]


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
    events, stretch = graph.recordings[number], graph.stretch
    asked = {"rank": events.rank, "span": events.span, "thread": thread}
    host = scope.numpy(_HOST, asked | {"since": stretch.start, "until": stretch.end})
    count = len(host["id"])
    # At a start the event itself is innermost, at an end the one around it. Of several changes at the same time the
    # last one counts: ends come before starts, inner ends first and outer starts first.
    change = np.concatenate([host["end_ns"], host["start_ns"]])
    now = np.concatenate([places(host["id"], host["parent_id"]), np.arange(count)])
    starts = np.repeat([0, 1], count)
    order = np.lexsort((np.concatenate([-host["depth"].astype(np.int64), host["depth"]]), starts, change))
    change, now = change[order], now[order]
    low = np.searchsorted(change, start, side="right") - 1
    high = np.searchsorted(change, end, side="left")
    pieces = high - low
    of = np.repeat(np.arange(len(start)), pieces)
    at = np.arange(len(of)) - np.repeat(np.cumsum(pieces) - pieces - low, pieces)
    edges = np.append(change, np.iinfo(np.int64).max)
    begin = np.where(at >= 0, np.maximum(edges[at], start[of]), start[of])
    finish = np.minimum(edges[at + 1], end[of])
    event = np.where(at >= 0, np.append(now, -1)[at], -1)
    full = begin < finish
    begin, finish, event = begin[full], finish[full], event[full]
    known = event >= 0
    kind = np.where(known, np.append(host["kind"], BETWEEN)[event], BETWEEN)
    ids = np.where(known, np.append(host["id"], -1)[event], -1)
    waits = events.calls["id"][events.work["call"][waited_copies(events)]]
    kind = np.where(np.isin(ids, waits), SYNCHRONIZATION, kind)
    loads = events.loader["thread"] == thread
    since, until = (np.append(events.loader[name][loads], stretch.until) for name in ("start_ns", "end_ns"))
    within = np.searchsorted(since, begin, side="right") - 1
    kind = np.where((within >= 0) & (begin < until[within]) & (within < loads.sum()), INPUT, kind)
    return _columns(begin, finish, kind, number, host=ids, thread=thread)
