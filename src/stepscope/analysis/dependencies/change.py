"""Replays a graph with other durations: what a change would have saved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from stepscope.analysis.dependencies.builder import EdgeKind, NodeKind
from stepscope.analysis.dependencies.events import COPY, GRAPH, Events, places
from stepscope.analysis.dependencies.graph import Graph
from stepscope.analysis.dependencies.host import fetch_ns
from stepscope.analysis.dependencies.replay import Plan
from stepscope.analysis.operators.work import classes_of_events
from stepscope.analysis.ranks.skew import find_skew
from stepscope.analysis.ranks.straggler import late_in_collectives
from stepscope.analysis.recording import NEVER, Array
from stepscope.analysis.steps.gaps import KERNEL_WAIT_NS
from stepscope.costs import CLASSES
from stepscope.formats.consecutive import run_starts
from stepscope.link.intervals import covered, subtract, union
from stepscope.query.scope import Scope


@dataclass(frozen=True, slots=True)
class Change:
    """A change: by which factor classes or named kernels become faster, and what is removed."""

    faster: tuple[tuple[str, float], ...] = ()
    without: tuple[str, ...] = ()

    def __add__(self, other: Change) -> Change:
        return Change(self.faster + other.faster, self.without + other.without)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Savings of a change (ns, all steps together).

    Args:
        saved: mean over the remaining ranks; the step before changes too, as in a job that always ran this way. None if
            transfers change and part of them may be a wait for a rank that was not recorded or not matched.
        low: lower bound: unexplained waits end when they did, and an unmatched collective transfers no longer than the
            fastest of its name.
        high: upper bound: everything that becomes shorter, per step on the rank with most of it, as if nothing
            overlapped; at most what the longest thread or stream leaves. None if unbounded.
    """

    saved: int | None
    low: int
    high: int | None


@dataclass(slots=True)
class _Times:
    """Durations and lags after a change; the `certain` ones hold without assumptions."""

    duration: Array
    lag: Array
    certain_duration: Array
    certain_lag: Array
    dropped: Array
    away: int = -1
    unpaced: bool = False
    guessed: bool = False

    @property
    def assumes(self) -> bool:
        """Whether the certain times differ from the estimated ones."""
        return not (np.array_equal(self.duration, self.certain_duration) and np.array_equal(self.lag, self.certain_lag))


