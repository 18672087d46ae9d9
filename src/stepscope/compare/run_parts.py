"""The parts of a run's traced step, rank by rank, by which runs of different sizes are compared.

With a device: computation, exposed communication and copies as in `device-time`, and idle time by what the host did. If
every rank was recorded and steps are marked, exposed communication beyond the least of any rank in that step is
*imbalance*: the last rank waits for nobody; the rest is *exposed transfer*. Without a device: what the host did, as in
`steps`. Parts add up to the step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stepscope.analysis.ranks.rank_times import rank_steps
from stepscope.analysis.steps.breakdown import break_down_all
from stepscope.analysis.steps.parts import PARTS
from stepscope.compare.interval import RankMean
from stepscope.compare.runs import as_event
from stepscope.query.scope import Scope

COMMUNICATION = "exposed communication"
TRANSFER = "exposed transfer"
IMBALANCE = "imbalance"
"""This and `TRANSFER` are the parts of exposed communication if all ranks were recorded."""
_ON_DEVICE = {"computation": "computation", "exposed_communication": COMMUNICATION, "exposed_copy": "exposed copies"}
_IDLE = {"input": ("dataloader",), "host": ("runtime", "cpu_exec")}
"""Idle time of the device by what the host did: it waited for a batch, or was busy."""

Steps = dict[int, dict[tuple[int, int], dict[str, int]]]
"""rank → (span, step) → part → ns"""


def step_parts(scope: Scope) -> Steps:
    """The parts of each step that enters means; `step` is its total."""
    steps: Steps = {}
    for recording in rank_steps(scope):
        for row in np.flatnonzero(recording.counted).tolist():
            parts = {"step": int(recording.times["step"][row])}
            if recording.devices == 1:
                parts |= {label: int(recording.times[name][row]) for name, label in _ON_DEVICE.items()}
                parts["other"] = int(recording.times["idle"][row])
            steps.setdefault(recording.rank, {})[recording.span, int(recording.step[row])] = parts
    for broken in break_down_all(scope):
        places = {name: place for place, name in enumerate(PARTS)}
        for row, step in enumerate(broken.steps["step"].tolist()):
            parts = steps.get(broken.rank, {}).get((broken.span, step), {})
            of_step = {name: int(broken.parts_ns[row, place]) for name, place in places.items()}
            if "other" in parts:
                for label, names in _IDLE.items():
                    parts[label] = sum(of_step[name] for name in names)
                    parts["other"] -= parts[label]
            elif parts and broken.measured[places["cpu_exec"]]:
                parts |= {name: of_step[name] for name, place in places.items() if broken.measured[place]}
    return steps


def split_waiting(steps: Steps) -> None:
    """Separates exposed communication into waiting for late ranks and the rest, in place."""
    shortest: dict[tuple[int, int], int] = {}
    for of_rank in steps.values():
        for key, parts in of_rank.items():
            if COMMUNICATION in parts:
                shortest[key] = min(shortest.get(key, parts[COMMUNICATION]), parts[COMMUNICATION])
    for of_rank in steps.values():
        for key, parts in of_rank.items():
            if COMMUNICATION in parts:
                unsplit = dict(parts)
                parts.clear()
                for name, ns in unsplit.items():
                    parts[TRANSFER if name == COMMUNICATION else name] = ns
                parts |= {TRANSFER: shortest[key], IMBALANCE: unsplit[COMMUNICATION] - shortest[key]}


def as_rows(steps: Steps) -> list[dict[str, Any]]:
    """Rows like those of `inline`: a part on a rank, and its mean over steps."""
    rows = []
    for rank, of_rank in sorted(steps.items()):
        labels = dict.fromkeys(label for parts in of_rank.values() for label in parts)
        for place, label in enumerate(labels):
            mean = RankMean.of([parts[label] for parts in of_rank.values() if label in parts])
            rows.append(as_event(place, rank, label, mean))
    return rows


def separates_waiting(scope: Scope, steps: Steps) -> bool:
    """Whether waiting can be separated from transfer: nothing communicates, or every rank was recorded and steps
    correspond."""
    if not any(parts.get(COMMUNICATION) for of_rank in steps.values() for parts in of_rank.values()):
        return True
    size = scope.value("SELECT max(world_size) FROM rank")
    marked = scope.value("SELECT bool_and(rule = 'ProfilerStep') FROM step")
    return size is not None and len(steps) >= size and (size == 1 or bool(marked))
