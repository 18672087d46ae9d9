"""`copies`: copies and fills by direction, and their speed."""

from __future__ import annotations

from stepscope.formats.evidence import DEVICE_WORK
from stepscope.query.declare import Column, by_form, question
from stepscope.query.rows import ArrowTable
from stepscope.query.scope import Scope

_BUCKET = "CASE WHEN bytes > 0 THEN 1::BIGINT << length(bin(bytes))::INTEGER - 1 WHEN bytes = 0 THEN 0 END"
"""The largest power of two that is not above the size; by its digits, because logarithms round."""
_KEYS = {"direction": "direction, memory_kind", "size": "direction, memory_kind, from_bytes"}


@question(
    "copies",
    "What is copied and filled on the device, and how fast?",
    (
        Column("direction", "text", "HtoD, DtoH, DtoD, HtoH, PtoP or unknown; fill for a memset"),
        Column("memory_kind", "text", "host memory of the copy: pinned, pageable, device or unknown"),
        Column("from_bytes", "int", "smallest size of the bucket"),
        Column("below_bytes", "int", "size at which the bucket ends"),
        Column("pageable", "bool", "pageable host memory: the copy is staged and blocks the host", visible=False),
        Column("count", "int", "number of copies or fills", "count"),
        Column("bytes", "int", "summed size"),
        Column("total_ns", "int", "summed duration", sums=True),
        Column("share_ratio", "float", "fraction of the duration of all copies and fills"),
        Column("mean_ns", "float", "mean duration"),
        Column("min_ns", "int", "shortest duration", visible=False),
        Column("max_ns", "int", "longest duration", visible=False),
        Column("bandwidth_bytes_per_s", "float", "summed size over summed duration", sums=True),
        Column("min_bandwidth_bytes_per_s", "float", "bandwidth of the slowest", visible=False),
        Column("max_bandwidth_bytes_per_s", "float", "bandwidth of the fastest", visible=False),
    ),
    group="operators and kernels",
    rests_on=DEVICE_WORK,
    about="events",
    parameters=(by_form("what to tell apart: direction and host memory, or these and the size", *_KEYS),),
    needs="device",
    fills="Record with torch.profiler.ProfilerActivity.CUDA (or XPU, ...) on a machine with a device.",
)
def copies(scope: Scope, by: str = "direction") -> ArrowTable:
    """Copies and fills of all requested ranks together by direction and kind of host memory, the longest total first.
    With `--by size` they are also separated by powers of two of their size, because small copies never reach the
    bandwidth of large ones.

    `bandwidth_bytes_per_s` is the sum of sizes over the sum of durations, the mean over time; the mean of the copies'
    own bandwidths would let many tiny copies hide a large one. Copies of unrecorded size, or whose duration the clock's
    resolution made 0, are excluded from it. Memory of kind `pageable` makes an asynchronous copy wait for its host:
    `pin_memory=True` in the data loader avoids it. `device-time` shows how much of the copying is not hidden by
    computation.

    HTA draws bandwidth over time and sets copies of no duration to 1 µs; Nsight Systems lists time and size in two
    separate reports.
    """
    keys = _KEYS[by]
    bucket = ", from_bytes, CASE WHEN from_bytes = 0 THEN 1 ELSE 2 * from_bytes END AS below_bytes"
    return scope.sql(
        f"""
        WITH copy AS (
            SELECT
                -- not the table's own column of that name, which says forward or backward
                CASE WHEN kind = 'fill' THEN 'fill' ELSE coalesce(copy_kind, 'unknown') END AS direction,
                memory_kind, bytes, dur_ns, {_BUCKET} AS from_bytes, bytes * 1e9 / nullif(dur_ns, 0) AS speed
            FROM device_event WHERE kind IN ('copy', 'fill')
        )
        SELECT
            direction, memory_kind{bucket if by == "size" else ""},
            CASE WHEN memory_kind <> 'unknown' THEN memory_kind = 'pageable' END AS pageable,
            count(*) AS count, sum(bytes)::BIGINT AS bytes, sum(dur_ns)::BIGINT AS total_ns,
            sum(dur_ns) / nullif(sum(sum(dur_ns)) OVER (), 0) AS share_ratio,
            avg(dur_ns) AS mean_ns, min(dur_ns) AS min_ns, max(dur_ns) AS max_ns,
            sum(bytes) FILTER (WHERE dur_ns > 0) * 1e9
                / sum(dur_ns) FILTER (WHERE dur_ns > 0 AND bytes IS NOT NULL) AS bandwidth_bytes_per_s,
            min(speed) AS min_bandwidth_bytes_per_s, max(speed) AS max_bandwidth_bytes_per_s
        FROM copy GROUP BY {keys} ORDER BY {keys if by == "size" else f"total_ns DESC, {keys}"}
        """
    )
