"""The arithmetic of the step breakdown: every moment of a step is given to exactly one activity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from stepscope.intervals import Intervals, split, union
from stepscope.questions.recording import (
    COMMUNICATION,
    COMPUTATION,
    COPY,
    FILL,
    Array,
    Columns,
    HostRecord,
    Recordings,
    extent,
    recordings,
    union_of,
)
from stepscope.questions.scope import Scope

PARTS = (
    "kernel",
    "memcpy",
    "memset",
    "communication",
    "runtime",
    "dataloader",
    "cpu_exec",
    "other",
)
"""Activities, those that take precedence first."""

_HOST_COMMUNICATION, _RUNTIME, _DATALOADER, _CPU_EXEC = range(4)

_HOST_ACTIVITY = f"""
    SELECT rank, span, start_ns, start_ns + dur_ns AS end_ns,
        CASE WHEN kind = 'runtime' THEN {_RUNTIME}
            WHEN role = 'communication' THEN {_HOST_COMMUNICATION}
            WHEN role = 'dataloader' THEN {_DATALOADER}
            ELSE {_CPU_EXEC} END::TINYINT AS activity
    FROM host_event
    WHERE {{ranks}} AND dur_ns > 0 AND (
        kind = 'runtime'
        OR kind IN ('operator', 'annotation', 'python') AND (
            role IN ('communication', 'dataloader')
            OR role IS DISTINCT FROM 'step' AND (
                parent_id IS NULL OR parent_id IN (
                    SELECT id FROM host_event
                    WHERE {{ranks}} AND (role = 'step' OR kind IN ('overhead', 'other'))
                )
            )
        )
    )
"""
"""Host time by activity. Of operators, ranges and Python frames only the outermost are read: what is
below one of them lies inside it and adds nothing to the union; what is below a runtime call or a
DataLoader range lies inside that and is given to it. Ids may repeat between ranks: a row that is read
for another rank's sake is an inner one, and adds nothing either."""


@dataclass(frozen=True, slots=True)
class Breakdown:
    """The steps of one recording and what their time went to.

    `parts_ns` has a row a step and a column for each of `PARTS`; a row sums to the step's length.
    `measured` says of each of `PARTS` whether the recording could show it at all. `device_span_ns`
    is the same split of the time from the device's first work to its last; empty without a device.
    """

    rank: int
    span: int
    steps: Columns
    parts_ns: Array
    measured: tuple[bool, ...]
    device_span_ns: Array


def break_down(
    scope: Scope,
    steps: Recordings,
    device: Recordings,
    records: Mapping[tuple[int, int], HostRecord],
    ranks: str = "rank >= 0",
) -> Iterator[Breakdown]:
    """Breaks down steps.

    Args:
        scope: the events, of all steps.
        steps: the steps to break down, as `steps_of` gives them.
        device: the device's work, as `device_work` gives it.
        records: what there is of the host, as `host_records` gives it.
        ranks: the SQL condition on ranks that all of these were asked with.
    """
    host = recordings(scope.numpy(_HOST_ACTIVITY.format(ranks=ranks)))
    for key, own in steps.items():
        record = records.get(key)
        runtime, operators = (record.runtime, record.operators) if record else (False, False)
        work = key in device
        start, end = own["start_ns"], own["end_ns"]
        if work:
            first, last = extent(device[key])
            start, end = np.concatenate([start, first]), np.concatenate([end, last])
        parts_ns = split(start, end, _layers(device.get(key), host.get(key)))
        yield Breakdown(
            *key,
            steps=own,
            parts_ns=parts_ns[: len(own["step"])],
            measured=(work, work, work, work or operators, runtime, operators, operators, True),
            device_span_ns=parts_ns[len(own["step"]) :],
        )


def _layers(device: Columns | None, host: Columns | None) -> list[Intervals]:
    def on_device(work: int) -> Intervals:
        return union([], []) if device is None else union_of(device, device["work"] == work)

    def on_host(activity: int) -> Intervals:
        return union([], []) if host is None else union_of(host, host["activity"] == activity)

    kernels, waiting = on_device(COMMUNICATION), on_host(_HOST_COMMUNICATION)
    return [
        on_device(COMPUTATION),
        on_device(COPY),
        on_device(FILL),
        union(
            np.concatenate([kernels.start, waiting.start]),
            np.concatenate([kernels.end, waiting.end]),
        ),
        on_host(_RUNTIME),
        on_host(_DATALOADER),
        on_host(_CPU_EXEC),
    ]


def mean_parts(parts_ns: Array) -> list[int]:
    """The mean of rows of parts, in whole ns whose sum is the mean of the totals, rounded.

    Each mean is rounded down or up: those with the largest remainders are rounded up, as many as it
    takes.

    >>> mean_parts(np.array([[1, 2, 0], [2, 2, 0]]))
    [2, 2, 0]
    """
    rows = len(parts_ns)
    sums = parts_ns.sum(axis=0)
    means = sums // rows
    missing = (2 * int(sums.sum()) + rows) // (2 * rows) - int(means.sum())
    means[np.argsort(-(sums % rows), kind="stable")[:missing]] += 1
    return [int(mean) for mean in means]
