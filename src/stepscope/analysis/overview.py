"""The numbers behind a summary: each is read from the tables once, and only if it is needed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stepscope.analysis.attribution import CHARGED_WORK, REPLAYED_CALLS
from stepscope.analysis.device_share import device_totals
from stepscope.analysis.kernels.use import KernelUse, use_of_kernels
from stepscope.analysis.recording import (
    Array,
    device_work,
    every_step,
    groups,
    marks_steps,
    once,
    rank_batches,
    recorded_times,
    steps_of,
)
from stepscope.analysis.steps.breakdown import Breakdown, break_down, mean_parts
from stepscope.analysis.steps.gaps import CAUSES
from stepscope.analysis.steps.parts import IDLE_PARTS, PARTS
from stepscope.analysis.windows import counted_windows
from stepscope.query.scope import Scope
from stepscope.schema.device_work import KERNELS, WORK

Row = dict[str, Any]

_DEVICES = """
    SELECT kind, name, memory_bytes, compute_major, compute_minor, count(*) AS devices
    FROM device WHERE used
    GROUP BY ALL ORDER BY devices DESC, kind, name, memory_bytes, compute_major, compute_minor
"""

_HOST_OPERATORS = """
    SELECT name AS item, count(*) AS count, sum(self_ns)::BIGINT AS time_ns,
        sum(self_ns) / nullif(sum(sum(self_ns)) OVER (), 0) AS share_ratio, 'host self time' AS text
    FROM host_event WHERE kind = 'operator'
    GROUP BY name ORDER BY time_ns DESC, name
"""

_DEVICE_OPERATORS = f"""
    SELECT charged_to AS item, sum(dur_ns)::BIGINT AS time_ns,
        sum(dur_ns) / nullif(sum(sum(dur_ns)) OVER (), 0) AS share_ratio, 'device self time' AS text,
        bool_or(operator_name IS NOT NULL) AS charged
    FROM ({CHARGED_WORK}) GROUP BY charged_to ORDER BY time_ns DESC, item LIMIT $top
"""

_REPLAYED = f"""
    SELECT name AS item, sum(replays)::BIGINT AS count FROM (
        SELECT name, rank, id, max(replays) AS replays FROM ({REPLAYED_CALLS}) GROUP BY ALL
    ) GROUP BY name
"""

_KERNELS = f"""
    SELECT name AS item, sum(dur_ns)::BIGINT AS time_ns, count(*) AS count,
        sum(dur_ns) / nullif(sum(sum(dur_ns)) OVER (), 0) AS share_ratio, 'summed duration' AS text
    FROM device_event WHERE {KERNELS}
    GROUP BY name ORDER BY time_ns DESC, name LIMIT $top
"""


def _modules(table: str, time: str, condition: str, what: str) -> str:
    return f"""
        SELECT module.path AS item, sum(own.time_ns)::BIGINT AS time_ns, sum(module.calls)::BIGINT AS count,
            sum(own.time_ns) / nullif(any_value(everything.time_ns), 0) AS share_ratio, '{what}' AS text
        FROM (
            SELECT rank, span, module_id, sum({time}) AS time_ns FROM {table}
            WHERE {condition} AND module_id IS NOT NULL GROUP BY ALL
        ) AS own JOIN module USING (rank, span, module_id),
        (SELECT sum({time}) AS time_ns FROM {table} WHERE {condition}) AS everything
        GROUP BY module.path ORDER BY time_ns DESC, item LIMIT $top
    """


@dataclass(slots=True)
class Times:
    """Step times, breakdowns and device figures of all recordings of a scope."""

    step_ns: list[int] = field(default_factory=list)
    """Times of the steps that count."""
    parts_ns: list[Array] = field(default_factory=list)
    broken: list[Breakdown] = field(default_factory=list)
    """The breakdowns of each recording's steps, including those that do not count."""
    device_spans_ns: list[Array] = field(default_factory=list)
    """The split of each recording's time from the device's first work to its last."""
    marked: bool = True
    """Whether steps are marked, or found by the optimizer's calls."""
    measured: tuple[bool, ...] = (False,) * len(PARTS)
    mean_of_rank: dict[int, float] = field(default_factory=dict)
    steps: int = 0
    recorded_ns: dict[int, int] = field(default_factory=dict)
    """The recorded time of each rank, over all its recordings."""
    device: dict[str, int] = field(default_factory=dict)
    use: list[KernelUse] = field(default_factory=list)
    use_of_rank: dict[int, float] = field(default_factory=dict)
    """The lowest GPU utilisation of each rank's devices and recordings."""

    def mean(self) -> dict[str, int | None]:
        """Mean time of each activity over the steps that count; None if not measured."""
        return self._mean(self.parts_ns)

    def mean_of_device_spans(self) -> dict[str, int | None]:
        """The same from the device's first work to its last, over all recordings with a device."""
        return self._mean(self.device_spans_ns)

    def mean_idle(self) -> dict[str, dict[str, int]]:
        """Mean idle time of all devices by cause and activity: in a counted step, or, without marked steps, from first
        to last work."""
        none = np.zeros((len(CAUSES), len(IDLE_PARTS)), dtype=np.int64)
        idle = sum((broken.idle_ns for broken in self.broken), none) / self.idle_over
        return {
            cause: {part: round(ns) for part, ns in zip(IDLE_PARTS, of_cause, strict=True)}
            for cause, of_cause in zip(CAUSES, idle, strict=True)
        }

    @property
    def idle_over(self) -> int:
        """How many steps, or, without marked steps, recordings, mean idle time is over."""
        windows = self.parts_ns if self.marked else self.device_spans_ns
        return max(1, sum(map(len, windows)))

    def _mean(self, parts_ns: list[Array]) -> dict[str, int | None]:
        rows = np.concatenate([np.zeros((0, len(PARTS)), dtype=np.int64), *parts_ns])
        if not len(rows):
            return dict.fromkeys(PARTS)
        return {
            part: mean if is_measured else None
            for part, mean, is_measured in zip(PARTS, mean_parts(rows), self.measured, strict=True)
        }

    def overall_use(self) -> list[float | None]:
        """Utilisation, SM efficiency and occupancy over all devices and recordings."""
        if not self.use:
            return [None, None, None]
        return self.use[0].total(*self.use[1:]).ratios()[0][:3]