class WhatIf:
    """Replays a graph's steps with changes; `straggler_scope` is where stragglers are looked for, if not in `scope`."""

    def __init__(self, scope: Scope, graph: Graph, straggler_scope: Scope | None = None) -> None:
        self.scope, self.graph = scope, graph
        self.straggler_scope = scope if straggler_scope is None else straggler_scope
        self.after = np.flatnonzero(graph.time >= graph.window.since)
        self._classes: dict[int, Array] = {}
        self._names: dict[int, list[str]] = {}
        self._plans: dict[bool, Plan] = {}
        self.external_waits = graph.slack >= KERNEL_WAIT_NS

    def outcome(self, change: Change) -> Outcome:
        """Computes what a change would have saved."""
        graph, times = self.graph, self._times(change)
        stay = np.arange(len(graph.recordings)) != times.away
        before = self._takes(graph.time, graph.duration)[stay]
        moved = self.run(times.duration, times.lag, times.dropped)
        certain = moved
        if self.external_waits.any() or times.assumes:
            certain = self.run(times.certain_duration, times.certain_lag, times.dropped, external=True)
        saved = _mean(before - self._takes(moved, times.duration)[stay])
        sure = _mean(before - self._takes(certain, times.certain_duration)[stay])
        upper = min(self._upper_bound(times), _mean(before - self._in_a_row(times)[stay]))
        if change == Change(without=("straggler",)):
            duration, lag = self._freed(times)
            freed = self.run(duration, lag, times.dropped)
            upper = min(upper, _mean(before - self._takes(freed, duration)[stay]))
        upper = max(upper, saved)
        estimate = None if times.guessed else saved
        return Outcome(estimate, min(sure, saved), upper if upper < _mean(before) else None)

    @property
    def recorded(self) -> int:
        """The recorded time of the steps (ns), mean over ranks."""
        return _mean(self._takes(self.graph.time, self.graph.duration))

    def has(self, which: str) -> bool:
        """Whether there is work of a class, or with a name that matches a pattern."""
        return bool(self._chosen(which).any())

    def applies(self, without: str) -> bool:
        """Whether the recording has what the change would remove."""
        recordings = self.graph.recordings
        if without == "straggler":
            return self.straggler() is not None
        if without == "communication":
            return any(events.work["communicates"].any() or len(events.exchanges["id"]) for events in recordings)
        column = "loader" if without == "input" else "calls"
        return any(len(getattr(events, column)["thread"]) for events in recordings)

    def run(self, duration: Array, lag: Array, dropped: Array | None = None, *, external: bool = False) -> Array:
        """Computes when each moment would be (ns); with `external`, moments that were 30 µs or more later than
        explained come no earlier than recorded."""
        if external not in self._plans:
            self._plans[external] = Plan.of(self.graph, self.external_waits & external)
        return self._plans[external].run(duration, lag, dropped)

    def straggler(self) -> int | None:
        """The recording of the straggling rank, as in `stragglers`; None if there is none."""
        skew = find_skew(self.straggler_scope)
        late = None if skew is None else late_in_collectives(skew)
        of_rank = {events.rank: number for number, events in enumerate(self.graph.recordings)}
        return None if late is None else of_rank.get(late.ranks[0])

    def _takes(self, moved: Array, duration: Array) -> Array:
        """Each rank's time for the steps: from the end of the step before (or their start) until they are done."""
        graph = self.graph
        began = np.array(graph.window.began or [graph.window.start] * len(graph.recordings), np.int64)
        done = []
        for moments in (graph.previous_ends, graph.ends):
            at = np.full(len(began), NEVER)
            np.maximum.at(at, graph.recording[moments], (moved + duration)[moments])
            done.append(np.where(at == NEVER, began, at))
        return done[1] - done[0]

    def _times(self, change: Change) -> _Times:
        graph = self.graph
        times = _Times(
            graph.duration.copy(), graph.lag.copy(), graph.duration.copy(), graph.lag.copy(),
            np.zeros(len(graph.lag), bool),
        )  # fmt: skip
        for which, factor in change.faster:
            self._faster(times, self._chosen(which), 1 / factor)
        if "communication" in change.without:
            work, transfers, talks = self._work()
            self._shorten_transfers(times, transfers, 0.0)
            self._shorten_unmatched(times, work[talks[work]], 0.0)
        if "input" in change.without:
            self._shorten_threads((times.lag, times.certain_lag), [self._loads(events) for events in graph.recordings])
            times.dropped |= graph.edge_kind == EdgeKind.LOADER
            times.unpaced = True
        if "launch" in change.without:
            self._shorten_threads(
                (times.lag, times.certain_lag), [self._launches(events) for events in graph.recordings]
            )
            launched = (graph.edge_kind == EdgeKind.LAUNCH) & (graph.time[graph.source] >= graph.window.since)
            for lag in (times.lag, times.certain_lag):
                lag[launched] = np.minimum(lag[launched], 0)
        if "straggler" in change.without and (late := self.straggler()) is not None:
            times.away = late
            times.dropped |= (graph.edge_kind == EdgeKind.ARRIVAL) & (graph.recording[graph.source] == late)
        return times

    def _work(self) -> tuple[Array, Array, Array]:
        """Nodes of device work in the window, edges of matched collectives that end there, and which nodes communicate."""
        graph = self.graph
        work = self.after[(graph.kind[self.after] == NodeKind.WORK)]
        talks = np.zeros(len(graph.time), bool)
        for number, events in enumerate(graph.recordings):
            local = work[graph.recording[work] == number]
            talks[local] = events.work["communicates"][graph.place[local]]
        transfers = np.flatnonzero((graph.edge_kind == EdgeKind.TRANSFER) | (graph.edge_kind == EdgeKind.LOCAL))
        return work, transfers[graph.time[graph.target[transfers]] >= graph.window.since], talks

    def _chosen(self, which: str) -> Array:
        """Mask of nodes that start or end work of a class, or kernels whose name matches a pattern."""
        graph = self.graph
        chosen = np.zeros(len(graph.time), bool)
        for number, events in enumerate(graph.recordings):
            nodes = np.flatnonzero((graph.recording == number) & (graph.kind != NodeKind.HOST))
            place = graph.place[nodes]
            if which in CLASSES:
                is_it = self._class_of(number, events) == CLASSES.index(which)
            else:
                names = self._name_of(number, events)
                matches = {name: fnmatchcase(name, which) for name in set(names)}
                is_it = np.array([matches[name] for name in names], bool)
            chosen[nodes] = is_it[place] if len(is_it) else False
        return chosen

    def _class_of(self, number: int, events: Events) -> Array:
        if number not in self._classes:
            ids, classes = classes_of_events(self.scope, events.rank)
            self._classes[number] = classes[places(ids, events.work["id"])] if len(ids) else ids
        return self._classes[number]

    def _name_of(self, number: int, events: Events) -> list[str]:
        if number not in self._names:
            with self.scope.of_rank(events.rank, all_times=True) as rank_scope:
                names = rank_scope.sql(
                    "SELECT id, name FROM device_event WHERE rank = $rank AND span = $span",
                    {"rank": events.rank, "span": events.span},
                )
            at = places(names.column("id").to_numpy(), events.work["id"])
            self._names[number] = names.column("name").take(at).to_pylist() if len(at) else []
        return self._names[number]

    def _faster(self, times: _Times, chosen: Array, factor: float) -> None:
        """Scales the duration of chosen work; of matched collectives, that of the transfer."""
        graph = self.graph
        work, transfers, talks = self._work()
        work = work[chosen[work]]
        unmatched, work = work[talks[work]], work[~talks[work]]
        for duration in (times.duration, times.certain_duration):
            duration[work] = np.rint(duration[work] * factor).astype(np.int64)
        self._shorten_unmatched(times, unmatched, factor)
        transfers = transfers[chosen[graph.target[transfers]]]
        self._shorten_transfers(times, transfers, factor)

    def _shorten_transfers(self, times: _Times, edges: Array, factor: float) -> None:
        """Shortens transfers. If a rank is missing, how much was a wait for it is unknown: nothing is certain then."""
        lacking = self.graph.lacking[self.graph.target[edges]]
        times.guessed |= bool(lacking.any())
        for lag, of in ((times.lag, edges), (times.certain_lag, edges[~lacking])):
            self._shorten(lag, of, factor)

    def _shorten(self, lag: Array, edges: Array, factor: float) -> None:
        graph = self.graph
        transfer = np.zeros(len(graph.time), np.int64)
        after_all = edges[graph.edge_kind[edges] == EdgeKind.TRANSFER]
        transfer[graph.target[after_all]] = np.maximum(lag[after_all], 0)
        less = transfer - np.rint(transfer * factor).astype(np.int64)
        lag[edges] -= less[graph.target[edges]]

    def _shorten_unmatched(self, times: _Times, unmatched: Array, factor: float) -> None:
        """Shortens unmatched collectives: at least the duration of the fastest of the same name was transfer."""
        graph = self.graph
        unmatched = unmatched[graph.duration[unmatched] > 0]
        times.guessed |= bool(len(unmatched))
        for number, events in enumerate(graph.recordings):
            local = unmatched[graph.recording[unmatched] == number]
            if not len(local):
                continue
            names = np.array(self._name_of(number, events), object)[graph.place[local]]
            _, name_of = np.unique(names.astype(str), return_inverse=True)
            fastest = np.full(name_of.max() + 1, np.iinfo(np.int64).max)
            np.minimum.at(fastest, name_of, graph.duration[local])
            less = np.rint(fastest[name_of] * (1 - factor)).astype(np.int64)
            times.certain_duration[local] = np.minimum(times.certain_duration[local], graph.duration[local] - less)
            times.duration[local] = np.rint(times.duration[local] * factor).astype(np.int64)

    def _loads(self, events: Events) -> tuple[Array, Array, Array]:
        loader = events.loader
        fetch = fetch_ns(loader["start_ns"], loader["end_ns"])
        return loader["thread"], loader["start_ns"] + fetch, loader["end_ns"]

    def _launches(self, events: Events) -> tuple[Array, Array, Array]:
        calls, work = events.calls, events.work
        blocks = np.zeros(len(calls["id"]), bool)
        blocks[work["call"][work["pageable"] & (work["call"] >= 0)]] = True
        free = (calls["does"] <= GRAPH) | ((calls["does"] == COPY) & calls["asynchronous"] & ~blocks)
        return calls["thread"][free], calls["start_ns"][free], calls["end_ns"][free]

    def _shorten_threads(self, lags: Sequence[Array], taken: Sequence[tuple[Array, Array, Array]]) -> None:
        graph = self.graph
        edges = np.flatnonzero(graph.edge_kind == EdgeKind.THREAD)
        edges = edges[graph.time[graph.source[edges]] >= graph.window.since]
        for number, (threads, start, end) in enumerate(taken):
            local = edges[graph.recording[graph.target[edges]] == number]
            for thread in np.unique(threads).tolist():
                rows = local[graph.place[graph.target[local]] == thread]
                mine = threads == thread
                first, last = graph.time[graph.source[rows]], graph.time[graph.target[rows]]
                less = covered(union(start[mine], end[mine]), first, last)
                passed = last - first
                for lag in lags:
                    lag[rows] = np.minimum(lag[rows], passed - less)

    def _in_a_row(self, times: _Times) -> Array:
        """The longest sequential work of one thread or stream of each rank that remains in the steps."""
        graph = self.graph
        inside = graph.time >= graph.window.start
        longest = np.zeros(len(graph.recordings), np.int64)
        for number, events in enumerate(graph.recordings):
            local = inside & (graph.recording == number)
            work = np.flatnonzero(local & (graph.kind == NodeKind.WORK))
            rows = events.work
            stream = run_starts(rows["device"], rows["stream"]).cumsum()
            # Work that overlaps the next on its stream does not precede it.
            until_next = np.full(len(stream), np.iinfo(np.int64).max)
            same = stream[1:] == stream[:-1]
            until_next[:-1][same] = np.diff(rows["start_ns"])[same]
            place = graph.place[work]
            edges = np.flatnonzero((graph.edge_kind == EdgeKind.THREAD) & local[graph.source] & ~times.dropped)
            for of, takes in (
                (stream[place], np.minimum(times.duration[work], until_next[place])),
                (graph.place[graph.target[edges]], times.lag[edges]),
            ):
                sums = np.bincount(np.unique(of, return_inverse=True)[1], takes)
                longest[number] = max(longest[number], sums.max(initial=0))
        return longest

    def _upper_bound(self, times: _Times) -> int:
        """Everything that becomes shorter in each step, on the rank with most of it."""
        graph, window = self.graph, self.graph.window
        ranks = len(graph.recordings)
        steps = len(window.ends)
        less = np.zeros(ranks * steps, np.int64)
        steps_of = np.minimum(np.searchsorted(window.ends, graph.time, side="right"), steps - 1)
        cell = graph.recording * steps + steps_of
        inside = graph.time >= window.start
        np.add.at(less, cell[inside], (graph.duration - times.duration)[inside])
        # If the loader sets the pace, edges of threads do not contain its waits: they stay as recorded.
        counted = ~times.dropped & (graph.edge_kind != EdgeKind.LOCAL) & (graph.edge_kind != EdgeKind.LAUNCH)
        counted &= inside[graph.target]
        np.add.at(less, cell[graph.target[counted]], (graph.lag - times.lag)[counted])
        # A path leaves its thread by a launch once, and again each time it came back to wait for the device.
        delay, back = np.zeros_like(less), np.ones_like(less)
        launched = (graph.edge_kind == EdgeKind.LAUNCH) & inside[graph.target]
        np.maximum.at(delay, cell[graph.target[launched]], (graph.lag - times.lag)[launched])
        np.add.at(back, cell[np.unique(graph.target[graph.edge_kind == EdgeKind.SYNC])], 1)
        less += delay * back
        if times.away >= 0:
            for number, (start, end) in enumerate(self._may_wait_for(times.away)):
                local = start >= window.start
                step = np.minimum(np.searchsorted(window.ends, start[local], side="right"), steps - 1)
                np.add.at(less, number * steps + step, (end - start)[local])
        if times.unpaced:
            paced = graph.target[graph.edge_kind == EdgeKind.LOADER]
            for number, events in enumerate(graph.recordings):
                _, start, end = self._loads(events)
                at = np.searchsorted(window.ends, end, side="left")
                local = paced[graph.recording[paced] == number]
                counted_loads = (start >= window.start) & (at < steps) & np.isin(end, graph.time[local])
                np.add.at(less, number * steps + at[counted_loads], (end - start)[counted_loads])
        return int(less.reshape(ranks, steps).max(axis=0).sum()) if steps and ranks else 0

    def _may_wait_for(self, away: int) -> list[tuple[Array, Array]]:
        """Start and end (ns) of each recording's certain and possible waits for a rank: all of an unmatched collective
        may be a wait."""
        graph = self.graph
        arrivals = np.flatnonzero(graph.edge_kind == EdgeKind.ARRIVAL)
        late = arrivals[graph.recording[graph.source[arrivals]] == away]
        meets = np.full(len(graph.time), NEVER, np.int64)
        meets[graph.target[late]] = graph.time[graph.source[late]]
        at, until = graph.source[arrivals], meets[graph.target[arrivals]]
        lone_edges = np.flatnonzero(graph.edge_kind == EdgeKind.LOCAL)
        work, _, talks = self._work()
        unmatched = work[talks[work]]
        of = np.concatenate([at, graph.source[lone_edges], unmatched])
        start = graph.time[of]
        end = np.concatenate([until, graph.time[graph.target[lone_edges]], graph.done[unmatched]])
        waits = []
        for number, events in enumerate(graph.recordings):
            mine = (graph.recording[of] == number) & (end > start)
            met = graph.time[at[(graph.recording[at] == number) & (graph.kind[at] == NodeKind.HOST)]]
            exchanges = events.exchanges
            left = ~np.isin(exchanges["start_ns"], met)
            waits.append(
                (
                    np.concatenate([start[mine], exchanges["start_ns"][left]]),
                    np.concatenate([end[mine], exchanges["end_ns"][left]]),
                )
            )
        return waits

    def _freed(self, times: _Times) -> tuple[Array, Array]:
        """Durations and lags without possible waits for the removed rank: pauses and unexplained delays during a
        collective."""
        graph = self.graph
        duration, lag = times.duration.copy(), times.lag.copy()
        work, _, talks = self._work()
        duration[work[talks[work]]] = 0
        lag[graph.edge_kind == EdgeKind.LOCAL] = 0
        taken = []
        for number, (events, (start, end)) in enumerate(
            zip(graph.recordings, self._may_wait_for(times.away), strict=True)
        ):
            waits = union(start, end)
            pauses = {thread: subtract(waits, busy) for thread, busy in events.busy.items()}
            for thread in np.unique(events.exchanges["thread"]).tolist():
                pauses.setdefault(thread, waits)
            taken.append(
                (
                    np.repeat([*pauses], [len(of) for of in pauses.values()]),
                    np.concatenate([start[:0], *(of.start for of in pauses.values())]),
                    np.concatenate([end[:0], *(of.end for of in pauses.values())]),
                )
            )
            late = np.flatnonzero((graph.recording == number) & (graph.slack > 0))
            less = np.zeros(len(graph.time), np.int64)
            less[late] = covered(waits, graph.time[late] - graph.slack[late], graph.time[late])
            lag -= less[graph.target]
        self._shorten_threads((lag,), taken)
        return duration, lag


def _mean(ns: Array) -> int:
    """The mean over ranks; 0 if they lose more than they save."""
    return max(0, round(float(ns.mean()))) if len(ns) else 0
