"""Reads a window of a recording as arrays: device work, the calls that launch it or wait for it, and their threads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.analysis.ranks.stalls import until_woken
from stepscope.analysis.recording import NEVER, Array, Columns, groups, union_of
from stepscope.analysis.steps.gaps import COMMUNICATES, WAITS_FOR_DEVICE
from stepscope.link import columns
from stepscope.link.intervals import Intervals
from stepscope.query.scope import Scope
from stepscope.schema.device_work import WORK

LAUNCH, GRAPH, COPY, RECORD, STREAM_WAIT, WAIT_EVENT, WAIT_STREAM, WAIT_DEVICE = range(8)
"""What a call does: launches a kernel, fill or graph; copies; records an event; makes a stream wait; waits itself."""

FROM_DEVICE = 2
"""The direction of a copy from the device to the host."""
NO_STEP = -(1 << 62)

_TIMES = "rank = $rank AND span = $span AND start_ns < $until AND start_ns + dur_ns >= $since"

_CALLS = f"""
    SELECT id, thread, start_ns, start_ns + dur_ns AS end_ns, coalesce(correlation, -1) AS correlation, CASE
            WHEN role = 'synchronize' AND NOT ({WAITS_FOR_DEVICE}) THEN {STREAM_WAIT}
            WHEN role = 'synchronize' AND regexp_matches(name, 'Event') THEN {WAIT_EVENT}
            WHEN role = 'synchronize' AND regexp_matches(name, 'Stream|Queue') THEN {WAIT_STREAM}
            WHEN role = 'synchronize' THEN {WAIT_DEVICE}
            WHEN regexp_matches(name, 'EventRecord') THEN {RECORD}
            WHEN role = 'copy' THEN {COPY}
            WHEN role = 'graph_launch' THEN {GRAPH}
            ELSE {LAUNCH}
        END::TINYINT AS does, regexp_matches(name, 'Async') AS asynchronous
    FROM host_event
    WHERE {_TIMES} AND (
        role IN ('launch', 'graph_launch', 'copy', 'fill')
        OR role = 'synchronize' AND ({WAITS_FOR_DEVICE} OR regexp_matches(name, 'WaitEvent'))
        OR kind = 'runtime' AND regexp_matches(name, 'EventRecord')
        OR id IN (SELECT launch_id FROM device_event WHERE {_TIMES} AND {WORK})
    )
    ORDER BY start_ns, id
"""
"""Host events that launch device work count as calls if a recording has no runtime calls."""

_WORK = f"""
    SELECT id, device, stream, start_ns, start_ns + dur_ns AS end_ns, kind = 'communication' AS communicates,
        kind IN ('copy', 'fill') AS moves,
        CASE copy_kind WHEN 'HtoD' THEN 1 WHEN 'DtoH' THEN {FROM_DEVICE} ELSE 0 END::TINYINT AS direction, coalesce(launch_id, -1) AS launch_id,
        coalesce(step, {NO_STEP}) AS step, coalesce(memory_kind IN ('pageable', 'unknown'), true) AND kind = 'copy' AS pageable
    FROM device_event WHERE {_TIMES} AND {WORK}
    ORDER BY device, stream, start_ns, end_ns, id
"""
_WAITS = f"""
    SELECT role, device, stream, coalesce(wait_on_stream, {NEVER}) AS wait_on_stream,
        coalesce(wait_on_correlation, -2) AS wait_on_correlation, correlation
    FROM device_event WHERE {_TIMES} AND kind = 'sync' AND role IS NOT NULL AND correlation > 0
"""
_BUSY = f"""
    SELECT thread, start_ns, start_ns + dur_ns AS end_ns FROM host_event
    WHERE {_TIMES} AND kind IN ('operator', 'runtime')
"""
_EXCHANGES = f"""
    SELECT id, thread, start_ns, start_ns + dur_ns AS end_ns FROM host_event
    WHERE {_TIMES} AND {COMMUNICATES} ORDER BY start_ns, id
"""
_LOADER = f"""
    SELECT thread, start_ns, start_ns + dur_ns AS end_ns, 10 * self_ns >= 9 * dur_ns AS waits
    FROM host_event WHERE {_TIMES} AND role = 'dataloader' ORDER BY start_ns
