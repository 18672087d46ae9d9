"""`waits`: how long work waits between its launch and its start."""

from __future__ import annotations

import pyarrow as pa

from stepscope.plugin import Column, Parameter, Scope, question


@question(
    "waits",
    "How long does work wait in the queue of its stream?",
    (
        Column("rank", "int", "rank it ran for"),
        Column("device", "int", "index of the device"),
        Column("stream", "int", "stream id"),
        Column("events", "int", "kernels, copies and fills with a known launch", unit="count"),
        Column("mean_wait_ns", "float", "mean time from launch to start", unit="ns"),
        Column("largest_wait_ns", "int", "longest time from launch to start", unit="ns"),
    ),
    group="operators and kernels",
    rests_on=("launches", "device-times", "clocks"),
    parameters=(Parameter("min_wait_ns", "int", "count only what waited so long (ns)", default=0),),
    needs="device",
)
def waits(scope: Scope, *, min_wait_ns: int) -> pa.Table:
    """The wait is the time from the start of the runtime call that launched an event to the start of
    the event on its stream. It holds the cost of the launch itself, a few microseconds.

    A long wait is good news for the host, which is ahead of the device; where it is short, the device
    runs dry at the next delay of the host.
    """
    return scope.sql(
        """
        SELECT rank, device, stream, count(*) AS events,
            avg(start_ns - launch_ns) AS mean_wait_ns, max(start_ns - launch_ns) AS largest_wait_ns
        FROM device_event
        WHERE kind IN ('computation', 'communication', 'copy', 'fill')
            AND start_ns - launch_ns >= $min_wait_ns
        GROUP BY ALL ORDER BY ALL
        """,
        {"min_wait_ns": min_wait_ns},
    )
