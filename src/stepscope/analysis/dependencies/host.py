"""Finds the order in which host threads ran: each continues where it was, or waits for another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.analysis.dependencies.builder import EdgeKind, GraphBuilder, NodeKind
from stepscope.analysis.dependencies.events import Events
from stepscope.analysis.recording import Array
from stepscope.formats.consecutive import run_starts
from stepscope.link.intervals import Intervals, covered, union

WAKE_NS = 10_000
"""A shorter pause is no wait for another thread: waking a thread takes this long."""
FETCH_NS = 100_000
"""Fetching a ready batch takes no longer: if the fastest took longer, all were waited for."""
WAITED_NS = 50_000
"""A batch that takes this much longer was waited for."""


@dataclass(frozen=True, slots=True)
class Threads:
    """Nodes of a recording's threads: `start`, `end` of calls; where the rank `meets` and `leaves` host collectives;
    each step's `finish`."""

    start: Array
    end: Array
    meets: Array
    leaves: Array
    finish: Array


@dataclass(slots=True)
class _Points:
    """Moments of threads; `active_ns` is the unwaited time since the thread's previous moment, -1 for all of it."""

    builder: GraphBuilder
    recording: int
    threads: list[Array]
    times: list[Array]
    active_ns: list[Array]
    late: list[Array]
    nodes: list[Array]

    def add(self, threads: Array, times: Array, active_ns: Array | int = -1, *, late: bool = False) -> Array:
        """Adds moments; among simultaneous ones of a thread, the `late` ones come last."""
        count = len(times)
        self.threads.append(np.broadcast_to(threads, count))
        self.times.append(times)
        self.active_ns.append(np.broadcast_to(np.asarray(active_ns, np.int64), count))
        self.late.append(np.full(count, late))
        self.nodes.append(self.builder.nodes(NodeKind.HOST, self.recording, times, self.threads[-1]))
        return self.nodes[-1]


def add_threads(
    builder: GraphBuilder, recording: int, events: Events, call_ns: Array, exchange_ns: Array, since: int
) -> Threads:
    """Adds the moments at which threads meet others or the device, in program order; `call_ns` and `exchange_ns` are
    durations without waiting (-1: all), `since` the window's start."""
    points = _Points(builder, recording, [], [], [], [], [])
    calls, loader = events.calls, events.loader
    main = -1 if events.main is None else events.main
    end = points.add(calls["thread"], calls["end_ns"], call_ns)
    start = points.add(calls["thread"], calls["start_ns"], late=True)
    finish = points.add(events.steps["thread"], events.steps["host_end_ns"])
    points.add(np.array(main), np.array([since], np.int64))
    _add_loader(builder, points, loader["thread"], loader["start_ns"], loader["end_ns"], loader["waits"])
    exchanges = events.exchanges
    leaves = points.add(exchanges["thread"], exchanges["end_ns"], exchange_ns)
    # A thread of the library is idle until it is given work.
    meet_ns = np.where(np.isin(exchanges["thread"], list(events.busy)), -1, 0)
    meets = points.add(exchanges["thread"], exchanges["start_ns"], meet_ns, late=True)
    _add_hand_overs(builder, points, events.busy)
    _add_waits(builder, points, events, meets, leaves)
    thread, time, exchange_ns, late, node = (
        np.concatenate(column) for column in (points.threads, points.times, points.active_ns, points.late, points.nodes)
    )
    order = np.lexsort((late, time, thread))
    thread, time, exchange_ns, node = thread[order], time[order], exchange_ns[order], node[order]
    follows = np.flatnonzero(thread[1:] == thread[:-1]) + 1
    passed = time[follows] - time[follows - 1]
    lag = np.where(exchange_ns[follows] >= 0, np.minimum(exchange_ns[follows], passed), passed)
    builder.edges(EdgeKind.THREAD, node[follows - 1], node[follows], lag)
    _start_threads(builder, thread, time, node, main)
    return Threads(start, end, meets, leaves, finish)


def fetch_ns(start: Array, end: Array) -> int:
    """The time to fetch a ready batch (ns); 0 if unknown because every batch was waited for."""
    fastest = int((end - start).min(initial=FETCH_NS))
    return fastest if fastest < FETCH_NS else 0


def _add_loader(builder: GraphBuilder, points: _Points, thread: Array, start: Array, end: Array, waits: Array) -> None:
    """Adds waits for batches. After two waits in a row the loader sets the pace: a faster step would wait longer."""
    if not len(start):
        return
    fetch = fetch_ns(start, end)
    waited = waits & (end - start - fetch >= WAITED_NS)
    paced = np.zeros(len(start), bool)
    paced[1:] = waited[1:] & waited[:-1] & (thread[1:] == thread[:-1])
    points.add(thread, start, late=True)
    got = points.add(thread, end, np.where(paced, fetch, -1))
    behind = np.flatnonzero(paced)
    builder.edges(EdgeKind.LOADER, got[behind - 1], got[behind], end[behind] - end[behind - 1])


