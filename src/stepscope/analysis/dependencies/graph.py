"""The dependency graph of a job, and its critical path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stepscope.analysis.dependencies.builder import EdgeKind, GraphBuilder, NodeKind
from stepscope.analysis.dependencies.device import add_streams, find_waits
from stepscope.analysis.dependencies.events import Events, places, read_events
from stepscope.analysis.dependencies.host import add_threads
from stepscope.analysis.dependencies.step_window import StepWindow
from stepscope.analysis.ranks.collectives import LACKS_RANKS
from stepscope.analysis.recording import Array, Columns
from stepscope.query.scope import Scope

MAX_ROUNDS = 100
"""Rounds in which simultaneous moments are ordered."""


@dataclass(frozen=True, slots=True)
class Graph:
    """Moments and their dependencies, in topological order.

    Args:
        kind: NodeKind of each moment.
        recording: index in `recordings`.
        place: thread of a host moment; of a last arrival, 1 if an unrecorded rank may have come last; else row of the
            work.
        duration: of the device work that starts there (ns).
        first: each moment's first edge; one more for the end.
        source, target: moments of each edge.
        lag: minimum delay between them (ns), after the end of the source's work if `over`.
        edge_kind: EdgeKind of each edge.
        slack: how much later each moment was than its dependencies explain (ns); its time for one without edges.
        previous_ends: the moments at which the step before was done.
        ends: the moments at which the window's steps were done on any rank.
        waits_recorded: whether stream waits were recorded, by rank.
        matched, unmatched: numbers of collectives that were matched across the graph's ranks, and of the others.
        contradicting: edges against the order of time, which were dropped.
    """

    window: StepWindow
    recordings: list[Events]
    time: Array
    duration: Array
    kind: Array
    recording: Array
    place: Array
    first: Array
    source: Array
    target: Array
    lag: Array
    over: Array
    edge_kind: Array
    slack: Array
    previous_ends: Array
    ends: Array
    waits_recorded: list[bool]
    matched: int
    unmatched: int
    contradicting: int

    @property
    def done(self) -> Array:
        """When the work that starts at each moment has ended; for other moments, their time (ns)."""
        return self.time + self.duration

    @property
    def lacking(self) -> Array:
        """Moments that end a collective without one of its ranks, which may have come last."""
        lacking = np.zeros(len(self.time), bool)
        edges = np.flatnonzero(self.edge_kind == EdgeKind.TRANSFER)
        lacking[self.target[edges]] = self.place[self.source[edges]] > 0
        return lacking

    @property
    def end(self) -> int:
        """The last moment to be done; -1 if nothing happened."""
        return int(self.ends[self.done[self.ends].argmax()]) if len(self.ends) else -1

    def path(self) -> Array:
        """The edges of the critical path of the stretch, the earliest first."""
        earliest = self.time[self.source] + self.lag + np.where(self.over, self.duration[self.source], 0)
        best = np.full(len(self.time), -1, np.int64)
        if len(earliest):
            # The last assignment wins: of equal ones the first in the columns, so that a rank depends on itself.
            order = np.lexsort((-np.arange(len(earliest)), earliest))
            best[self.target[order]] = order
        chosen, moment, choices = [], self.end, best.tolist()
        source, time, since = self.source, self.time, self.window.start
        while moment >= 0 and time[moment] > since and choices[moment] >= 0:
            chosen.append(choices[moment])
            moment = int(source[choices[moment]])
        return np.array(chosen[::-1], np.int64)


_MATCHED = f"""
    SELECT collective.rank, coalesce(collective.id, host_id) AS id, collective.id IS NULL AS on_host, match_id, last_rank IS NOT NULL AS told, {LACKS_RANKS} AS lacking, max(start_ns) OVER shared AS arrived,
        coalesce(rank.clock_uncertainty_ns, 0) AS clock_uncertainty_ns
    FROM collective JOIN rank USING (rank)
    WHERE span = $span AND start_ns < $until AND end_ns >= $since AND match_id IS NOT NULL
    WINDOW shared AS (PARTITION BY match_id)
    QUALIFY count(*) OVER shared > 1
