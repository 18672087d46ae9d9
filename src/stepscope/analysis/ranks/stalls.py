"""The cost of waits in collectives for the waiting rank: how much sooner it would have continued without them.

A collective runs on its own stream or thread and costs nothing until the rank stalls for its result. Of consecutive
collectives, such as gradient buckets, each waits for a late rank, but the time is lost once. So a stream's collectives
are examined together, from one *sync point* of the rank to the next. Without a wait, the following ones start as soon
as they are launched and the previous one has ended. When the last one would have ended without the first wait, without
the first two, and so on gives the cost of each; the sum is at most the stall.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.analysis.recording import NEVER, Array, Columns
from stepscope.formats.consecutive import run_starts
from stepscope.link.intervals import Intervals, union

MIN_STALL_NS = 5_000
"""A shorter pause is one between kernels, and no sign of waiting for a collective."""
_FOREVER = np.iinfo(np.int64).max // 4


@dataclass(frozen=True, slots=True)
class RankActivity:
    """What a rank did besides its collectives.

    Args:
        busy: when it computed or copied.
        start, end, launch: of each piece of device work, by start (ns); NEVER if the launch is unknown.
        returned: when calls that waited for the device returned, in order (ns).
    """

    busy: Intervals
    start: Array
    end: Array
    launch: Array
    returned: Array

    def lead(self) -> Array:
        """By how much earlier each piece of work could have started, as far as its launch is known (ns)."""
        delay = np.where(self.launch == NEVER, _FOREVER, self.start - self.launch)
        min_delay = max(int(delay.min(initial=_FOREVER)), 0)
        return np.where(self.launch == NEVER, _FOREVER, np.maximum(delay - min_delay, 0))

    def waited(self, since: Array) -> Array:
        """When the host next returned from a wait for the device (ns): work launched later would also have moved."""
        return np.append(self.returned, _FOREVER)[np.searchsorted(self.returned, since)]

    def ahead(self, work: Array, since: Array) -> Array:
        """By how much earlier pieces of work could have started, had the rank continued before a given time (ns)."""
        return np.where(self.launch[work] >= self.waited(since), _FOREVER, self.lead()[work])


@dataclass(frozen=True, slots=True)
class Stalls:
    """The cost of a rank's collectives.

    Args:
        since, until: the time that each one's wait cost (ns); equal for nothing. No two overlap.
        stalled: whether the rank stalled until it had ended.
        still: all stalls for collectives, waiting or not.
    """

    since: Array
    until: Array
    stalled: Array
    still: Intervals


def find_stalls(rows: Columns, activity: RankActivity) -> Stalls:
    """Computes the cost of collectives; `rows` has their `start_ns`, `end_ns`, `wait_ns`, `launch_ns` (NEVER if
    unknown) and `stream`, on which they run one after the other."""
    order = np.lexsort((rows["end_ns"], rows["start_ns"], rows["stream"]))
    rows = {name: values[order] for name, values in rows.items()}
    start, end = rows["start_ns"], rows["end_ns"]
    # A recorded end may lie slightly after the start of the next one on the stream.
    same_stream = rows["stream"][1:] == rows["stream"][:-1]
    end[:-1] = np.where(same_stream, np.minimum(end[:-1], start[1:]), end[:-1])
    gap, since, stalled = _sync_points(rows, activity)
    opens = np.ones(len(start), bool)
    opens[1:] = ~same_stream | stalled[:-1]
    section = opens.cumsum() - 1
    first = np.flatnonzero(opens)
    last = np.append(first[1:], len(start))[: len(first)] - 1
    without, having = _ends(rows, activity, section, first, last)
    is_sync = stalled[last]
    floor = since[last]
    for section_of, overlapping in _together(gap[last], start[last], end[last], is_sync):
        floor[section_of] = max(floor[section_of], without[first[overlapping]])
    waited = np.bincount(section, rows["wait_ns"]) > 0
    floor = _floors(floor, np.where(waited, without[first], end[last]), end[last], is_sync, activity)
    floor, ceiling = floor[section], end[last][section]
    since_ns, until = (np.minimum(np.maximum(bound, floor), ceiling) for bound in (without, having))
    costs = np.flatnonzero(is_sync[section] & (rows["wait_ns"] > 0) & (since_ns < until))
    costs = costs[np.lexsort((since_ns[costs], until[costs]))]
    since_ns[costs[1:]] = np.maximum(since_ns[costs[1:]], until[costs[:-1]])
    edges = np.stack([start, start])
    edges[:, costs] = np.stack([np.minimum(since_ns, until), until])[:, costs]
    # A collective that others follow is placed before them, so that their costs lie within their own time.
    inner = np.flatnonzero(section[1:] == section[:-1])
    edges[:, inner] += start[inner + 1] - edges[1, inner]
    in_order, stalled_in_order = np.empty_like(edges), np.empty_like(stalled)
    in_order[:, order], stalled_in_order[order] = edges, stalled
    inside, stall_start = is_sync[section], np.maximum(start, since[last][section])
    return Stalls(in_order[0], in_order[1], stalled_in_order, union(stall_start[inside], end[inside]))


def _sync_points(rows: Columns, activity: RankActivity) -> tuple[Array, Array, Array]:
    """For each collective: the pause in which it ended, since when the rank stalled then, and whether for this one."""
    start, end, busy = rows["start_ns"], rows["end_ns"], activity.busy
    gap = np.searchsorted(busy.start, end, side="left")
    since = np.append(start.min(initial=_FOREVER), busy.end)[gap]
    resumed = np.append(busy.start, _FOREVER)[gap]
    # Work launched too late to start sooner was delayed by the host, not by the collective.
    following = np.searchsorted(activity.start, end, side="left")
    some = np.flatnonzero(following < len(activity.start))
    since[some] = np.maximum(since[some], end[some] - activity.ahead(following[some], end[some]))
    started = np.searchsorted(np.sort(start), end, side="left")
    others = started > np.searchsorted(np.sort(end), end, side="right")
    # If others are under way, the rank stood still for the last one that ended before it continued.
    latest = np.zeros(len(busy.start) + 1, np.int64)
    np.maximum.at(latest, gap, end)
    went_on = (end == latest[gap]) & (resumed - end <= end - since)
    stalled = (end - since >= MIN_STALL_NS) & (~others | went_on)
    # If the next one of the stream had been launched by then, the rank may have waited only for that one, unless it
    # continued sooner. One of unknown launch that follows at once may have been launched.
    launch = np.where(rows["launch_ns"] == NEVER, start - MIN_STALL_NS, rows["launch_ns"])[1:]
    queued = (rows["stream"][1:] == rows["stream"][:-1]) & (launch < end[:-1])
    stalled[:-1] &= ~(queued & (end[1:] <= resumed[:-1]))
    return gap, since, stalled


def _ends(rows: Columns, activity: RankActivity, section: Array, first: Array, last: Array) -> tuple[Array, Array]:
    """When the last collective of each one's section would have ended without this and the following waits, and without
    only the following ones (ns)."""
    start, end = rows["start_ns"], rows["end_ns"]
    opened = start[first][section]
    ready = np.maximum(_ready(rows, activity), opened)
    ready[first] = start[first]
    start_without = ready.copy()
    start_without[1:] = np.maximum(ready[1:], np.where(section[1:] == section[:-1], end[:-1], ready[1:]))
    takes = np.maximum(end - rows["wait_ns"] - start_without, 0)
    total = takes.cumsum()
    behind = total[last][section] - total + takes
    # The latest that each following collective allows: section by section, from the end.
    ways = ready - opened + behind
    apart = (section.max(initial=0) - section) * (ways.max(initial=0) + 1)
    latest = np.maximum.accumulate((ways + apart)[::-1])[::-1] - apart + opened
    without = latest.copy()
    inner = np.setdiff1d(np.arange(len(start)), first, assume_unique=True)
    without[inner] = np.maximum(end[inner - 1] + behind[inner], latest[inner])
    having = np.append(without[1:], 0)[: len(start)]
    having[last] = end[last]
    return without, having


def _ready(rows: Columns, activity: RankActivity) -> Array:
    """When each collective could have started but for its stream (ns): launched, and earlier launched work had ended."""
    start, launch = rows["start_ns"], rows["launch_ns"]
    launched = np.flatnonzero(activity.launch != NEVER)
    launched = launched[np.argsort(activity.launch[launched], kind="stable")]
    ended = np.append(NEVER, np.maximum.accumulate(activity.end[launched]))
    before = np.searchsorted(activity.launch[launched], launch, side="left")
    ready: Array = np.where(launch == NEVER, start, np.maximum(launch, ended[before]))
    return np.minimum(ready, start)


def _floors(floor: Array, without: Array, end: Array, is_sync: Array, activity: RankActivity) -> Array:
    """The earliest start of each sync point's cost (ns): with earlier ones, it is at most the time by which all work of
    the rank until the next one could have started earlier.

    Args:
        floor: the earliest start for other reasons.
        without, end: when each would have ended without its waits, and ended.
        is_sync: whether the rank stalled for it.
    """
    result: Array = floor.copy()
    points = np.flatnonzero(is_sync)[np.argsort(end[is_sync], kind="stable")]
    leads = _leads(end[points], activity)
    before, reached = [0], -_FOREVER
    for place, point in enumerate(points.tolist()):
        until = int(end[point])
        slack = min((lead - before[place] + before[moved] for moved, lead in leads[place]), default=_FOREVER)
        result[point] = max(int(floor[point]), until - max(slack, 0))
        before.append(before[-1] + max(until - max(int(without[point]), int(result[point]), reached), 0))
        reached = max(reached, until)
    return result


def _leads(end: Array, activity: RankActivity) -> list[list[tuple[int, int]]]:
    """For each interval between two sync points: how many upstream waits shift it, and its remaining slack (ns)."""
    leads: list[list[tuple[int, int]]] = [[] for _ in end]
    of = np.searchsorted(end, activity.start, side="right") - 1
    moved = np.searchsorted(activity.waited(end), activity.launch, side="right")
    work = np.flatnonzero((of >= 0) & (moved <= of) & (activity.launch != NEVER))
    work = work[np.lexsort((moved[work], of[work]))]
    firsts = np.flatnonzero(run_starts(of[work], moved[work]))
    if len(firsts):
        min_leads = np.minimum.reduceat(activity.lead()[work], firsts)
        for at, lead in zip(work[firsts].tolist(), min_leads.tolist(), strict=True):
            leads[int(of[at])].append((int(moved[at]), lead))
    return leads


def _together(gap: Array, start: Array, end: Array, is_sync: Array) -> list[tuple[int, int]]:
    """Pairs of sections that end in the same pause, the first while the second's last collective is under way."""
    order = np.flatnonzero(is_sync)[np.lexsort((end[is_sync], gap[is_sync]))]
    shared = np.flatnonzero(gap[order][1:] == gap[order][:-1])
    pairs = []
    for place in shared.tolist():
        first = int(order[place])
        for second in order[place + 1 :].tolist():
            if gap[second] != gap[first]:
                break
            if start[second] < end[first]:
                pairs.append((first, second))
    return pairs


def until_woken(start: Array, end: Array, busy: Intervals) -> Array:
    """When collectives of the host were done (ns): the library wakes the training loop before its own event ends.

    If the loop paused for a collective and continued at its end within a tenth of the pause, it was done then.
    """
    done: Array = end.copy()
    low = np.maximum(np.searchsorted(busy.start, start, side="right"), 1)
    high = np.searchsorted(busy.start, done, side="left")
    for row in np.flatnonzero(low < high).tolist():
        woken = busy.start[low[row] : high[row]]
        since = np.maximum(busy.end[low[row] - 1 : high[row] - 1], start[row])
        at = int((woken - since).argmax())
        if 10 * (done[row] - woken[at]) <= woken[at] - since[at]:
            done[row] = woken[at]
    return done