@once
def measure_times(scope: Scope) -> Times:
    """Adds up the event times of all recordings."""
    times = Times(marked=marks_steps(scope))
    rank_steps: dict[int, list[int]] = {}
    with every_step(scope) as all_steps:
        for ranks in rank_batches(scope):
            steps, work = steps_of(scope, ranks), device_work(all_steps, ranks)
            for key, (first, last) in recorded_times(all_steps, work, ranks).items():
                if not times.marked and key in steps:
                    # Before the first call of the runtime there may be only system calls.
                    first = min(first, int(steps[key]["start_ns"].min()))
                    last = max(last, int(steps[key]["end_ns"].max()))
                times.recorded_ns[key[0]] = times.recorded_ns.get(key[0], 0) + last - first
            for broken in break_down(all_steps, steps, work, ranks, causes=True, marked=times.marked):
                parts = broken.counted_parts_ns
                times.broken.append(broken)
                times.parts_ns.append(parts)
                times.device_spans_ns.append(broken.device_span_ns)
                times.steps += len(broken.steps["complete"])
                lengths = parts.sum(axis=1).tolist()
                times.step_ns += lengths
                rank_steps.setdefault(broken.rank, []).extend(lengths)
                times.measured = tuple(a or b for a, b in zip(times.measured, broken.measured, strict=True))
            for key, of_rank in work.items():
                if key in steps:
                    _add_devices(times, scope, key[0], of_rank, steps[key])
    times.mean_of_rank = {rank: float(np.mean(of_rank)) for rank, of_rank in rank_steps.items()}
    return times


def _add_devices(times: Times, scope: Scope, rank: int, work: Any, steps: Any) -> None:
    chosen = None if scope.steps is None else (steps["start_ns"], steps["end_ns"])
    windows = counted_windows(steps) if chosen is None else chosen
    for of_device in groups(work, "device").values():
        for name, value in device_totals(of_device, chosen).items():
            times.device[name] = times.device.get(name, 0) + value
        use = use_of_kernels(of_device, *windows).total()
        times.use.append(use)
        utilization = use.ratios()[0][0]
        if utilization is not None:
            times.use_of_rank[rank] = min(times.use_of_rank.get(rank, 1.0), utilization)


def devices(scope: Scope) -> list[Row]:
    """Kinds, names and numbers of the devices that have work, with memory and compute capability."""
    return scope.sql(_DEVICES).to_pylist()


def top_operators(scope: Scope, limit: int) -> list[Row]:
    """The operators with the largest device self time (host self time if there is none): `item`, `time_ns`,
    `share_ratio`, `count`, `text` (which time)."""
    host: list[Row] = scope.sql(_HOST_OPERATORS).to_pylist()
    calls = {row["item"]: row["count"] for row in host}
    for row in [] if scope.has_none("captured_event") else scope.sql(_REPLAYED).to_pylist():
        calls[row["item"]] = calls.get(row["item"], 0) + row["count"]
    device: list[Row] = scope.sql(_DEVICE_OPERATORS, {"top": limit}).to_pylist()
    if not any(row["charged"] for row in device):
        return host[:limit]
    return [{**row, "count": calls.get(row["item"])} for row in device]


def top_kernels(scope: Scope, limit: int) -> list[Row]:
    """The kernels with the largest summed duration, as rows like `top_operators`'."""
    return scope.sql(_KERNELS, {"top": limit}).to_pylist()


def top_modules(scope: Scope, limit: int) -> list[Row]:
    """The modules with the most device work of their own (host self time if none has any), as rows like
    `top_operators`'."""
    rows: list[Row] = []
    if scope.value("SELECT count(*) FROM module"):
        on_host = ("host_event", "self_ns", "module_id IS NOT NULL", "host self time")
        for of in (("device_event", "dur_ns", WORK, "device self time"), on_host):
            rows = rows or scope.sql(_modules(*of), {"top": limit}).to_pylist()
    return rows