"""


def build(scope: Scope, window: StepWindow) -> Graph:
    """Builds the graph of the ranks in a window, with all their events of that time."""
    builder = GraphBuilder()
    bounds = {"span": window.span, "since": window.since, "until": window.until}
    matched = scope.numpy(_MATCHED, bounds)
    recordings, recorded = [], []
    members: list[Columns] = []
    unmatched = 0
    previous_ends: list[Array] = []
    ends: list[Array] = []
    for number, rank in enumerate(window.ranks):
        with scope.of_rank(rank, all_times=True) as rank_scope:
            events = read_events(rank_scope, rank, window.span, window.since, window.until)
        recordings.append(events)
        waits = find_waits(events)
        recorded.append(waits.recorded)
        member = _members(matched, events.rank, events.work, on_host=False)
        met = _members(matched, events.rank, events.exchanges, on_host=True)
        work, leaving = _add_work(builder, number, events, member)
        exchange_busy_ns = np.full(len(events.exchanges["id"]), -1, np.int64)
        exchange_busy_ns[met["row"]] = 0
        threads = add_threads(builder, number, events, waits.busy_ns, exchange_busy_ns, window.start)
        add_streams(builder, events, waits, threads, work, leaving)
        last = () if window.before is None else (window.before,)
        for steps, done in ((window.steps, ends), (last, previous_ends)):
            asked_for = np.isin(events.work["step"], steps)
            done.append(np.where(leaving >= 0, leaving, work)[asked_for])
            done.append(threads.finish[np.isin(events.steps["step"], steps)])
        unmatched += int(events.work["communicates"].sum()) - len(member["row"])
        unmatched += len(events.exchanges["id"]) - len(met["row"])
        for mine, rows, start, leave in (
            (member, events.work, work, leaving),
            (met, events.exchanges, threads.meets, threads.leaves),
        ):
            at = mine["row"]
            members.append(
                mine
                | {
                    "start": start[at],
                    "leave": leave[at],
                    "start_ns": rows["start_ns"][at],
                    "end_ns": rows["end_ns"][at],
                }
            )
    _add_meetings(builder, members)
    return assembled(
        builder,
        window,
        np.concatenate(ends) if ends else np.zeros(0, np.int64),
        previous_ends=np.concatenate(previous_ends) if window.before is not None else np.zeros(0, np.int64),
        recordings=recordings,
        waits_recorded=recorded,
        matched=sum(len(member["match_id"]) for member in members),
        unmatched=unmatched,
    )


def _members(matched: Columns, rank: int, rows: Columns, *, on_host: bool) -> Columns:
    """A rank's matched collectives, of the device or the host, that run until the last rank arrives, with their rows."""
    chosen = (matched["rank"] == rank) & (matched["on_host"] == on_host)
    local = {name: values[chosen] for name, values in matched.items()}
    row = places(rows["id"], local["id"])
    until = rows["end_ns"][row] if len(rows["id"]) else row
    waits = (row >= 0) & (until >= local["arrived"])
    return {name: values[waits] for name, values in {**local, "row": row}.items()}


def _add_work(builder: GraphBuilder, number: int, events: Events, member: Columns) -> tuple[Array, Array]:
    rows = events.work
    count = len(rows["id"])
    duration = rows["end_ns"] - rows["start_ns"]
    meets = np.zeros(count, bool)
    meets[member["row"]] = True
    work = builder.nodes(NodeKind.WORK, number, rows["start_ns"], np.arange(count), np.where(meets, 0, duration))
    leaving = np.full(count, -1, np.int64)
    leaving[meets] = builder.nodes(NodeKind.COLLECTIVE_END, number, rows["end_ns"][meets], np.flatnonzero(meets))
    return work, leaving


