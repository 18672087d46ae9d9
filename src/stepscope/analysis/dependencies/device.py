"""Finds the order in which a device's work ran, and which calls of the host waited for it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from stepscope.analysis.dependencies.builder import EdgeKind, GraphBuilder
from stepscope.analysis.dependencies.events import (
    COPY,
    FROM_DEVICE,
    GRAPH,
    STREAM_WAIT,
    WAIT_DEVICE,
    WAIT_EVENT,
    Events,
    places,
)
from stepscope.analysis.dependencies.host import Threads
from stepscope.analysis.recording import NEVER, Array, Columns
from stepscope.analysis.steps.gaps import KERNEL_WAIT_NS
from stepscope.formats.consecutive import run_starts

FULL_QUEUE = 1024
"""Launches that a CUDA stream accepts before the next one waits, as far as is known; if a recording shows that a
stream delayed its launches at another number, that is used."""
ENOUGH = 3
"""The fewest launches that show a usual time."""
MAX_LOOKBACK = 4
"""How many pieces of work may appear to start after the call that waited for them."""
AT_THE_LIMIT = 8
"""This many launches with the most outstanding, all of them slow, show that this is the limit."""
SLOW_CALL = 3
"""A call that took this many times the median waited."""
SOON_NS = 10_000
"""Work that starts so soon after other work ended, and later than its own launch and stream explain, waited for it."""
UNEXPLAINED_NS = 2_000
"""A smaller delay counts as explained."""

Pairs = tuple[Array, Array]


@dataclass(frozen=True, slots=True)
class Waits:
    """What calls and streams waited for.

    Args:
        returned: pairs of a call and the work whose end let it return.
        queued: pairs of a call and the work whose start let it return.
        event_waits: pairs of work and the work on another stream whose end let it start.
        busy_ns: each call's duration without waiting; -1 for all of it.
        recorded: whether stream waits were recorded (`cuda_sync`), or there were none.
    """

    returned: Pairs
    queued: Pairs
    event_waits: Pairs
    busy_ns: Array
    recorded: bool


class _Streams:
    def __init__(self, events: Events) -> None:
        work, call = events.work, events.work["call"]
        self.launch = (
            np.where(call >= 0, events.calls["start_ns"][call], work["start_ns"])
            if len(events.calls["id"])
            else work["start_ns"]
        )
        keys = np.stack([work["device"], work["stream"]], axis=1) if len(call) else np.zeros((0, 2))
        self.keys, self.of = np.unique(keys, axis=0, return_inverse=True)
        self.of = self.of.reshape(-1)
        order = np.lexsort((work["start_ns"], self.launch, self.of))
        edges = np.searchsorted(self.of[order], np.arange(len(self.keys) + 1))
        self.rows = [order[a:b] for a, b in pairwise(edges)]
        self.launches = [self.launch[rows] for rows in self.rows]

    def numbers(self, device: int, stream: int | None) -> list[int]:
        """The streams of a device, or only the given one."""
        chosen = self.keys[:, 0] == device
        if stream is not None:
            chosen = chosen & (self.keys[:, 1] == stream)
        return np.flatnonzero(chosen).tolist()

    def last(self, stream: int, until: int, back: int = 0) -> int:
        """The last work of a stream that was launched by then, or the one `back` before it; -1 if none."""
        at = int(np.searchsorted(self.launches[stream], until, side="right")) - 1 - back
        return int(self.rows[stream][at]) if at >= 0 else -1

    def next(self, stream: int, since: int) -> int:
        """The first work of a stream that was launched since then; -1 if none."""
        at = int(np.searchsorted(self.launches[stream], since, side="left"))
        return int(self.rows[stream][at]) if at < len(self.rows[stream]) else -1


def find_waits(events: Events) -> Waits:
    """Finds what calls waited for: by recorded waits, else by what had ended when a call returned."""
    streams = _Streams(events)
    calls, work = events.calls, events.work
    busy_ns = np.full(len(calls["id"]), -1, np.int64)
    returned = _returns(events, streams)
    waiting, source = returned
    returns = calls["end_ns"][waiting] - work["end_ns"][source]
    blocked = work["end_ns"][source] > calls["start_ns"][waiting]
    busy_ns[waiting[blocked]] = np.maximum(returns[blocked], 0)
    queued = _queue(events, streams, busy_ns)
    recorded = bool(len(events.waits["role"])) or not (calls["does"] == STREAM_WAIT).any()
    return Waits(returned, queued, _event_waits(events, streams), busy_ns, recorded)


def _pairs(pairs: list[tuple[int, int]]) -> Pairs:
    columns = np.array(pairs, np.int64).reshape(-1, 2)
    return columns[:, 0], columns[:, 1]


def _returns(events: Events, streams: _Streams) -> Pairs:
    """Pairs of calls that wait for the device and the work whose end let them return."""
    calls, work, waits = events.calls, events.work, events.waits
    start, end = work["start_ns"], work["end_ns"]
    pairs: list[tuple[int, int]] = []
    record = places(calls["correlation"], waits["wait_on_correlation"])
    stated = {
        int(correlation): row
        for row, correlation in enumerate(waits["correlation"].tolist())
        if waits["role"][row] != "stream for event"
    }
    unlinked = np.flatnonzero(work["call"] < 0)
    unlinked = unlinked[np.argsort(end[unlinked], kind="stable")]
    for call in np.flatnonzero(calls["does"] >= WAIT_EVENT).tolist():
        at, until = int(calls["start_ns"][call]), int(calls["end_ns"][call])
        row = stated.get(int(calls["correlation"][call]))
        certain = row is not None
        if row is not None:
            on = int(waits["wait_on_stream"][row])
            on = on if on != NEVER else int(waits["stream"][row])
            by_device = waits["role"][row] == "host for device"
            on_streams = streams.numbers(int(waits["device"][row]), None if by_device else on)
            at = int(calls["start_ns"][record[row]]) if record[row] >= 0 else at
        else:
            on_streams = list(range(len(streams.keys)))
            certain = calls["does"][call] == WAIT_DEVICE
        # Skips work that starts after the call because its clock is slightly ahead.
        last = [
            next((piece for piece in before if piece < 0 or start[piece] < until), -1)
            for before in (
                [streams.last(stream, at, back) for back in range(1 if row is None else MAX_LOOKBACK)]
                for stream in on_streams
            )
        ]
        # Recorded waits are trusted even if the clocks of host and device differ slightly.
        late = until + (events.resolution if row is None else SOON_NS)
        ended = [piece for piece in last if piece >= 0 and end[piece] <= late and start[piece] < until]
        if ended and not certain:
            ended = [max(ended, key=lambda piece: int(end[piece]))]
        if (lost := _unlinked_end(end, unlinked, int(calls["start_ns"][call]), until + events.resolution)) >= 0:
            ended.append(lost)
        pairs += [(call, piece) for piece in ended]
    copies = _within_their_calls(events)
    pairs += zip(work["call"][copies].tolist(), copies.tolist(), strict=True)
    return _pairs(pairs)


def _within_their_calls(events: Events) -> Array:
    """Copies of memory that is pageable, or of unknown kind, that end before their calls do."""
    calls, work = events.calls, events.work
    rows = np.flatnonzero(work["pageable"] & (work["call"] >= 0))
    call, end = work["call"][rows], work["end_ns"][rows]
    ended = (calls["start_ns"][call] < end) & (end <= calls["end_ns"][call] + events.resolution)
    return rows[(calls["does"][call] == COPY) & ended]


def waited_copies(events: Events) -> Array:
    """Rows of copies from the device into pageable memory, whose calls return when all is copied (CUDA runtime API, API
    synchronization behavior), if the recorded times confirm it."""
    rows = _within_their_calls(events)
    return rows[events.work["direction"][rows] == FROM_DEVICE]


def _unlinked_end(end: Array, unlinked: Array, since: int, until: int) -> int:
    """The last work of unknown launch that ends within a call: it may have been launched before. -1 for none."""
    at = int(np.searchsorted(end[unlinked], until, side="right")) - 1
    return int(unlinked[at]) if at >= 0 and end[unlinked[at]] > since else -1


def _queue(events: Events, streams: _Streams, busy_ns: Array) -> Pairs:
    """Launches that wait until a stream has room; sets their `busy_ns`."""
    calls, work = events.calls, events.work
    launches = calls["does"] <= GRAPH
    long = calls["end_ns"] - calls["start_ns"]
    usual = int(np.median(long[launches])) if launches.any() else 0
    call_of, start_of = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for rows in streams.rows:
        rows = rows[work["call"][rows] >= 0]
        call = work["call"][rows]
        first = run_starts(call)  # a graph's launch uses one slot
        rows, call = rows[first], call[first]
        if not len(rows):
            continue
        until = calls["end_ns"][call]
        started = np.searchsorted(np.sort(work["start_ns"][rows]), until, side="right")
        outstanding = np.arange(1, len(rows) + 1) - started
        depth = int(outstanding.max())
        full = outstanding == depth
        is_limit = full.sum() >= AT_THE_LIMIT and np.median(long[call[full]]) >= SLOW_CALL * usual
        limit = depth if is_limit and depth > 0 else max(FULL_QUEUE, depth)
        if len(rows) <= limit:
            continue
        later, before = call[limit:], rows[: len(rows) - limit]
        valid = work["start_ns"][before] <= calls["end_ns"][later]
        later, before = later[valid], before[valid]
        waited = work["start_ns"][before] > calls["start_ns"][later]
        busy_ns[later[waited]] = np.minimum(long[later[waited]], usual)
        call_of.append(later)
        start_of.append(before)
    return np.concatenate(call_of), np.concatenate(start_of)


def _event_waits(events: Events, streams: _Streams) -> Pairs:
    """Pairs of work and the work of another stream that it waits for: recorded, else from the order of torch's calls."""
    calls, work, waits = events.calls, events.work, events.waits
    start, end = work["start_ns"], work["end_ns"]
    pairs: list[tuple[int, int]] = []
    record = places(calls["correlation"], waits["wait_on_correlation"])
    waiting_call = places(calls["correlation"], waits["correlation"])
    stated = np.zeros(len(calls["id"]), bool)
    for row in np.flatnonzero((waits["role"] == "stream for event") & (waiting_call >= 0)).tolist():
        call = int(waiting_call[row])
        stated[call] = True
        since = int(calls["start_ns"][call])
        until = int(calls["start_ns"][record[row]]) if record[row] >= 0 else since
        device, on = int(waits["device"][row]), int(waits["wait_on_stream"][row])
        pairs += [
            (streams.next(waiter, since), streams.last(source, until))
            for waiter in streams.numbers(device, int(waits["stream"][row]))
            for source in streams.numbers(device, on)
        ]
    guessed = np.flatnonzero((calls["does"] == STREAM_WAIT) & ~stated)
    if len(guessed) and len(streams.keys) > 1:
        pairs += _guessed(events, streams, guessed)
    return _pairs(
        [
            (w, s)
            for w, s in pairs
            if w >= 0 and s >= 0 and w != s and end[s] <= start[w] + events.resolution and start[s] < start[w]
        ]
    )


