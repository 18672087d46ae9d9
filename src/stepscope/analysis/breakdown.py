"""The arithmetic of the step breakdown: every moment of a step is given to exactly one activity."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from stepscope.analysis.gaps import CAUSES, KERNEL_WAIT_NS, find_gaps
from stepscope.analysis.intervals import Intervals, split, union
from stepscope.analysis.kernel_use import has_times
from stepscope.analysis.recording import (
    COMMUNICATION,
    COMPUTATION,
    COPY,
    FILL,
    Array,
    Columns,
    Recordings,
    device_work,
    every_step,
    extent,
    outer_depth,
    rank_batches,
    recordings,
    steps_of,
    union_of,
)
from stepscope.answers.rounding import whole_parts
from stepscope.answers.scope import Scope

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

IDLE_PARTS = PARTS[3:]
"""What may go on while no device of the recording does anything."""

_HOST_COMMUNICATION, _RUNTIME, _DATALOADER, _CPU_EXEC = range(4)

_CPU = """
    depth <= {depth} AND kind IN ('operator', 'annotation', 'python') AND role IS DISTINCT FROM 'step'
"""
_HOST = f"""
    SELECT rank, span, start_ns, start_ns + dur_ns AS end_ns, CASE
            WHEN role = 'communication' THEN {_HOST_COMMUNICATION}
            WHEN kind = 'runtime' THEN {_RUNTIME}
            WHEN role = 'dataloader' THEN {_DATALOADER}
            ELSE {_CPU_EXEC}
        END::TINYINT AS activity
    FROM host_event
    WHERE {{ranks}} AND (role IN ('communication', 'dataloader') OR kind = 'runtime' OR {_CPU})
"""
"""Which host events are which activity. Where one is two, the first takes its time. One query: to
read the times once for each activity costs more than a condition that is checked after."""


@dataclass(frozen=True, slots=True)
class Breakdown:
    """The steps of one recording and what their time went to.

    `parts_ns` has a row a step and a column for each of `PARTS`; a row sums to the step's length.
    `measured` says for each of `PARTS` whether the recording could show it at all. `device_span_ns`
    is the same split of the time from the device's first work to its last; empty without a device.
    `idle_ns` splits the time in which no device did anything, in the steps that count (without marked
    steps, from first work to last): a row for each of `CAUSES`, a column for each of `IDLE_PARTS`.
    """

    rank: int
    span: int
    steps: Columns
    parts_ns: Array
    measured: tuple[bool, ...]
    device_span_ns: Array
    idle_ns: Array

    @property
    def counted(self) -> Array:
        """Which steps a mean is made of (see `counted`)."""
        return self.steps["counted"]

    @property
    def counted_windows(self) -> Columns:
        """The columns of these steps."""
        return {name: values[self.counted] for name, values in self.steps.items()}

    @property
    def counted_parts_ns(self) -> Array:
        """What the time of these steps went to."""
        return self.parts_ns[self.counted]


def break_down_all(scope: Scope) -> Iterator[Breakdown]:
    """Breaks down every step of a scope, some ranks at a time."""
    with every_step(scope) as whole:
        for ranks in rank_batches(scope.ranks):
            yield from break_down(whole, steps_of(scope, ranks), device_work(whole, ranks), ranks)


def break_down(
    scope: Scope,
    steps: Recordings,
    device: Recordings,
    ranks: str = "rank >= 0",
    *,
    causes: bool = False,
    marked: bool = True,
) -> Iterator[Breakdown]:
    """Breaks down steps.

    Args:
        scope: the events, of all steps.
        steps: the steps to break down, as `steps_of` gives them.
        device: the device's work, as `device_work` gives it.
        ranks: the SQL condition on ranks that all of these were asked with.
        causes: whether idle time is told by its cause; `idle_ns` is all 0 otherwise.
        marked: whether steps are marked; the entire recording is one step otherwise.
    """
    query = _HOST.format(ranks=ranks, depth=outer_depth(scope, ranks))
    host = recordings(scope.numpy(query))
    for key, own in steps.items():
        doing = host[key]["activity"] if key in host else np.empty(0)
        runtime, operators = bool((doing == _RUNTIME).any()), bool((doing != _RUNTIME).any())
        work = key in device
        start, end = own["start_ns"], own["end_ns"]
        if work:
            first, last = extent(device[key])
            start, end = np.concatenate([start, first]), np.concatenate([end, last])
        layers = _layers(device.get(key), host.get(key))
        parts_ns = split(start, end, layers)
        broken = Breakdown(
            *key,
            steps=own,
            parts_ns=parts_ns[: len(own["step"])],
            measured=(
                work and has_times(device[key]),
                work,
                work,
                work or operators,
                runtime,
                operators,
                operators,
                True,
            ),
            device_span_ns=parts_ns[len(own["step"]) :],
            idle_ns=np.zeros((len(CAUSES), len(IDLE_PARTS)), dtype=np.int64),
        )
        if causes and work:
            windows = broken.counted_windows if marked else None
            gaps = find_gaps(device[key], KERNEL_WAIT_NS, windows)
            idle = split(gaps.start, gaps.end, layers[PARTS.index(IDLE_PARTS[0]) :])
            for cause in range(len(CAUSES)):
                broken.idle_ns[cause] = idle[gaps.cause == cause].sum(axis=0)
        yield broken


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

    >>> mean_parts(np.array([[1, 2, 0], [2, 2, 0]]))
    [2, 2, 0]
    """
    return whole_parts([Fraction(int(total), len(parts_ns)) for total in parts_ns.sum(axis=0)])
