"""Tracks that no recorder wrote: overlaps in a device's time, and the modules that its work belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from stepscope.link.intervals import subtract, union
from stepscope.schema.device_work import WORK
from stepscope.timeline.lanes import Columns, Lanes, laid_out
from stepscope.timeline.sides import KINDS, Words

if TYPE_CHECKING:
    from stepscope.query.scope import Scope
    from stepscope.timeline.tracks import Track

MODULE_RUNS = f"""
    WITH RECURSIVE above AS (
        SELECT span, module_id, module_id AS above_id, parent_id, depth FROM module WHERE rank = $rank
        UNION ALL
        SELECT above.span, above.module_id, up.module_id, up.parent_id, up.depth
        FROM above JOIN module AS up ON up.rank = $rank
            AND (up.span, up.module_id) = (above.span, above.parent_id) AND up.depth < above.depth
    ), work AS (
        SELECT span, device, stream, module_id, coalesce(direction, '') AS direction, start_ns,
            least(start_ns + dur_ns, lead(start_ns) OVER in_stream) AS end_ns,
            row_number() OVER in_stream AS place
        FROM device_event WHERE rank = $rank AND {WORK}
        WINDOW in_stream AS (PARTITION BY device, stream ORDER BY start_ns, dur_ns DESC, id)
    ), of_level AS (
        SELECT work.*, above_id, depth, place - row_number() OVER (
            PARTITION BY device, stream, span, above_id, direction ORDER BY place) AS run
        FROM work JOIN above USING (span, module_id)
    ), runs AS (
        SELECT device, stream, span, above_id, depth, direction, min(start_ns) AS start_ns,
            max(end_ns) AS end_ns, count(*) AS pieces
        FROM of_level GROUP BY device, stream, span, above_id, depth, direction, run
    )
    SELECT device, stream, runs.depth, module.name, module.path, module."class", direction, start_ns, end_ns, pieces
    FROM runs JOIN module ON module.rank = $rank
        AND (module.span, module.module_id) = (runs.span, runs.above_id)
"""
"""A row for each run of work of a module and its submodules without other work of the stream in between."""

_RUNS = f"""
    SELECT CASE direction WHEN '' THEN name ELSE name || ' (' || direction || ')' END AS name,
        depth - min(depth) OVER () AS depth, start_ns, end_ns
    FROM ({MODULE_RUNS}) WHERE device = $device AND stream = $stream ORDER BY start_ns, end_ns DESC, depth
"""
_WORK = f"""
    SELECT kind IN ('computation', 'fill') AS computes, kind = 'communication' AS communicates, start_ns,
        start_ns + dur_ns AS end_ns
    FROM device_event WHERE rank = $rank AND device = $device AND {WORK} ORDER BY start_ns
"""


def module_lanes(scope: Scope, track: Track) -> Lanes:
    """The modules of a stream's work, one level below the other."""
    device, stream = track.keys[0]
    rows = scope.sql(_RUNS, {"rank": track.rank, "device": device, "stream": stream})
    start, end, depth = (np.asarray(rows[name].to_numpy(), np.int64) for name in ("start_ns", "end_ns", "depth"))
    return _lanes(rows["name"], "module", start, end, depth)


def overlap_lanes(scope: Scope, track: Track) -> Lanes:
    """When a device computed, communicated, and only communicated, as in `device-time`: each moment once."""
    ((device,),) = track.keys
    work = scope.numpy(_WORK, {"rank": track.rank, "device": device})
    computation, communication = (
        union(work["start_ns"][rows], work["end_ns"][rows])
        for rows in (work["computes"].astype(bool), work["communicates"].astype(bool))
    )
    parts = (computation, communication, subtract(communication, computation))
    names = np.repeat(["computation", "communication", "exposed communication"], [len(part) for part in parts])
    lane = np.repeat(np.arange(3), [len(part) for part in parts])
    start, end = (np.concatenate([getattr(part, side) for part in parts]) for side in ("start", "end"))
    lanes = _lanes(pa.chunked_array([pa.array(names, pa.string())]), "communication", start, end, lane)
    lanes.lanes[0].events.kind[:] = KINDS.index("computation")
    return lanes


def _lanes(names: pa.ChunkedArray, kind: str, start: np.ndarray, end: np.ndarray, depth: np.ndarray) -> Lanes:
    words = Words()
    count = len(start)
    # These are not events of the recording: negative numbers keep them apart.
    events = Columns(start, end, words.codes(names), np.full(count, KINDS.index(kind), np.int8), -1 - np.arange(count))
    (lanes,) = laid_out(events, np.zeros(count, np.uint8), depth, 1)
    return Lanes(lanes, words.array)