def _guessed(events: Events, streams: _Streams, guessed: Array) -> list[tuple[int, int]]:
    calls, work = events.calls, events.work
    launched = np.flatnonzero(work["call"] >= 0)
    thread = calls["thread"][work["call"][launched]]
    pairs = []
    by_launch = launched[np.argsort(streams.launch[launched], kind="stable")]
    all_launches = streams.launch[by_launch]
    for caller in np.unique(calls["thread"][guessed]).tolist():
        rows = launched[thread == caller]
        rows = rows[np.argsort(streams.launch[rows], kind="stable")]
        mine = guessed[calls["thread"][guessed] == caller]
        since = calls["start_ns"][mine]
        following = np.searchsorted(streams.launch[rows], since, side="left")
        # The last launch on a stream other than the waiting one: usually few steps back.
        for then, place in zip(since.tolist(), following.tolist(), strict=True):
            if place == len(rows):
                continue
            waiter = int(rows[place])
            before = int(np.searchsorted(all_launches, then, side="left")) - 1
            while before >= 0 and streams.of[by_launch[before]] == streams.of[waiter]:
                before -= 1
            if before >= 0:
                pairs.append((waiter, int(by_launch[before])))
    return pairs


def add_streams(
    builder: GraphBuilder, events: Events, waits: Waits, threads: Threads, work: Array, leaving: Array
) -> None:
    """Adds the dependencies of device work and of the calls that wait for it; `leaving` is the node at which a matched
    collective ends, -1 for other work."""
    rows, calls = events.work, events.calls
    start, end = rows["start_ns"], rows["end_ns"]
    stream = np.stack([rows["device"], rows["stream"]], axis=1)
    follows = np.flatnonzero((stream[1:] == stream[:-1]).all(axis=1)) + 1 if len(start) else np.zeros(0, np.int64)
    linked = np.flatnonzero(rows["call"] >= 0)
    call = rows["call"][linked]
    launch = calls["start_ns"][call]
    latency = _usual_latency(events, linked, _busy_until(rows)[linked] <= launch)
    gap = start[follows] - end[follows - 1]
    early = np.full(len(start), NEVER, np.int64)
    early[linked] = launch + latency
    waiters, signalled_by = waits.event_waits
    unhindered = ~np.isin(follows, waiters) & (early[follows] < end[follows - 1])
    usual_gap = _median(gap[unhindered & (gap >= 0) & (gap < KERNEL_WAIT_NS)])

    def after(kind: int, sources: Array, targets: Array, lags: Array) -> None:
        ends = leaving[sources] >= 0
        builder.edges(kind, work[sources[~ends]], targets[~ends], lags[~ends], over=True)
        builder.edges(kind, leaving[sources[ends]], targets[ends], lags[ends])

    builder.edges(EdgeKind.LAUNCH, threads.start[call], work[linked], np.minimum(latency, start[linked] - launch))
    after(EdgeKind.STREAM, follows - 1, work[follows], np.minimum(gap, usual_gap))
    after(EdgeKind.EVENT_WAIT, signalled_by, work[waiters], np.minimum(start[waiters] - end[signalled_by], usual_gap))
    waiting, source = waits.returned
    back = calls["end_ns"][waiting] - end[source]
    blocked = end[source] > calls["start_ns"][waiting]
    usual = _median(back[blocked])
    after(EdgeKind.SYNC, source, threads.end[waiting], np.where(blocked, back, np.minimum(back, usual)))
    later, first = waits.queued
    builder.edges(EdgeKind.QUEUE, work[first], threads.end[later], 0)
    explained = early.copy()
    explained[follows] = np.maximum(early[follows], end[follows - 1] + np.minimum(gap, usual_gap))
    np.maximum.at(explained, waiters, end[signalled_by] + np.minimum(start[waiters] - end[signalled_by], usual_gap))
    source, likely = _likely(events, explained)
    after(EdgeKind.INFERRED_WAIT, source, work[likely], start[likely] - end[source])


