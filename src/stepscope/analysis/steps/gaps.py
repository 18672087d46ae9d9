"""Finds idle time: the gaps between work, what ended each, and what the host did meanwhile."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stepscope.analysis.recording import (
    LAUNCH_NS,
    NEVER,
    Array,
    Columns,
    Recordings,
    outer_depth,
    recordings,
    union_of,
)
from stepscope.formats.communication import ON_HOST
from stepscope.link.intervals import Intervals, overlapping, split
from stepscope.query.scope import Scope
from stepscope.schema.device_work import WORK

CAUSES = ("host wait", "kernel wait", "other", "unlinked", "no work follows")
HOST_WAIT, KERNEL_WAIT, OTHER, UNLINKED, NO_WORK_FOLLOWS = range(5)

KERNEL_WAIT_NS = 30_000
"""A shorter gap after work that was launched in time is the device's own delay (HTA); so is a launch call at its start.
"""

COMMUNICATES = f"role = 'communication' AND regexp_matches(name, '{ON_HOST}')"
"""SQL: collectives that run on the host, rather than being only enqueued there."""
WAITS_FOR_DEVICE = "role = 'synchronize' AND NOT regexp_matches(name, 'Query|WaitEvent')"
"""SQL: runtime calls that return when the device has done its work."""
BLOCKS = f"(role = 'copy' OR {WAITS_FOR_DEVICE})"
"""SQL: those, and copies, which do so if the host's memory is pageable."""

HOST_ACTIVITIES = (
    "dataloader", "synchronize", "profiler", "allocate", "launch", "runtime", "communication", "operator", "annotation",
    "python", "nothing recorded",
)  # fmt: skip
"""What the host may be doing, by precedence: a moment in which several run belongs to the first."""

_DEVICE = f"""
    SELECT rank, span, device, stream, start_ns, start_ns + dur_ns AS end_ns, {LAUNCH_NS}
    FROM device_event WHERE {WORK} AND {{ranks}}
"""

_OF_HOST = """
    SELECT rank, span, start_ns, start_ns + dur_ns AS end_ns, {activity}::TINYINT AS activity
    FROM host_event WHERE {ranks} AND {condition}
"""
_CONDITIONS = {
    "dataloader": "role = 'dataloader'",
    "profiler": "kind = 'overhead'",
    "communication": COMMUNICATES,
    "operator": "kind = 'operator'",
    "annotation": "kind = 'annotation' AND role IS DISTINCT FROM 'step'",
    "python": "kind = 'python' AND depth <= {depth}",
}
"""Host events of each activity. Python frames inside operators, ranges or frames add nothing and are not read."""
_RUNTIME_CALLS = """
    CASE role WHEN 'synchronize' THEN {synchronize} WHEN 'allocate' THEN {allocate}
        WHEN 'launch' THEN {launch} WHEN 'graph_launch' THEN {launch} WHEN 'copy' THEN {launch}
        WHEN 'fill' THEN {launch} ELSE {runtime} END
"""


@dataclass(frozen=True, slots=True)
class Gaps:
    """Times in which nothing ran: start, end (ns) and cause (index into `CAUSES`) of each."""

    start: Array
    end: Array
    cause: Array

    @property
    def length(self) -> Array:
        """ns."""
        return self.end - self.start


class Gap(NamedTuple):
    """A gap of a rank's recording: start and end (ns)."""

    rank: int
    span: int
    start_ns: int
    end_ns: int


_FRAMES = """
    WITH gap AS (
        SELECT unnest($rank::INTEGER[]) AS rank, unnest($span::SMALLINT[]) AS span,
            unnest($start_ns::BIGINT[]) AS gap_start, unnest($end_ns::BIGINT[]) AS gap_end
    )
    SELECT rank, span, gap_start, gap_end, arg_min(name, (thread, -depth, start_ns, id)) AS frame
    FROM gap JOIN (
        SELECT rank, span, id, thread, depth, name, start_ns, start_ns + dur_ns AS end_ns
        FROM host_event WHERE role = 'program'
    ) USING (rank, span)
    WHERE start_ns < gap_end AND end_ns > gap_start
        AND 2 * (least(end_ns, gap_end) - greatest(start_ns, gap_start)) >= gap_end - gap_start
    GROUP BY ALL
"""