def _add_meetings(builder: GraphBuilder, members: list[Columns]) -> None:
    """Adds each collective's last arrival; a rank whose clock cannot show a later one depends only on itself."""
    if not members:
        return
    all_of = {name: np.concatenate([member[name] for member in members]) for name in members[0]}
    if not len(all_of["match_id"]):
        return
    _, first, which = np.unique(all_of["match_id"], return_index=True, return_inverse=True)
    meeting = builder.nodes(
        NodeKind.LAST_ARRIVAL, 0, all_of["arrived"][first], all_of["lacking"][first].astype(np.int64)
    )
    arrived, start, leave = all_of["arrived"], all_of["start_ns"], all_of["leave"]
    late = ~all_of["told"] | (arrived - start <= all_of["clock_uncertainty_ns"])
    builder.edges(EdgeKind.LOCAL, all_of["start"][late], leave[late], (all_of["end_ns"] - start)[late])
    builder.edges(EdgeKind.TRANSFER, meeting[which.reshape(-1)], leave, all_of["end_ns"] - arrived)
    builder.edges(EdgeKind.ARRIVAL, all_of["start"], meeting[which.reshape(-1)], 0)


def assembled(
    builder: GraphBuilder,
    window: StepWindow,
    ends: Array,
    *,
    previous_ends: Array | None = None,
    recordings: Sequence[Events] = (),
    waits_recorded: Sequence[bool] = (),
    matched: int = 0,
    unmatched: int = 0,
) -> Graph:
    """Assembles the graph, dropping and counting edges that lead back in time. See `Graph` for the arguments."""
    nodes = [np.concatenate(columns) for columns in zip(*builder.node_columns, strict=True)]
    edges = [np.concatenate(columns) for columns in zip(*builder.edge_columns, strict=True)]
    time, (source, target) = nodes[0], edges[:2]
    consistent = time[source] <= time[target]
    order, acyclic = _order(time, source[consistent], target[consistent])
    consistent[np.flatnonzero(consistent)[~acyclic]] = False
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    source, target = place[source[consistent]], place[target[consistent]]
    by_target = np.argsort(target, kind="stable")
    source, target = source[by_target], target[by_target]
    lag, over, edge_kind = (column[consistent][by_target] for column in edges[2:])
    time, duration, kind, recording, at = (column[order] for column in nodes)
    none = np.zeros(0, np.int64)
    slack = time.copy()
    earliest = np.full(len(time), np.iinfo(np.int64).min, np.int64)
    np.maximum.at(earliest, target, time[source] + lag + np.where(over, duration[source], 0))
    has = np.zeros(len(time), bool)
    has[target] = True
    slack[has] = time[has] - earliest[has]
    return Graph(
        window=window, recordings=list(recordings), time=time, duration=duration, kind=kind, recording=recording, place=at,
        first=np.searchsorted(target, np.arange(len(time) + 1)), source=source, target=target, lag=lag, over=over,
        edge_kind=edge_kind, slack=slack,
        previous_ends=np.sort(place[none if previous_ends is None else previous_ends]), ends=np.sort(place[ends]),
        waits_recorded=list(waits_recorded), matched=matched, unmatched=unmatched,
        contradicting=int((~consistent).sum()),
    )  # fmt: skip


def _order(time: Array, source: Array, target: Array) -> tuple[Array, Array]:
    """A topological order, and which edges it respects: all but those in cycles of simultaneous moments."""
    level = np.zeros(len(time), np.int64)
    level_edges = np.flatnonzero(time[source] == time[target])
    a, b = source[level_edges], target[level_edges]
    for _ in range(MAX_ROUNDS):
        wrong = level[a] >= level[b]
        if not wrong.any():
            break
        np.maximum.at(level, b[wrong], level[a[wrong]] + 1)
    acyclic = np.ones(len(source), bool)
    acyclic[level_edges] = level[a] < level[b]
    return np.lexsort((level, time)), acyclic