def _likely(events: Events, explained: Array) -> Pairs:
    """Pairs of work and the work of another stream that started just after its end, for no other reason."""
    rows = events.work
    late = np.flatnonzero(rows["start_ns"] - explained > UNEXPLAINED_NS)
    order = np.argsort(rows["end_ns"], kind="stable")
    if not len(late):
        return late, late
    at = np.searchsorted(rows["end_ns"][order], rows["start_ns"][late] + events.resolution, side="right") - 1
    source = order[np.maximum(at, 0)]
    soon = (at >= 0) & (rows["start_ns"][late] - rows["end_ns"][source] <= SOON_NS)
    same = rows["device"][source] == rows["device"][late]
    other = (rows["stream"][source] != rows["stream"][late]) & same
    # Work that starts at the same time as its source waited for something else.
    real = rows["start_ns"][source] < rows["start_ns"][late]
    chosen = soon & other & real
    return source[chosen], late[chosen]


def _busy_until(rows: Columns) -> Array:
    """The latest end of all work that started earlier on the same device; NEVER for the first."""
    result = np.full(len(rows["start_ns"]), NEVER, np.int64)
    for device in np.unique(rows["device"]).tolist():
        local = np.flatnonzero(rows["device"] == device)
        local = local[np.argsort(rows["start_ns"][local], kind="stable")]
        result[local[1:]] = np.maximum.accumulate(rows["end_ns"][local])[:-1]
    return result