def _add_hand_overs(builder: GraphBuilder, points: _Points, busy: dict[int, Intervals]) -> None:
    """Adds wake-ups: a thread that pauses while another works for at least half of the pause waited for it (autograd's
    threads)."""
    waiting: dict[tuple[int, int], int] = {}
    wakes: set[tuple[int, int, int, int]] = set()
    for thread, mine in busy.items():
        pause, resume = mine.end[:-1], mine.start[1:]
        long = resume - pause >= WAKE_NS
        pause, resume = pause[long], resume[long]
        for other, theirs in busy.items():
            if other == thread or not len(pause):
                continue
            first = np.searchsorted(theirs.start, pause, side="left")
            last = np.searchsorted(theirs.end, resume, side="right") - 1
            works = (2 * covered(theirs, pause, resume) >= resume - pause) & (first <= last)
            for x, y, p, q in zip(*(column[works].tolist() for column in (pause, resume, first, last)), strict=True):
                if p == 0 or theirs.end[p - 1] <= x:
                    wakes.add((thread, x, other, int(theirs.start[p])))
                    if p:
                        waiting[other, int(theirs.start[p])] = int(theirs.end[p - 1])
                if q + 1 == len(theirs) or theirs.start[q + 1] >= y:
                    wakes.add((other, int(theirs.end[q]), thread, y))
                    waiting[thread, y] = x
    nodes: dict[tuple[int, int, bool], int] = {}

    def moments(points_of: list[tuple[int, int]], *, woken: bool) -> None:
        if points_of:
            threads, times = (np.array(column, np.int64) for column in zip(*points_of, strict=True))
            added = points.add(threads, times, 0 if woken else -1, late=woken)
            nodes.update({(*moment, woken): node for moment, node in zip(points_of, added.tolist(), strict=True)})

    # A waiting thread does not continue by itself, but the moment at which its pause started is its own.
    left = {(thread, time) for thread, time, _, _ in wakes} | {(thread, time) for (thread, _), time in waiting.items()}
    moments(sorted(left), woken=False)
    moments(sorted(waiting), woken=True)
    started = {(thread, time) for _, _, thread, time in wakes} - set(waiting)
    moments(sorted(started - left), woken=False)
    if wakes:
        sources, targets, lags = [], [], []
        for source, at, target, then in sorted(wakes):
            sources.append(nodes[source, at, False])
            woken = (target, then, True)
            targets.append(nodes[woken] if woken in nodes else nodes[target, then, False])
            lags.append(then - at)
        builder.edges(EdgeKind.WAKE, np.array(sources), np.array(targets), np.array(lags))


def _add_waits(builder: GraphBuilder, points: _Points, events: Events, meets: Array, leaves: Array) -> None:
    """Adds waits for collectives of the host, which run on a thread of the library.

    A thread that paused until a collective had ended, for half of the pause or more, waited for the last such one. A
    collective was launched by what the training loop did when it started, or had done before it paused.
    """
    exchanges = events.exchanges
    if not len(meets):
        return
    start, end = exchanges["start_ns"], exchanges["end_ns"]
    for thread, mine in events.busy.items():
        pause, resume = mine.end[:-1], mine.start[1:]
        long = resume - pause >= WAKE_NS
        pause, resume = pause[long], resume[long]
        other = np.flatnonzero(exchanges["thread"] != thread)
        other = other[np.argsort(end[other], kind="stable")]
        last = np.searchsorted(end[other], resume, side="right") - 1
        rows = other[np.maximum(last, 0)] if len(other) else np.zeros(len(last), np.int64)
        within = end[rows] - np.maximum(start[rows], pause)
        waited = (last >= 0) & (2 * within >= resume - pause)
        pause, resume, rows = pause[waited], resume[waited], rows[waited]
        if len(rows):
            points.add(np.array(thread), pause)
            woken = points.add(np.array(thread), resume, 0, late=True)
            builder.edges(EdgeKind.WAKE, leaves[rows], woken, resume - end[rows])
    if events.main is not None:
        of = np.flatnonzero(exchanges["thread"] != events.main)
        of = of[np.lexsort((start[of], exchanges["thread"][of]))]
        done = events.busy.get(events.main, union([], []))
        at = np.searchsorted(done.start, start[of], side="right")
        did = np.minimum(np.where(at > 0, np.append(0, done.end)[at], start[of]), start[of])
        behind = np.flatnonzero(exchanges["thread"][of][1:] == exchanges["thread"][of][:-1]) + 1
        lag = start[of] - did
        lag[behind[end[of[behind - 1]] > did[behind]]] = 0
        builder.edges(EdgeKind.WAKE, points.add(np.array(events.main), did), meets[of], lag)


def _start_threads(builder: GraphBuilder, thread: Array, time: Array, node: Array, main: int) -> None:
    """Lets another thread start after the training loop's last moment before it: its real start is not recorded."""
    first = np.flatnonzero(run_starts(thread))
    first = first[thread[first] != main]
    mine = np.flatnonzero(thread == main)
    if not len(mine) or not len(first):
        return
    at = np.searchsorted(time[mine], time[first], side="right") - 1
    first, at = first[at >= 0], at[at >= 0]
    builder.edges(EdgeKind.WAKE, node[mine[at]], node[first], time[first] - time[mine[at]])
