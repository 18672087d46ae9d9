"""Finds the ranks that others wait for in collectives, and what the late ones did meanwhile.

A rank that arrives early waits for the last one. The two are compared since they last continued together: the end of
the previous collective of both for which the early one stalled. From there each has its own interval to its arrival, by
its own clock; the intervals differ by the wait. Each is divided completely, so that the differences of the parts add up
to the wait. A wait is weighted by its cost over its length (`stalls`): waits that overlap computation are free.

A part may itself be a wait, for a third rank in another group's collective, which is then the cause. Such chains are
followed back with weights: a wait passes part of its weight to each wait of the late rank within it, and takes weight
from each wait of the early rank, which would otherwise have waited longer; it passes on no more than its length, since
skew that is recovered during the rank's own waits costs nobody. So the charges of all ranks add up to the cost of all
waits. Where collectives could not be matched (pipeline stages with unaligned clocks), weights do not cancel, and each
wait stays with the rank that arrived last.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.analysis.ranks.stalls import RankActivity, find_stalls, until_woken
from stepscope.analysis.recording import (
    COMMUNICATION,
    COPY,
    NEVER,
    Array,
    Columns,
    Recordings,
    device_work,
    marks_steps,
    once,
    outer_depth,
    rank_batches,
    recorded_times,
    recordings,
    steps_of,
    union_of,
)
from stepscope.analysis.steps.gaps import WAITS_FOR_DEVICE
from stepscope.formats.consecutive import run_starts
from stepscope.link.across_ranks.groups import POINT_TO_POINT
from stepscope.link.across_ranks.matching import TOGETHER
from stepscope.link.columns import places
from stepscope.link.intervals import Intervals, expanded, split, union
from stepscope.query.rank_exclusion import valid_ranks
from stepscope.query.scope import Scope

CAUSES = (
    "input", "computation", "copies", "communication", "garbage collection", "compilation", "host", "profiler",
    "not recorded", "before the recording",
)  # fmt: skip
"""What a late rank did longer than one that waited for it. `communication` excludes waiting; `host` is operators,
ranges, Python and runtime calls on an idle device; the last two are not in its recording."""

_COLLECTIVES = f"""
    SELECT rank, span, coalesce(match_id, -1) AS match_id, start_ns, end_ns,
        coalesce(last_rank, -1) AS last_rank, coalesce(least(wait_ns, end_ns - start_ns), 0) AS wait_ns,
        match_id IS NOT NULL AND coalesce(operation IN {TOGETHER} OR operation IN {POINT_TO_POINT}
            AND min(end_ns) OVER same >= max(start_ns) OVER same, false) AS together,
        id IS NULL AS on_host, dense_rank() OVER (ORDER BY device, stream, thread) AS stream, coalesce(launch_ns, {NEVER}) AS launch_ns
    FROM collective LEFT JOIN (SELECT rank, id, device, stream, launch_ns FROM device_event) USING (rank, id)
    LEFT JOIN (SELECT rank, id AS host_id, thread FROM host_event WHERE role = 'communication') USING (rank, host_id)
    WINDOW same AS (PARTITION BY match_id) ORDER BY rank, span, start_ns, end_ns
"""
_HOST = """
    SELECT rank, span, start_ns, start_ns + dur_ns AS end_ns, CASE
            WHEN role = 'dataloader' THEN 0 WHEN role = 'garbage_collection' THEN 1
            WHEN role = 'compile' THEN 2 WHEN kind = 'overhead' THEN 3 ELSE 4
        END::TINYINT AS doing
    FROM host_event
    WHERE {ranks} AND role IS DISTINCT FROM 'step' AND (
        role IN ('dataloader', 'garbage_collection', 'compile') OR kind = 'overhead'
        OR depth <= {depth} AND kind IN ('operator', 'annotation', 'python', 'runtime'))
"""
WAITED_NS = 10_000
"""A call that returns sooner did not wait for the device."""
_OPERATORS = """
    SELECT rank, span, start_ns, start_ns + dur_ns AS end_ns FROM host_event
    WHERE {ranks} AND kind = 'operator' AND role IS DISTINCT FROM 'communication'
