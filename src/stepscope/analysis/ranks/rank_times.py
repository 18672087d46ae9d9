"""What each rank did in each step, one number per measure, so that ranks can be compared."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepscope.analysis.device_share import share_device
from stepscope.analysis.kernels.use import has_times
from stepscope.analysis.ranks.pipeline import pipelines
from stepscope.analysis.recording import (
    COMMUNICATION,
    COMPUTATION,
    Array,
    Columns,
    Recordings,
    device_work,
    every_step,
    extent,
    groups,
    marks_steps,
    once,
    rank_batches,
    recordings,
    steps_of,
    union_of,
)
from stepscope.base.statistics import quantile, student_t
from stepscope.link.intervals import covered, split

if TYPE_CHECKING:
    from stepscope.query.scope import Scope

PARTS = ("computation", "exposed_communication", "exposed_copy", "idle")
"""The complete division of a device's time (see `device-time`)."""

_WAITS = "SELECT rank, span, start_ns, wait_ns FROM collective WHERE {ranks} AND wait_ns IS NOT NULL"

_OF_STAGES = """
    SELECT rank, span, start_ns, CASE WHEN wait_ns IS NULL THEN end_ns ELSE start_ns + wait_ns END AS end_ns
    FROM collective WHERE {ranks} AND ({stages})
"""
"""An unmatched collective counts as a wait completely: wait and transfer cannot be separated then."""

ENOUGH_RANKS = 3
"""With fewer ranks, none can be said to differ from the others."""
SPREADS = 3.5
"""Robust standard deviations of the others beyond which a rank differs (Iglewicz and Hoaglin, 1993)."""
OF_STEP = 0.02
"""The share of a mean step by which it must differ at least."""
_TO_DEVIATION = 1.4826
"""The ratio of a normal distribution's standard deviation to its median absolute deviation."""


class RankSteps(NamedTuple):
    """A rank's steps in one of its recordings.

    Args:
        counted: whether they enter means.
        devices: number of devices that measures are summed over; 0 if none was recorded.
        times: ns by measure, a number per step: `step`; summed over devices `PARTS`, `communication` and `copy` (hidden
            or not), `kernels`; `waiting` for ranks in collectives; `bubble`, waiting for other pipeline stages while no
            device computed or copied. Unrecorded measures are missing.
    """

    rank: int
    span: int
    step: Array
    counted: Array
    devices: int
    times: Mapping[str, Array]


@once
def rank_steps(scope: Scope) -> list[RankSteps]:
    """What each rank did in each requested step, by rank and span. Without marked steps the
    recording is one step, and devices count from first to last work."""
    measured = []
    with every_step(scope) as all_steps:
        of_stages = pipelines(all_steps)
        for ranks in rank_batches(scope):
            steps, device = steps_of(scope, ranks), device_work(all_steps, ranks)
            marked, waits = marks_steps(scope), recordings(all_steps.numpy(_WAITS.format(ranks=ranks)))
            stages: Recordings = {}
            if of_stages is not None:
                query = _OF_STAGES.format(ranks=ranks, stages=of_stages.condition)
                stages = recordings(all_steps.numpy(query))
            for key, windows in steps.items():
                work = device.get(key)
                looked_at = windows["start_ns"], windows["end_ns"]
                if not marked and work is not None:
                    looked_at = extent(work)
                measured.append(_measured(key, windows, looked_at, work, waits.get(key), stages.get(key)))
    return measured


def _measured(
    key: tuple[int, int],
    steps: Columns,
    looked_at: tuple[Array, Array],
    work: Columns | None,
    waits: Columns | None,
    of_stages: Columns | None,
) -> RankSteps:
    start, end = steps["start_ns"], steps["end_ns"]
    times: dict[str, Array] = {"step": end - start}
    devices = [] if work is None or not has_times(work) else list(groups(work, "device").values())
    for of_device in devices:
        share = share_device(of_device, *looked_at)
        kernels = (of_device["work"] == COMPUTATION) | (of_device["work"] == COMMUNICATION)
        measures = {name: getattr(share, f"{name}_ns") for name in (*PARTS, "communication", "copy")}
        measures["kernels"] = covered(union_of(of_device, kernels), *looked_at)
        for name, ns in measures.items():
            times[name] = times[name] + ns if name in times else ns
    if waits is not None:
        times["waiting"] = _summed_in(start, end, waits["start_ns"], waits["wait_ns"])
    if devices and of_stages is not None and work is not None:
        kind = work["work"]
        busy = union_of(work, kind != COMMUNICATION)
        times["bubble"] = split(start, end, [busy, union_of(of_stages)])[:, 1]
    return RankSteps(*key, steps["step"], steps["counted"], len(devices), times)


def _summed_in(start: Array, end: Array, at: Array, value: Array) -> Array:
    place = np.searchsorted(start, at, side="right") - 1
    inside = (place >= 0) & (at < end[place])
    sums = np.zeros(len(start), dtype=np.int64)
    np.add.at(sums, place[inside], value[inside])
    return sums


class Differs(NamedTuple):
    """How far a rank's mean is from the median of the other ranks' (ns), and as a share of that."""

    ns: float
    ratio: float | None


def outliers(samples: Mapping[int, Sequence[float]], step_ns: float, resolution_ns: float) -> dict[int, Differs]:
    """Finds the ranks whose mean of a measure differs from the others' by more than noise explains.

    The distance from the median of the others' means must exceed 3.5 robust standard deviations (1.4826 MAD), half of
    the mean's 95 % interval, 2 % of a step, and the times' resolution. Needs 3 ranks, and two steps of each.

    Args:
        samples: each rank's measure per step (ns).
        step_ns: the mean step of all ranks.

    >>> list(outliers({0: [100, 101], 1: [101, 102], 2: [100, 100], 3: [150, 149]}, 100.0, 0.0))
    [3]
    """
    means = {rank: float(np.mean(values)) for rank, values in samples.items() if len(values)}
    if len(means) < ENOUGH_RANKS:
        return {}
    result = {}
    for rank, mean in means.items():
        others = sorted(other for of, other in means.items() if of != rank)
        middle = quantile(others, 0.5)
        spread = _TO_DEVIATION * quantile(sorted(abs(mean_of_rank - middle) for mean_of_rank in others), 0.5)
        threshold = max(SPREADS * spread, OF_STEP * step_ns, resolution_ns)
        if abs(mean - middle) > max(threshold, _noise(samples[rank])):
            result[rank] = Differs(mean - middle, (mean - middle) / middle if middle else None)
    return result


def _noise(values: Sequence[float]) -> float:
    """Half of the 95 % interval of a mean; infinite for a single value."""
    if len(values) < 2:
        return math.inf
    return student_t(len(values) - 1) * float(np.std(values, ddof=1)) / math.sqrt(len(values))