def frames_in(scope: Scope, gaps: Collection[Gap]) -> dict[Gap, str]:
    """For each gap the program's innermost Python frame that covers half of it, on the first thread that has one."""
    columns = {name: [getattr(gap, name) for gap in gaps] for name in Gap._fields}
    rows = scope.sql(_FRAMES, columns).to_pylist()
    return {Gap(row["rank"], row["span"], row["gap_start"], row["gap_end"]): row["frame"] for row in rows}


def launched_work(scope: Scope, ranks: str = "rank >= 0") -> Recordings:
    """Device work with `device`, `stream`, `start_ns`, `end_ns`, and start and end of its launch,
    `launch_ns` and `launch_end_ns`."""
    return recordings(scope.numpy(_DEVICE.format(ranks=ranks)))


def find_gaps(work: Columns, kernel_wait_ns: int, windows: Columns | None = None) -> Gaps:
    """The gaps between work on one stream or device: from the latest end so far to the next start.

    Args:
        work: as `launched_work` or `device_work` returns it.
        kernel_wait_ns: longer gaps are not the device's own delay.
        windows: time windows (`start_ns`, `end_ns`) in order, to which gaps are cut; their idle starts and ends are
            gaps too.
    """
    order = np.argsort(work["start_ns"], kind="stable")
    start, end = work["start_ns"][order], work["end_ns"][order]
    launch, launched = work["launch_ns"][order], work["launch_end_ns"][order]
    reach = np.maximum.accumulate(end)
    after = np.flatnonzero(start[1:] > reach[:-1])
    starts, ends = reach[after], start[after + 1]
    cause = _causes(starts, ends, launch[after + 1], launched[after + 1], kernel_wait_ns)
    if windows is None:
        return Gaps(starts, ends, cause)
    first = min(int(start[0]), int(windows["start_ns"].min(initial=start[0])))
    last = max(int(reach[-1]), int(windows["end_ns"].max(initial=reach[-1])))
    starts = np.concatenate([[first], starts, reach[-1:]])
    ends = np.concatenate([start[:1], ends, [last]])
    lead = UNLINKED if launch[0] == NEVER else HOST_WAIT
    cause = np.concatenate([[lead], cause, [NO_WORK_FOLLOWS]])
    full = starts < ends
    starts, ends, cause = starts[full], ends[full], cause[full]
    # Consecutive steps touch, so they cannot be intersected as one `Intervals`.
    window, gap = overlapping(windows["start_ns"], windows["end_ns"], starts, ends)
    clipped_start = np.maximum(starts[gap], windows["start_ns"][window])
    clipped_end = np.minimum(ends[gap], windows["end_ns"][window])
    full = clipped_start < clipped_end
    return Gaps(clipped_start[full], clipped_end[full], cause[gap][full])


def _causes(starts: Array, ends: Array, launch: Array, launched: Array, kernel_wait_ns: int) -> Array:
    # A call that was under way when the device ran out of work, and then fills the gap, launched too late.
    call_ns = np.minimum(np.maximum(launched, starts), ends) - starts
    late = (launch > starts) | ((call_ns >= KERNEL_WAIT_NS) & (2 * call_ns >= ends - starts))
    short = np.where(ends - starts < kernel_wait_ns, KERNEL_WAIT, OTHER)
    linked = np.where(late, HOST_WAIT, short)
    return np.where(launch == NEVER, UNLINKED, linked)


def host_activity(scope: Scope, ranks: str = "rank >= 0") -> dict[tuple[int, int], list[Intervals]]:
    """When the host of each recording with host events did each of `HOST_ACTIVITIES` except the last."""
    number = {activity: index for index, activity in enumerate(HOST_ACTIVITIES)}
    depth = outer_depth(scope, ranks)
    queries = [
        _OF_HOST.format(activity=number[activity], ranks=ranks, condition=condition.format(depth=depth))
        for activity, condition in _CONDITIONS.items()
    ]
    calls = _RUNTIME_CALLS.format(**number)
    queries.append(_OF_HOST.format(activity=calls, ranks=ranks, condition="kind = 'runtime'"))
    return {
        key: [union_of(host, host["activity"] == activity) for activity in range(len(HOST_ACTIVITIES) - 1)]
        for key, host in recordings(scope.numpy(" UNION ALL ".join(queries))).items()
    }


def main_activity(gaps: Gaps, host: list[Intervals]) -> Array:
    """What the host did for the largest part of each gap: an index into `HOST_ACTIVITIES`."""
    return split(gaps.start, gaps.end, host).argmax(axis=1)
