"""Orders kernels by how much faster they could be: `roofline --by priority`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.analysis.kernels.counters import limiter, weighted_means
from stepscope.analysis.kernels.measured import joined_kernels
from stepscope.analysis.operators.totals import totals
from stepscope.analysis.operators.work import classes_of
from stepscope.analysis.recording import every_step
from stepscope.costs import CLASSES

if TYPE_CHECKING:
    from stepscope.analysis.operators.attainable import Roofs
    from stepscope.analysis.operators.work import DeviceWork, Part
    from stepscope.query.scope import Scope

UNKNOWN_GAP = 0.3
"""Fraction of its time that a kernel is assumed to gain if nothing is known about it: TraceLens' middle estimate for
operators without an efficiency."""


def priority_rows(scope: Scope, work: DeviceWork, roofs: Roofs) -> list[dict[str, Any]]:
    """The computing kernels, the one most worth making faster first."""
    counters = _counters(scope)
    rows = work.rows
    group = np.where(rows["work"] == 0, rows["kernel"], len(work.kernels))
    main_class: dict[int, tuple[int, int]] = {}
    for kernel, place, ns in zip(group.tolist(), classes_of(work).tolist(), rows["device_ns"].tolist(), strict=True):
        main_class[kernel] = max(main_class.get(kernel, (-1, 0)), (ns, place))
    parts: list[list[Part]] = [[] for _ in range(len(work.kernels) + 1)]
    for part in work.parts(group):
        parts[part.group].append(part)
    judged = [
        _row(work, roofs, kernel, of_kernel, counters.get(work.kernels[kernel], {}))
        | {"class": CLASSES[main_class[kernel][1]]}
        for kernel, of_kernel in enumerate(parts[:-1])
        if of_kernel
    ]
    judged.sort(key=lambda row: (-row["priority"], -row["device_ns"], row["name"]))
    highest = max((row["priority"] for row in judged), default=0.0) or 1.0
    return [row | {"priority": 100 * row["priority"] / highest} for row in judged]


def _row(work: DeviceWork, roofs: Roofs, kernel: int, parts: list[Part], counters: dict[str, float]) -> dict[str, Any]:
    device_ns = sum(part.device_ns for part in parts)
    total = totals(parts, roofs)
    occupied = sum(part.occupied_ns for part in parts)
    occupancy = sum(part.occupancy_ns for part in parts) / occupied if occupied else None
    if "achieved_occupancy" in counters:
        occupancy = counters["achieved_occupancy"] / 100
    closest = limiter(counters)
    gap, basis = UNKNOWN_GAP, "time"
    if occupancy is not None and 1 - occupancy > UNKNOWN_GAP:
        gap, basis = 1 - occupancy, "occupancy"
    if closest is not None:
        gap, basis = 1 - closest[1] / 100, "counters"
    attained = saving = bound = None
    if total.attainable_ns is not None and total.bounded_ns:
        attained = min(1.0, total.attainable_ns / total.bounded_ns)
        bound = roofs.of[parts[0].variant].bound or None
        saving = max(0, total.bounded_ns - round(total.attainable_ns))
        gap, basis = 1 - attained, "limit"
    return {
        "priority": device_ns * max(0.0, gap),
        "name": work.kernels[kernel],
        "operator": work.variants[parts[0].variant].name,
        "count": sum(part.events for part in parts),
        "device_ns": device_ns,
        "share_ratio": device_ns / work.device_ns if work.device_ns else None,
        "occupancy_ratio": occupancy,
        "attainable_ratio": attained,
        "bound": bound,
        "saving_ns": saving,
        "limiter": None if closest is None else closest[0],
        "limiter_ratio": None if closest is None else closest[1] / 100,
        "basis": basis,
    }


def _counters(scope: Scope) -> dict[str, dict[str, float]]:
    """Counters of each kernel by name, averaged over its grids and blocks by time."""
    with every_step(scope) as all_steps:
        kernels = [kernel for kernel in joined_kernels(all_steps).kernels if kernel.rule is not None]
    names = dict.fromkeys(kernel.name for kernel in kernels)
    return {
        name: weighted_means((kernel.values, float(kernel.device_ns or 0)) for kernel in kernels if kernel.name == name)
        for name in names
    }
