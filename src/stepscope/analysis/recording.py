"""Reads a recording's events as arrays.

A *recording* is one span of one rank. Its intervals are never mixed with another's: time between spans is not idle, and
another rank's kernels do not make this device busy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from stepscope.analysis.counted import COUNTED_STEPS
from stepscope.link.intervals import Intervals, union
from stepscope.query.scope import Scope
from stepscope.schema.device_work import WORK

T = TypeVar("T")
P = ParamSpec("P")
Array = NDArray[Any]
Columns = dict[str, Array]
Recordings = dict[tuple[int, int], Columns]
"""Columns of each recording, by rank and span."""

COMPUTATION, COPY, FILL, COMMUNICATION = range(4)
"""Kinds of device work in the column `work` of `device_work`."""

NEVER = np.iinfo(np.int64).min
"""Stands for the unknown time of a launch. Real times are never this small."""

LAUNCH_NS = f"""
    coalesce(launch_ns, {NEVER}) AS launch_ns,
    coalesce(CASE WHEN kind <> 'copy' THEN launch_end_ns END, {NEVER}) AS launch_end_ns
"""
"""SQL: start and end of a `device_event`'s launch. Calls that copy may wait for the copy: their end shows nothing."""

RANKS_AT_ONCE, EVENTS_AT_ONCE = 64, 4_000_000
"""The most ranks whose events are held in memory together, and the most events, unless one rank has more."""

_EVENTS = "SELECT rank, coalesce(sum(events_read), 0)::BIGINT AS events FROM source GROUP BY rank"