"""
_MAIN = f"""
    SELECT thread FROM host_event WHERE {_TIMES} AND kind IN ('operator', 'runtime', 'annotation')
    GROUP BY thread ORDER BY count(*) FILTER (role = 'step') DESC, count(*) DESC, thread LIMIT 1
"""
_STEPS = f"""
    WITH done AS (
        SELECT role, depth, thread, start_ns + dur_ns AS host_end_ns FROM host_event
        WHERE {_TIMES} AND kind NOT IN ('overhead', 'other')
    )
    SELECT step, any_value(step.start_ns) AS start_ns, any_value(end_ns) AS end_ns,
        any_value(host_start_ns) AS host_start_ns, any_value(host_end_ns) AS host_end_ns,
        coalesce(arg_min(thread, (done.role IS DISTINCT FROM 'step', done.depth, thread)), $main) AS thread
    FROM (
        SELECT * REPLACE (least(host_end_ns, coalesce((SELECT max(host_end_ns) FROM done), host_end_ns)) AS host_end_ns)
        FROM step WHERE rank = $rank AND span = $span AND start_ns < $until AND end_ns > $since
    ) AS step
    LEFT JOIN done USING (host_end_ns)
    GROUP BY step ORDER BY start_ns, step
"""
"""A step of the host ends with an event of a thread; at the recording's end, with the last recorded one."""


@dataclass(frozen=True, slots=True)
class Events:
    """The recorded events of a rank in a window of time.

    Args:
        work: kernels, copies and fills by stream and start: `id`, `device`, `stream`, `start_ns`, `end_ns`, `step`,
            `communicates`, `moves`, `direction` (of a copy: 1 to the device, FROM_DEVICE, else 0), `pageable`,
            `launch_id`, and `call`, the row of the launching call (-1).
        calls: by start: `id`, `thread`, `start_ns`, `end_ns`, `correlation`, `does`, `asynchronous`.
        waits: recorded waits: `role`, `device`, `stream`, `wait_on_stream`, `wait_on_correlation`, `correlation`.
        exchanges: collectives of the host (gloo, MPI): `id`, `thread`, `start_ns`, `end_ns`.
        busy: when each thread was in an operator or a runtime call.
        loader: waits for a batch: `thread`, `start_ns`, `end_ns`, `waits` (nothing else ran in it).
        main: thread of the training loop; None without host events.
        resolution: of recorded times (ns).
        steps: `step`, `start_ns`, `end_ns`, `host_start_ns`, `host_end_ns`, and the `thread` on which it ended.
    """

    rank: int
    span: int
    work: Columns
    calls: Columns
    waits: Columns
    exchanges: Columns
    busy: dict[int, Intervals]
    loader: Columns
    main: int | None
    resolution: int
    steps: Columns


def read_events(scope: Scope, rank: int, span: int, since: int, until: int) -> Events:
    """The events of a recording that run between two times (ns)."""
    window = {"rank": rank, "span": span, "since": since, "until": until}
    work, calls = scope.numpy(_WORK, window), scope.numpy(_CALLS, window)
    work["call"] = places(calls["id"], work["launch_id"])
    main = scope.value(_MAIN, window)
    busy = {thread: union_of(columns) for (thread,), columns in groups(scope.numpy(_BUSY, window), "thread").items()}
    exchanges = scope.numpy(_EXCHANGES, window)
    if len(exchanges["id"]) and main in busy:
        exchanges["end_ns"] = until_woken(exchanges["start_ns"], exchanges["end_ns"], busy[main])
    waits, loader = scope.numpy(_WAITS, window), scope.numpy(_LOADER, window)
    steps = scope.numpy(_STEPS, {**window, "main": -1 if main is None else main})
    resolution = scope.value("SELECT resolution_ns FROM rank WHERE rank = $rank", {"rank": rank}) or 0
    return Events(rank, span, work, calls, waits, exchanges, busy, loader, main, resolution, steps)


def places(ids: Array, numbers: Array) -> Array:
    """The index of each wanted number in an unordered array; -1 if it is missing."""
    order = np.argsort(ids, kind="stable")
    at = columns.places(ids[order], numbers)
    return np.where(at >= 0, order[at], -1) if len(ids) else at
