"""Tracks that StepScope adds to the recorded ones: SQL for their events, in track order.

Each query returns rows with `track` (its name), `name`, `start_ns`, and either `dur_ns` with `args` (a JSON object) for
slices, which nest on their track, or `value` for counters. `$rank` is their rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.analysis.recording import every_step
from stepscope.schema.device_work import WORK
from stepscope.timeline.derived import MODULE_RUNS

if TYPE_CHECKING:
    import pyarrow as pa

    from stepscope.query.scope import Scope

STEPS = """
    SELECT 'steps' AS track, coalesce(name, step::VARCHAR) AS name, start_ns,
        least(end_ns, coalesce(lead(start_ns) OVER (ORDER BY start_ns, end_ns), end_ns)) - start_ns
            AS dur_ns,
        json_object('step', step, 'end_ns', end_ns, 'device events', device_events, 'complete', complete,
            'rule', rule)::VARCHAR AS args
    FROM step WHERE rank = $rank ORDER BY start_ns, end_ns
"""
"""A slice per step. A step that ends after the next one started is drawn up to there; `end_ns` has its end."""

_DEVICE = "'device ' || device || CASE WHEN stream < 0 THEN '' ELSE ' stream ' || stream END"

MODULES = f"""
    SELECT 'modules: ' || {_DEVICE} AS track,
        name || CASE direction WHEN '' THEN '' ELSE ' (' || direction || ')' END AS name,
        start_ns, end_ns - start_ns AS dur_ns,
        json_object('path', path, 'class', "class", 'direction', nullif(direction, ''),
            'kernels, copies and fills', pieces)::VARCHAR AS args
    FROM ({MODULE_RUNS}) ORDER BY device, stream, start_ns, end_ns DESC, depth
"""
"""A slice for each run of work of a module (`timeline/derived.py`)."""

_CHANGES = """
    SELECT track, 'now' AS name, at_ns AS start_ns, value FROM (
        SELECT track, at_ns, sum(sum(change)) OVER (PARTITION BY track ORDER BY at_ns) AS value
        FROM ({changes}) GROUP BY track, at_ns
    ) ORDER BY track, at_ns
"""
_QUEUED = f"""
    SELECT 'queue: ' || {_DEVICE} AS track, unnest([handed_ns, start_ns]) AS at_ns,
        unnest([1, -1]) AS change
    FROM (SELECT *, coalesce(CASE WHEN kind <> 'copy' THEN launch_end_ns END, launch_ns) AS handed_ns
        FROM device_event WHERE rank = $rank AND {WORK})
    WHERE handed_ns < start_ns
"""
QUEUE = _CHANGES.format(changes=_QUEUED)
"""Kernels, copies and fills that were launched and had not started, counted as in `launches --by stream`."""

_COPIED = """
    SELECT 'copies: device ' || device || ' ' || copy_kind || ' (GB/s)' AS track,
        unnest([start_ns, start_ns + dur_ns]) AS at_ns,
        unnest([bytes::HUGEINT * 1000000000 // dur_ns, -(bytes::HUGEINT * 1000000000 // dur_ns)]) AS change
    FROM device_event
    WHERE rank = $rank AND kind = 'copy' AND dur_ns > 0 AND bytes > 0 AND copy_kind IS NOT NULL
"""
BANDWIDTH = f"SELECT track, name, start_ns, value / 1e9 AS value FROM ({_CHANGES.format(changes=_COPIED)}) ORDER BY track, start_ns"
"""The bandwidth of all copies running at a time, each at its own mean rate (GB/s, decimal)."""

MEMORY_IN_USE = """
    SELECT 'memory: ' || device_kind || coalesce(' ' || device, '') || ' allocated (bytes)' AS track,
        'now' AS name, time_ns AS start_ns, total_allocated_bytes AS value
    FROM memory_event WHERE rank = $rank AND total_allocated_bytes IS NOT NULL
    ORDER BY track, time_ns
"""
"""Bytes in use after each allocation and release."""

CRITICAL_PATH = """
    SELECT 'critical path' AS track, coalesce(name, kind) AS name, start_ns, dur_ns,
        json_object('kind', kind, 'class', "class", 'operator', operator, 'module', module, 'step', step)::VARCHAR
            AS args
    FROM export.critical_path WHERE rank = $rank ORDER BY start_ns
"""
"""The pieces of the critical path of the exported ranks that ran on this rank, as in the question `critical-path`;
`critical_path` makes the table."""

ADDED_SLICES = (STEPS, MODULES, CRITICAL_PATH)
ADDED_COUNTERS = (QUEUE, BANDWIDTH, MEMORY_IN_USE)


def critical_path(scope: Scope) -> pa.Table:
    """The critical path of a scope's ranks and steps, cut to its window, in the form that `CRITICAL_PATH` reads."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from stepscope.analysis.dependencies.graph import build
    from stepscope.analysis.dependencies.paths import PIECES, named_pieces
    from stepscope.analysis.dependencies.step_window import step_windows

    with every_step(scope) as complete:
        paths = [named_pieces(complete, build(complete, window)) for window in step_windows(scope, complete)]
    pieces = pa.concat_tables([PIECES.empty_table(), *paths])
    if scope.part.window is None:
        return pieces
    since, until = scope.part.window
    start = pc.max_element_wise(pieces.column("start_ns"), since)
    end = pc.min_element_wise(pc.add(pieces.column("start_ns"), pieces.column("dur_ns")), until)
    for name, values in (("start_ns", start), ("dur_ns", pc.subtract(end, start))):
        pieces = pieces.set_column(pieces.schema.get_field_index(name), name, values)
    return pieces.filter(pc.greater(pieces.column("dur_ns"), 0))
