"""The phases of each step, if ranges mark them: what a job measures itself, from another tool's recording."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from stepscope.formats.tables import from_rows
from stepscope.formats.vocabulary import phase_name
from stepscope.link.columns import words
from stepscope.link.host import ANNOTATION, STEP, Host
from stepscope.link.steps import Steps

_STEP, _RESIDUAL = "step", "residual"


def find_phases(host: Host, steps: Steps) -> dict[str, pa.Table]:
    """Tables `phase` and `phase_step`; empty if no range marks a phase within a marked step.

    Each moment of a step belongs to the innermost phase that is open on the thread of the step, or to none: that is the
    residual. Truncated steps do not count.
    """
    text, texts = words(host.table, "name")
    phases = [phase_name(name) for name in texts]
    names = sorted({name for name in phases if name is not None})
    code_of = np.array([names.index(name) if name else -1 for name in phases], np.int32)
    code = code_of[text[host.nesting.row]]
    code[host.kind != ANNOTATION] = -1
    marks = np.flatnonzero(host.role == STEP).astype(np.int32)
    place = np.flatnonzero(code >= 0).astype(np.int32)
    place = place[np.isin(host.thread_of(place), host.thread_of(marks))]
    step = steps.at(host.start[place])
    place, step = place[step >= 0], step[step >= 0]
    if not len(place):
        return {}
    self_ns = np.zeros(len(host), np.int64)
    self_ns[place] = (host.end - host.start)[place]
    around = host.climb(host.nesting.parent[place], code >= 0)
    np.subtract.at(self_ns, around[around >= 0], self_ns[place[around >= 0]].copy())
    measured, column = np.unique(code[place], return_inverse=True)
    times = np.zeros((len(steps), len(measured)), np.int64)
    np.add.at(times, (step, column), self_ns[place])
    total = steps.host_end - steps.host_start
    counted = steps.complete & (times.sum(axis=1) <= total)
    columns = {
        _STEP: total,
        **{names[which]: times[:, place] for place, which in enumerate(measured)},
        _RESIDUAL: total - times.sum(axis=1),
    }
    columns = {name: values[counted] for name, values in columns.items()}
    if not counted.any():
        return {}
    rows = [
        {"step": number, "phase": name, "dur_ns": values[row], "weight": 1}
        for row, number in enumerate(steps.number[counted].tolist())
        for name, values in columns.items()
    ]
    means = [_mean(name, values) for name, values in columns.items()]
    return {"phase": from_rows("phase", means), "phase_step": from_rows("phase_step", rows)}


def _mean(name: str, values: np.ndarray[Any, Any]) -> dict[str, Any]:
    return {
        "phase": name,
        "steps": len(values),
        "mean_ns": float(values.mean()),
        "median_ns": float(np.median(values)),
        "p95_ns": float(np.quantile(values, 0.95)),
        "max_ns": int(values.max()),
    }