"""
_RETURNED = f"""
    SELECT rank, span, start_ns + dur_ns AS end_ns FROM host_event
    WHERE {{ranks}} AND {WAITS_FOR_DEVICE} AND dur_ns >= {WAITED_NS}
    UNION ALL
    SELECT rank, span, launch_end_ns FROM device_event
    WHERE {{ranks}} AND kind = 'copy' AND copy_kind = 'DtoH' AND start_ns + dur_ns <= launch_end_ns
"""
"""When calls that had waited for the device returned."""
_OF_COLLECTIVES = ("start_ns", "end_ns", "wait_ns", "launch_ns", "stream")
_INPUT, _COLLECTION, _COMPILATION, _PROFILER, _OTHER = range(5)
# The layers to which `split` assigns a stretch of time, in this order, and the position of each in `CAUSES`.
_COMPUTATION, _COPIES, _WAIT, _TRANSFER = range(4)
_LAYERS = (1, 2, None, 3, 0, 4, 5, 7, 6, 8)


_CONTRADICTS = 0.25
"""Waits are not followed back if more than this share of all waiting would become negative charges."""


@dataclass(frozen=True, slots=True)
class RankSkew:
    """Waits of ranks for others in the requested steps, one per row.

    Args:
        match: `collective.match_id`.
        waiter, late: the rank that waited, and the one that arrived last.
        step: step in which it waited; -1 outside of steps.
        cost_ns: how much sooner it would have continued without the wait (`stalls`).
        requested: whether it was requested.
        weight: how much of it is charged to what the late rank did, with the waits that it caused.
        causes_ns: what the late rank did longer, a column per cause; times the weight it is the charge.
        late_start, late_end, wait_start, wait_end: the compared intervals (ns), of the recordings `late_span`,
            `wait_span`.
        collectives, undecided: matched collectives in the requested steps, and those whose last rank is unknown or
            damaged.
        attended, last: by rank: decided collectives that it took part in, and at which it arrived last.
        steps, step_ns: mean number and length of steps per rank; 1 and None if none are marked.
        ranks: ranks with matched collectives.
        followed: whether waits were followed back to their origin.
    """

    match: Array
    waiter: Array
    late: Array
    step: Array
    wait_ns: Array
    cost_ns: Array
    requested: Array
    weight: Array
    causes_ns: Array
    late_start: Array
    late_end: Array
    late_span: Array
    wait_start: Array
    wait_end: Array
    wait_span: Array
    collectives: int
    undecided: int
    attended: dict[int, int]
    last: dict[int, int]
    steps: float
    step_ns: float | None
    ranks: tuple[int, ...]
    followed: bool

    @property
    def charged_ns(self) -> Array:
        """The charge to the late rank of each row (ns): a column for each of `CAUSES`."""
        return self.causes_ns * self.weight[:, None]

    def by_rank(self, values: Array, *, of: Array | None = None) -> dict[int, Array]:
        """Sums rows by late rank, or by the ranks in `of`: one column or several."""
        sums = np.zeros((max(self.ranks) + 1, *values.shape[1:]), dtype=np.float64)
        np.add.at(sums, self.late if of is None else of, values)
        return {rank: sums[rank] for rank in self.ranks}

    def per_step(self, ns: float) -> float:
        """Converts a sum over all waiting ranks to the wait of one of the others in a mean step (ns)."""
        return ns / self.steps / max(1, len(self.ranks) - 1)


@once
def find_skew(scope: Scope) -> RankSkew | None:
    """Finds whom ranks waited for in the counted or requested steps; None if no collective was matched.

    All undamaged ranks are examined, whichever were requested: skew is relative to the others.
    """
    if scope.has_none("collective"):
        return None
    with (
        Scope(scope.store, all_times=True) as recorded,
        Scope(scope.store, valid_ranks(recorded), all_times=True) as valid,
    ):
        rows = valid.numpy(_COLLECTIVES)
        if rows["rank"].size and valid.ranks != recorded.ranks:
            is_valid = np.isin(rows["last_rank"], valid.ranks)
            rows["last_rank"] = np.where(is_valid, rows["last_rank"], -1)
        if not (rows["match_id"] >= 0).any():
            return None
        steps = _windows(scope, valid)
        waits = _Waits(rows, steps)
        waits.cut(scope.part.window)
        waits.compare(valid)
        return waits.result()


def _windows(scope: Scope, all_ranks: Scope) -> tuple[Recordings, bool]:
    steps = steps_of(all_ranks)
    if not marks_steps(all_ranks):
        return steps, False
    for key, of_rank in steps.items():
        requested = of_rank["counted"] if scope.steps is None else np.isin(of_rank["step"], scope.steps)
        steps[key] = of_rank | {"requested": requested}
    return steps, True


class _Waits:
    """Working state: the collectives of all ranks, and the waits among them."""

    def __init__(self, rows: Columns, steps: tuple[Recordings, bool]) -> None:
        self.rows = rows
        self.key = rows["rank"] * (1 << 16) + rows["span"]
        self.keys, first = np.unique(self.key, return_index=True)
        ends = np.append(first, len(self.key))[1:]
        self.places = {
            key: slice(*edges) for key, *edges in zip(self.keys.tolist(), first.tolist(), ends.tolist(), strict=True)
        }
        self.matched = rows["match_id"] >= 0
        unmatched = rows["match_id"].max() + 1 + np.arange(len(self.key))
        self.match = np.unique(np.where(self.matched, rows["match_id"], unmatched), return_inverse=True)[1]
        self.step, self.in_requested = self._steps(*steps)
        self.marked = steps[1]
        self.steps = steps[0]
        self._pair()

    def _steps(self, steps: Recordings, marked: bool) -> tuple[Array, Array]:
        """The step in which each collective started, -1 outside of steps, and whether it was requested."""
        step = np.full(len(self.key), -1, dtype=np.int64)
        requested = np.full(len(self.key), not marked)
        for key in self.keys.tolist():
            windows, at = steps.get(divmod(key, 1 << 16)), self.places[key]
            if not marked or windows is None or not len(windows["step"]):
                continue
            start = self.rows["start_ns"][at]
            place = np.searchsorted(windows["start_ns"], start, side="right") - 1
            inside = (place >= 0) & (start < windows["end_ns"][place])
            step[at] = np.where(inside, windows["step"][place], -1)
            requested[at] = inside & windows["requested"][place]
        return step, requested

    def cut(self, window: tuple[int, int] | None) -> None:
        """Excludes collectives that start outside the window from the requested ones."""
        if window is not None:
            start = self.rows["start_ns"]
            self.in_requested &= (start >= window[0]) & (start < window[1])

    def _pair(self) -> None:
        """Finds the waits: `wait` and `late` are the rows of the waiting rank and of the last one."""
        rows = self.rows
        order = np.lexsort((rows["rank"], self.match))
        code = self.match * (int(rows["rank"].max()) + 1) + rows["rank"]
        target = self.match * (int(rows["rank"].max()) + 1) + rows["last_rank"]
        place = places(code[order], target)
        waits = (rows["wait_ns"] > 0) & (rows["last_rank"] >= 0) & (rows["last_rank"] != rows["rank"])
        self.wait = np.flatnonzero(waits & (place >= 0))
        self.late = order[place[self.wait]]
        # In order of the last arrival: the waits within a wait ended before.
        order = np.argsort(rows["start_ns"][self.wait] + rows["wait_ns"][self.wait], kind="stable")
        self.wait, self.late = self.wait[order], self.late[order]
        self.of_row = np.full(len(self.key), -1, dtype=np.int64)
        self.of_row[self.wait] = np.arange(len(self.wait))

    def _since(self) -> None:
        """Finds for each wait the rows of the last earlier collective of both ranks for which the waiting one stalled;
        -1 for none."""
        rows, sets = self.rows, self._sets()
        self.since_late = np.full(len(self.wait), -1, dtype=np.int64)
        self.since_wait = np.full(len(self.wait), -1, dtype=np.int64)
        ranks = int(rows["rank"].max()) + 1
        code = self.match * ranks + rows["rank"]
        by_code = np.argsort(code, kind="stable")
        for key in np.unique(self.key[self.wait]).tolist():
            mine = np.flatnonzero(self.key[self.wait] == key)
            at = self.places[key]
            together = np.flatnonzero(rows["together"][at] & self.stalled[at]) + at.start
            if not len(together):
                continue
            together = together[np.argsort(rows["end_ns"][together], kind="stable")]
            groups, of = np.unique(sets[0][self.match[together]], return_inverse=True)
            # The last collective of each group so far, in order of their ends.
            latest = np.where(of[:, None] == np.arange(len(groups)), np.arange(len(together))[:, None], -1)
            latest = np.maximum.accumulate(latest, axis=0)
            ended = rows["end_ns"][together]
            before = np.searchsorted(ended, rows["start_ns"][self.late[mine]], side="right") - 1
            late = rows["rank"][self.late[mine]]
            holds = sets[1][groups][:, late].T
            candidates = np.where(holds & (before >= 0)[:, None], latest[np.maximum(before, 0)], -1)
            place = candidates.max(axis=1, initial=-1)
            has_previous = place >= 0
            row = together[np.maximum(place, 0)]
            target = self.match[row] * ranks + late
            other = by_code[places(code[by_code], target)]
            has_previous &= (code[other] == target) & (self.key[other] == self.key[self.late[mine]])
            self.since_wait[mine] = np.where(has_previous, row, -1)
            self.since_late[mine] = np.where(has_previous, other, -1)

    def _sets(self) -> tuple[Array, Array]:
        """For each match the number of its set of ranks, and for each set which ranks it contains."""
        ranks = int(self.rows["rank"].max()) + 1
        holds = np.zeros((int(self.match.max()) + 1, ranks), dtype=bool)
        holds[self.match, self.rows["rank"]] = True
        packed = np.packbits(holds, axis=1)
        _, first, number = np.unique(packed, axis=0, return_index=True, return_inverse=True)
        return number.ravel(), holds[first]

    def compare(self, scope: Scope) -> None:
        """Divides both stretches of each wait, and finds what the late rank did longer."""
        count = len(self.wait)
        self.stalls_ns = np.stack([self.rows["start_ns"], self.rows["start_ns"]])
        self.stalled = np.zeros(len(self.key), dtype=bool)
        involved = np.unique(self.rows["rank"][np.concatenate([self.late, self.wait])]).tolist()
        began: dict[tuple[int, int], tuple[int, int]] = {}
        layers: dict[int, list[Intervals]] = {}
        for ranks in rank_batches(scope, involved):
            device = device_work(scope, ranks)
            depth = outer_depth(scope, ranks)
            host = recordings(scope.numpy(_HOST.format(ranks=ranks, depth=depth)))
            returned = recordings(scope.numpy(_RETURNED.format(ranks=ranks)))
            operators: Recordings = {}
            if self.rows["on_host"].any():
                operators = recordings(scope.numpy(_OPERATORS.format(ranks=ranks)))
            began |= recorded_times(scope, device, ranks)
            for key in self.keys.tolist():
                of = [columns.get(divmod(key, 1 << 16)) for columns in (device, host, returned, operators)]
                if divmod(key, 1 << 16) in began and key not in layers:
                    layers[key] = self._layers(key, *of)
        self._since()
        self.start = np.zeros((2, count), dtype=np.int64)
        self.end = np.stack([self.rows["start_ns"][row] for row in (self.late, self.wait)])
        self.parts = np.zeros((2, count, len(_LAYERS)), dtype=np.int64)
        for key, of_rank in layers.items():
            first = began[divmod(key, 1 << 16)][0]
            for side, (row, since) in enumerate(((self.late, self.since_late), (self.wait, self.since_wait))):
                mine = np.flatnonzero(self.key[row] == key)
                start = np.where(since[mine] >= 0, self.rows["end_ns"][since[mine]], first)
                start = np.minimum(start, self.end[side, mine])
                self.start[side, mine] = start
                self.parts[side, mine] = split(start, self.end[side, mine], of_rank)

    def _layers(
        self,
        key: int,
        device: Columns | None,
        host: Columns | None,
        returned: Columns | None,
        operators: Columns | None,
    ) -> list[Intervals]:
        """What a rank did, in the order of `_LAYERS`; the rest is not recorded. Finds the cost of its waits."""
        computes = copies = empty = union([], [])
        none = np.zeros(0, np.int64)
        started = ended = launched = none
        if device is not None:
            kind = device["work"]
            computes = union_of(device, (kind != COMMUNICATION) & (kind != COPY))
            copies = union_of(device, kind == COPY)
            work = np.flatnonzero(kind != COMMUNICATION)
            work = work[np.argsort(device["start_ns"][work], kind="stable")]
            started, ended, launched = (device[name][work] for name in ("start_ns", "end_ns", "launch_ns"))
        until = none if returned is None else np.sort(returned["end_ns"])
        both = (
            np.concatenate([getattr(intervals, edge) for intervals in (computes, copies)]) for edge in ("start", "end")
        )
        on_device = RankActivity(union(*both), started, ended, launched, until)
        on_threads = RankActivity(empty if operators is None else union_of(operators), none, none, none, none)
        at, still = self.places[key], []
        for activity, of_host in ((on_device, False), (on_threads, True)):
            rows = np.flatnonzero(self.rows["on_host"][at] == of_host) + at.start
            if not len(rows):
                continue
            collectives = {name: self.rows[name][rows] for name in _OF_COLLECTIVES}
            if of_host:
                collectives["end_ns"] = until_woken(collectives["start_ns"], collectives["end_ns"], activity.busy)
            stalls = find_stalls(collectives, activity)
            self.stalls_ns[:, rows] = stalls.since, stalls.until
            self.stalled[rows] = stalls.stalled
            still.append(stalls.still)

        def on_host(doing: int) -> Intervals:
            return empty if host is None else union_of(host, host["doing"] == doing)

        return [
            computes,
            copies,
            union(*self.stalls_ns[:, at]),
            union(*(np.concatenate([getattr(intervals, edge) for intervals in still]) for edge in ("start", "end"))),
            *map(on_host, (_INPUT, _COLLECTION, _COMPILATION, _PROFILER, _OTHER)),
        ]

    def result(self) -> RankSkew:
        """Follows waits back to their origin, and adds up."""
        rows = self.rows
        longer = self.parts[0] - self.parts[1]
        causes = np.zeros((len(self.wait), len(CAUSES)), dtype=np.float64)
        for layer, cause in enumerate(_LAYERS):
            if cause is not None:
                causes[:, cause] += longer[:, layer]
        wait_ns = rows["wait_ns"][self.wait]
        unexplained = wait_ns - longer.sum(axis=1)
        has_previous = self.since_late >= 0
        causes[:, CAUSES.index("not recorded")] += np.where(has_previous, unexplained, 0)
        causes[:, CAUSES.index("before the recording")] += np.where(has_previous, 0, unexplained)
        requested = self.in_requested[self.wait]
        cost_ns = (self.stalls_ns[1] - self.stalls_ns[0])[self.wait]
        part = np.where(requested, cost_ns / wait_ns, 0.0)
        weight = part.copy()
        taken = self._follow(weight)
        charged = np.bincount(rows["rank"][self.late], weight * (wait_ns - taken))
        followed = bool(-charged.clip(max=0).sum() <= _CONTRADICTS * cost_ns[requested].sum())
        if not followed:
            weight, taken = part, np.zeros_like(taken)
        causes[:, CAUSES.index("communication")] += longer[:, _WAIT] - taken
        causes[taken >= wait_ns] = 0
        counted = self.in_requested & self.matched
        first = np.unique(self.match[counted], return_index=True)[1]
        decided = counted & (rows["last_rank"] >= 0)
        matched = rows["last_rank"][counted][first]
        attended = np.unique(rows["rank"][decided], return_counts=True)
        last = np.unique(matched[matched >= 0], return_counts=True)
        ranks = np.unique(rows["rank"]).tolist()
        return RankSkew(
            rows["match_id"][self.wait], rows["rank"][self.wait], rows["rank"][self.late], self.step[self.wait], wait_ns, cost_ns, requested,
            weight, causes, self.start[0], self.end[0], rows["span"][self.late], self.start[1],
            self.end[1], rows["span"][self.wait], len(first), int((matched < 0).sum()),
            dict(zip(*(column.tolist() for column in attended), strict=True)),
            dict(zip(*(column.tolist() for column in last), strict=True)),
            *self._mean_step(len(ranks)), tuple(ranks), followed,
        )  # fmt: skip

    def _mean_step(self, ranks: int) -> tuple[float, float | None]:
        if not self.marked:
            return 1.0, None
        lengths = [(steps["end_ns"] - steps["start_ns"])[steps["requested"]] for steps in self.steps.values()]
        count = sum(map(len, lengths))
        return max(1.0, count / ranks), float(sum(steps.sum() for steps in lengths)) / max(1, count)

    def _follow(self, weight: Array) -> Array:
        """Passes weights, in place, from each wait to the waits that it consists of. Returns how much of each wait
        those are (ns)."""
        wait, of, part = self._made_of()
        wait_ns = self.rows["wait_ns"][self.wait]
        taken = np.bincount(wait, part * wait_ns[of], minlength=len(wait_ns))
        # No more than the wait is passed on: what the late rank caught up of its own waits cost nobody.
        part *= (wait_ns / np.maximum(taken, wait_ns))[wait]
        taken = np.minimum(taken, wait_ns)
        match = self.match[self.wait]
        edges = np.flatnonzero(run_starts(match[wait]))
        ends = np.append(edges, len(wait))[1:]
        for first, end in zip(edges[::-1].tolist(), ends[::-1].tolist(), strict=True):
            rows = slice(first, end)
            np.add.at(weight, of[rows], weight[wait[rows]] * part[rows])
        return taken

    def _made_of(self) -> tuple[Array, Array, Array]:
        """The waits within each wait: its number, theirs, and their share (negative for the waiting rank's own earlier
        waits)."""
        rows = self.rows
        parts: list[tuple[Array, Array, Array]] = []
        for side, row in enumerate((self.late, self.wait)):
            layer = self.parts[side, :, _WAIT]
            rows_in = np.flatnonzero(layer > 0)
            low = np.zeros(len(rows_in), dtype=np.int64)
            for key in np.unique(self.key[row[rows_in]]).tolist():
                at, mine = self.places[key], self.key[row[rows_in]] == key
                until = np.maximum.accumulate(self.stalls_ns[1, at])
                low[mine] = at.start + np.searchsorted(until, self.start[side, rows_in[mine]], side="right")
            count = np.maximum(row[rows_in] - low, 0)
            number, other = expanded(low, count)
            since, until = self.stalls_ns[:, other]
            cost = until - np.maximum(since, self.start[side, rows_in[number]])
            chosen = (cost > 0) & (until <= self.end[side, rows_in[number]])
            number, other, cost = number[chosen], other[chosen], cost[chosen]
            total = np.maximum(np.bincount(number, cost, minlength=len(rows_in)), layer[rows_in])
            is_wait = self.of_row[other] >= 0
            number, other = number[is_wait], other[is_wait]
            scale = layer[rows_in[number]] / total[number] * (1 if side == 0 else -1)
            part = cost[is_wait] / rows["wait_ns"][other] * scale
            parts.append((rows_in[number], self.of_row[other], part))
        wait, of, part = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        order = np.argsort(wait, kind="stable")
        return wait[order], of[order], part[order]