def _usual_latency(events: Events, linked: Array, idle: Array) -> Array:
    """Usual time from a launch to the start of its work on an idle device, by kind of call and copy direction; with few
    samples, at most what a device needs after the call."""
    calls, call = events.calls, events.work["call"][linked]
    delay = events.work["start_ns"][linked] - calls["start_ns"][call]
    long = calls["end_ns"][call] - calls["start_ns"][call]
    result = long + KERNEL_WAIT_NS
    sort = calls["does"][call] * 3 + events.work["direction"][linked]
    for kind in np.unique(sort).tolist():
        same = sort == kind
        when_idle = same & idle
        if when_idle.sum() >= ENOUGH:
            result[same] = _median(delay[when_idle])
        elif same.any():
            usual = _median(delay[when_idle]) if when_idle.any() else max(int(delay[same].min()), 0)
            usual = usual if when_idle.any() or not idle.any() else min(usual, _median(delay[idle]))
            result[same] = np.minimum(result[same], usual)
    # A copy that starts within its call was prepared there: the host copies pageable memory first. A copy from the
    # device needs no preparation: the call waits for it, and it for the work before it.
    within = (calls["does"][call] == COPY) & (delay <= long)
    waits = np.isin(linked, waited_copies(events))
    result = np.where(waits & ~idle, np.minimum(result, KERNEL_WAIT_NS), result)
    return np.where(within & ~waits, delay, result)


def _median(values: Array) -> int:
    return int(np.median(values)) if len(values) else 0