def once(compute: Callable[Concatenate[Scope, P], T]) -> Callable[Concatenate[Scope, P], T]:
    """Decorator: the result is computed once for a scope and further arguments, and shared by all questions about it."""
    name = compute.__module__, compute.__qualname__

    @wraps(compute)
    def cached(scope: Scope, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return scope.cached((*name, *args, *kwargs.items()), lambda: compute(scope, *args, **kwargs))

    return cached


@contextmanager
def every_step(scope: Scope) -> Iterator[Scope]:
    """The same ranks with all their steps and events, for windows: work in a step may have been launched by another,
    and a step's answer must not depend on which others were requested."""
    if scope.steps is None and not scope.part:
        yield scope
        return
    with Scope(scope.store, scope.ranks, all_times=True) as all_steps:
        yield all_steps


@contextmanager
def every_event(scope: Scope) -> Iterator[Scope]:
    """The same ranks and steps with all their events: a call's work is shared among all its kernels."""
    if not scope.part:
        yield scope
        return
    with Scope(scope.store, scope.ranks, scope.steps) as all_events:
        yield all_events


def requested_windows(scope: Scope, all_steps: Scope, device: Recordings, ranks: str) -> Recordings | None:
    """Windows of the requested steps or time in each recording (`start_ns`, `end_ns`), cut to it; None for everything.

    Args:
        all_steps: its ranks with everything (`every_step`).
        device: their `device_work`, read with the condition `ranks`.
    """
    if scope.steps is not None:
        return steps_of(scope, ranks)
    if scope.part.window is None:
        return None
    clipped = {
        key: np.clip(times, *scope.part.window) for key, times in recorded_times(all_steps, device, ranks).items()
    }
    return {key: {"start_ns": ends[:1], "end_ns": ends[1:]} for key, ends in clipped.items() if ends[0] < ends[1]}


def rank_batches(scope: Scope, ranks: Sequence[int] | None = None) -> Iterator[str]:
    """SQL conditions that together cover each rank (by default all in scope) once, several ranks at a time."""
    events = scope.cached(_EVENTS, lambda: {row["rank"]: row["events"] for row in scope.sql(_EVENTS).to_pylist()})
    batch: list[int] = []
    events_in_batch = 0
    for rank in scope.ranks if ranks is None else ranks:
        events_of_rank = events.get(rank, 0)
        if batch and (len(batch) == RANKS_AT_ONCE or events_in_batch + events_of_rank > EVENTS_AT_ONCE):
            yield _among(batch)
            batch, events_in_batch = [], 0
        batch.append(rank)
        events_in_batch += events_of_rank
    if batch:
        yield _among(batch)


def _among(ranks: Sequence[int]) -> str:
    return f"rank IN ({', '.join(map(str, ranks))})"


def groups(columns: Columns, *keys: str) -> dict[tuple[int, ...], Columns]:
    """Splits rows by key columns; groups in order of keys, rows in their order.

    >>> groups({"rank": np.array([1, 0, 1]), "x": np.array([5, 6, 7])}, "rank")[1,]["x"]
    array([5, 7])
    """
    rows = len(columns[keys[0]])
    code = np.zeros(rows, dtype=np.int64)
    for key in keys:
        column = columns[key]
        if rows and (column != column[0]).any():
            values, inverse = np.unique(column, return_inverse=True)
            code = code * len(values) + inverse
    if not code.any():
        return {tuple(int(columns[k][0]) for k in keys): columns} if rows else {}
    _, first, counts = np.unique(code, return_index=True, return_counts=True)
    order = np.argsort(code, kind="stable")
    ends = np.cumsum(counts)
    return {
        tuple(int(columns[k][row]) for k in keys): {
            name: values[order[end - count : end]] for name, values in columns.items()
        }
        for row, end, count in zip(first, ends, counts, strict=True)
    }


def recordings(columns: Columns) -> Recordings:
    """Splits rows with `rank` and `span` by recording."""
    return {(rank, span): rows for (rank, span), rows in groups(columns, "rank", "span").items()}


def steps_of(scope: Scope, ranks: str = "rank >= 0") -> Recordings:
    """The scope's steps in order of time: `step`, `start_ns`, `end_ns`, `complete`, `is_warmup`, and
    `counted`, whether the step enters means (see `counted`)."""
    text = f"""
        SELECT rank, span, step, start_ns, end_ns, complete, is_warmup,
            (rank, span, step) IN (SELECT (rank, span, step) FROM ({COUNTED_STEPS})) AS counted
        FROM step WHERE {ranks} ORDER BY rank, span, start_ns, step
    """
    return scope.cached(text, lambda: recordings(scope.numpy(text)))


def marks_steps(scope: Scope) -> bool:
    """Whether steps are marked, or found by the optimizer's calls or by repetition; otherwise the entire
    recording is one step."""
    return bool(scope.value("SELECT count(*) FROM step WHERE rule <> 'whole recording'"))


def device_work(scope: Scope, ranks: str = "rank >= 0", *more: str) -> Recordings:
    """Kernels, copies and fills of some ranks, with `more` columns of `device_event`.

    Columns `work` (COMPUTATION, ...), `device`, `start_ns`, `end_ns`, `launch_ns` and `launch_end_ns` (NEVER if
    unknown; copies have no end), `blocks_per_sm` and `occupancy_ratio` (NaN if not recorded).
    """
    return recordings(
        scope.numpy(
            f"""
            SELECT {"".join(f"{name}, " for name in more)}rank, span, device, start_ns, start_ns + dur_ns AS end_ns,
                CASE kind WHEN 'computation' THEN {COMPUTATION} WHEN 'copy' THEN {COPY}
                    WHEN 'fill' THEN {FILL} ELSE {COMMUNICATION} END::TINYINT AS work,
                {LAUNCH_NS},
                coalesce(blocks_per_sm, 'nan'::DOUBLE) AS blocks_per_sm,
                coalesce(occupancy_ratio, 'nan'::DOUBLE) AS occupancy_ratio
            FROM device_event WHERE {WORK} AND {ranks}
            """
        )
    )


_OUTER_DEPTH = """
    SELECT max(depth) + 1 FROM (
        SELECT depth FROM host_event WHERE {ranks} AND role = 'step'
        UNION ALL SELECT depth FROM host_event
            WHERE {ranks} AND kind = 'overhead' AND self_ns < dur_ns
        UNION ALL SELECT depth FROM host_event WHERE {ranks} AND kind = 'other' AND self_ns < dur_ns
    )
"""


def outer_depth(scope: Scope, ranks: str = "rank >= 0") -> int:
    """The depth that contains every outermost operator, range or Python frame; deeper events add nothing to their
    union.

    Only ranges that mark steps, the profiler's work and events of unknown kind lie above an outermost event.
    """
    depth: int | None = scope.value(_OUTER_DEPTH.format(ranks=ranks))
    return depth or 0


_RANGE_DEPTH = """
    SELECT max(own.depth) + 1
    FROM (SELECT rank, parent_id, depth FROM host_event
        WHERE {ranks} AND kind = 'annotation' AND self_ns < dur_ns) AS own
    LEFT JOIN host_event AS above ON above.rank = own.rank AND above.id = own.parent_id
    WHERE coalesce(above.kind, '') NOT IN ('operator', 'python')
"""


def range_depth(scope: Scope, ranks: str = "rank >= 0") -> int:
    """The depth down to which operators and Python frames must be read to find what is recorded in ranges."""
    depth: int | None = scope.value(_RANGE_DEPTH.format(ranks=ranks))
    return depth or 0


_HOST_TIMES = """
    SELECT rank, span, min(start_ns) AS start_ns, max(start_ns + dur_ns) AS end_ns
    FROM host_event WHERE {ranks} AND depth = 0 AND kind NOT IN ('overhead', 'other')
    GROUP BY rank, span
"""
"""Everything that is not outermost lies inside something that is."""


def recorded_times(
    scope: Scope, device: Recordings, ranks: str = "rank >= 0"
) -> dict[tuple[int, int], tuple[int, int]]:
    """First start and last end of the events of each recording, host and device (ns)."""
    columns = [values.tolist() for values in scope.numpy(_HOST_TIMES.format(ranks=ranks)).values()]
    times = {(rank, span): (a, b) for rank, span, a, b in zip(*columns, strict=True)}
    for key, work in device.items():
        first, last = (int(edge[0]) for edge in extent(work))
        start, end = times.get(key, (first, last))
        times[key] = min(start, first), max(end, last)
    return times


def extent(work: Columns) -> tuple[Array, Array]:
    """The one window from the first start to the last end of work."""
    return work["start_ns"].min(keepdims=True), work["end_ns"].max(keepdims=True)


def union_of(columns: Columns, chosen: Array | None = None) -> Intervals:
    """The time covered by rows with `start_ns` and `end_ns`, or only by the `chosen` ones."""
    start, end = columns["start_ns"], columns["end_ns"]
    if chosen is not None:
        start, end = start[chosen], end[chosen]
    # Rows come in ordered runs, which this kind of sort exploits.
    order = np.argsort(start, kind="stable")
    return union(start[order], end[order])
