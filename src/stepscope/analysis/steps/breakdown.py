"""Breaks a step down: every moment is assigned to exactly one part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from stepscope.analysis.kernels.use import has_times
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
    once,
    outer_depth,
    range_depth,
    rank_batches,
    recordings,
    steps_of,
    union_of,
)
from stepscope.analysis.steps.gaps import (
    BLOCKS,
    CAUSES,
    COMMUNICATES,
    HOST_WAIT,
    KERNEL_WAIT_NS,
    NO_WORK_FOLLOWS,
    find_gaps,
)
from stepscope.analysis.steps.parts import IDLE_PARTS, PARTS
from stepscope.link.intervals import Intervals, covered, split, union
from stepscope.query.apportion import largest_remainder
from stepscope.query.rank_exclusion import ranks_without_their_device
from stepscope.query.scope import Scope

_HOST_COMMUNICATION, _RUNTIME, _BLOCKED, _DATALOADER, _CPU_EXEC, _RANGE = range(6)

_CPU = """
    (depth <= {depth} AND kind = 'annotation' AND role IS DISTINCT FROM 'step'
        OR depth <= {inner} AND kind IN ('operator', 'python'))
"""
_HOST = f"""
    SELECT rank, span, start_ns, start_ns + dur_ns AS end_ns, CASE
            WHEN {COMMUNICATES} THEN {_HOST_COMMUNICATION}
            WHEN kind = 'runtime' THEN CASE WHEN {BLOCKS} THEN {_BLOCKED} ELSE {_RUNTIME} END
            WHEN role = 'dataloader' THEN {_DATALOADER}
            WHEN kind = 'annotation' THEN {_RANGE}
            ELSE {_CPU_EXEC}
        END::TINYINT AS activity
    FROM host_event
    WHERE {{ranks}} AND ({COMMUNICATES} OR role = 'dataloader' OR kind = 'runtime' OR {_CPU})
"""
"""Host events by activity, the first that fits; one query, since reading the times again costs more."""


@dataclass(frozen=True, slots=True)
class HostWaits:
    """Gaps of a recording's devices that the host ended, or that no work ended.

    Args:
        start, end: of each gap (ns).
        window: index of its counted step; 0 if steps are not marked.
        parts_ns: what the host did meanwhile: a row per gap, a column per `IDLE_PARTS`.
        blocked_ns: how long the host itself waited for the device, copying or synchronising.
        launched: whether work that was launched in the gap ended it.
    """

    start: Array
    end: Array
    window: Array
    parts_ns: Array
    blocked_ns: Array
    launched: Array


@dataclass(frozen=True, slots=True)
class Breakdown:
    """The steps of one recording and how their time is divided.

    Args:
        parts_ns: a row per step, a column per part of `PARTS`; rows add up to the step.
        measured: whether the recording can show each part.
        device_span_ns: the same from the device's first work to its last; empty without a device.
        idle_ns: idle time of all devices in counted steps (unmarked: from first to last work): a row per `CAUSES`, a
            column per `IDLE_PARTS`.
        waits: those of its gaps that count as waiting for the host.
    """

    rank: int
    span: int
    steps: Columns
    parts_ns: Array
    measured: tuple[bool, ...]
    device_span_ns: Array
    idle_ns: Array
    waits: HostWaits | None

    @property
    def counted(self) -> Array:
        """Which steps enter means (see `counted`)."""
        return self.steps["counted"]

    @property
    def counted_windows(self) -> Columns:
        """The columns of these steps."""
        return _counted(self.steps)

    @property
    def counted_parts_ns(self) -> Array:
        """How the time of these steps is divided."""
        return self.parts_ns[self.counted]


@once
def break_down_all(scope: Scope) -> list[Breakdown]:
    """Breaks down every step of a scope."""
    with every_step(scope) as all_steps:
        return [
            broken
            for ranks in rank_batches(scope)
            for broken in break_down(all_steps, steps_of(scope, ranks), device_work(all_steps, ranks), ranks)
        ]


def break_down(
    scope: Scope,
    steps: Recordings,
    device: Recordings,
    ranks: str = "rank >= 0",
    *,
    causes: bool = False,
    marked: bool = True,
) -> Iterator[Breakdown]:
    """Breaks down steps; without `causes` `idle_ns` is 0, and unless steps are marked the recording is one step."""
    depth = outer_depth(scope, ranks)
    inner = max(depth, range_depth(scope, ranks)) if causes else depth
    query = _HOST.format(ranks=ranks, depth=depth, inner=inner)
    host, lost = recordings(scope.numpy(query)), ranks_without_their_device(scope)
    for key, of_recording in steps.items():
        doing = host[key]["activity"] if key in host else np.empty(0)
        calls = (doing == _RUNTIME) | (doing == _BLOCKED)
        runtime, operators = bool(calls.any()), bool((~calls).any())
        work = key in device
        start, end = of_recording["start_ns"], of_recording["end_ns"]
        if work:
            first, last = extent(device[key])
            start, end = np.concatenate([start, first]), np.concatenate([end, last])
        layers = _layers(device.get(key), host.get(key))
        parts_ns = split(start, end, layers)
        idle_ns = np.zeros((len(CAUSES), len(IDLE_PARTS)), dtype=np.int64)
        waits = None
        if causes and work:
            windows = _counted(of_recording) if marked else None
            gaps = find_gaps(device[key], KERNEL_WAIT_NS, windows)
            during = _while_idle(layers, host.get(key))
            idle = split(gaps.start, gaps.end, during)
            for cause in range(len(CAUSES)):
                idle_ns[cause] = idle[gaps.cause == cause].sum(axis=0)
            late = (gaps.cause == HOST_WAIT) | (gaps.cause == NO_WORK_FOLLOWS)
            gap_start, gap_end = gaps.start[late], gaps.end[late]
            window = np.zeros(len(gap_start), dtype=np.int64)
            if windows is not None:
                window = np.searchsorted(windows["start_ns"], gap_start, side="right") - 1
            blocked = covered(_on_host(host.get(key), _BLOCKED), gap_start, gap_end)
            launched = gaps.cause[late] == HOST_WAIT
            waits = HostWaits(gap_start, gap_end, window, idle[late], blocked, launched)
        timed = work and has_times(device[key])
        communicates = operators and (key[0] not in lost or bool((doing == _HOST_COMMUNICATION).any()))
        yield Breakdown(
            *key,
            steps=of_recording,
            parts_ns=parts_ns[: len(of_recording["step"])],
            measured=(timed, work, work, work or communicates, runtime, operators, operators, True),
            device_span_ns=parts_ns[len(of_recording["step"]) :],
            idle_ns=idle_ns,
            waits=waits,
        )


def _counted(steps: Columns) -> Columns:
    counted = steps["counted"]
    return {name: values[counted] for name, values in steps.items()}


def _while_idle(layers: list[Intervals], host: Columns | None) -> list[Intervals]:
    """What covers idle time, by `IDLE_PARTS` except the last: ranges after what is recorded in them."""
    return [*layers[PARTS.index("communication") : -1], _on_host(host, _CPU_EXEC), layers[-1]]


def _on_host(host: Columns | None, *activities: int) -> Intervals:
    if host is None:
        return union([], [])
    return union_of(host, np.isin(host["activity"], activities))


def _layers(device: Columns | None, host: Columns | None) -> list[Intervals]:
    def on_device(work: int) -> Intervals:
        return union([], []) if device is None else union_of(device, device["work"] == work)

    kernels, waiting = on_device(COMMUNICATION), _on_host(host, _HOST_COMMUNICATION)
    return [
        on_device(COMPUTATION),
        on_device(COPY),
        on_device(FILL),
        union(np.concatenate([kernels.start, waiting.start]), np.concatenate([kernels.end, waiting.end])),
        _on_host(host, _RUNTIME, _BLOCKED),
        _on_host(host, _DATALOADER),
        _on_host(host, _CPU_EXEC, _RANGE),
    ]


def mean_parts(parts_ns: Array) -> list[int]:
    """Mean parts in integer ns that add up to the rounded mean total.

    >>> mean_parts(np.array([[1, 2, 0], [2, 2, 0]]))
    [2, 2, 0]
    """
    return largest_remainder([Fraction(int(total), len(parts_ns)) for total in parts_ns.sum(axis=0)])
