"""`first-step`: the first recorded step takes much longer than the others."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stepscope.floor.units import time_text
from stepscope.judge.declare import Finding, Threshold, rule
from stepscope.judge.facts import Facts

_RATIO = Threshold(
    "first step over the median of the others",
    1.5,
    "ratio",
    "ours: warm-up of libraries and of the recorder easily doubles a step",
)
_STEPS = Threshold("steps", 3, "count", "ours: fewer have no median to speak of")


@rule(
    "first-step",
    "A first recorded step that spoils means.",
    _RATIO,
    _STEPS,
    silent_without=("file",),
)
def first_step(facts: Facts) -> Iterator[Finding]:
    """The first complete step of a recording against the median of its others. Nothing is saved by
    it in a long run; it is a reason to leave that step out of means.
    """
    if not facts.has_steps:
        return
    for broken in facts.times.broken:
        rows = np.flatnonzero(broken.steps["complete"])
        lengths = broken.parts_ns[rows].sum(axis=1)
        if len(rows) < _STEPS.value:
            continue
        usual, ratio = float(np.median(lengths[1:])), 0.0
        if usual:
            ratio = float(lengths[0]) / usual
        if ratio <= _RATIO.value:
            continue
        step, after = int(broken.steps["step"][rows[0]]), broken.steps["step"][rows[1:]]
        yield Finding(
            title=f"The first recorded step takes {time_text(int(lengths[0]))}, the others "
            f"{time_text(usual)}: means are better without it",
            metric="first step over the median of the others",
            value=ratio,
            unit="ratio",
            confidence="high",
            evidence=({"first_ns": int(lengths[0]), "median_of_others_ns": usual},),
            rank=broken.rank,
            step=step,
            window_ns=(
                int(broken.steps["start_ns"][rows[0]]),
                int(broken.steps["end_ns"][rows[0]]),
            ),
            advice=f"Ask with --step {int(after.min())}-{int(after.max())}; record with a longer "
            "warmup in torch.profiler.schedule.",
            query="stepscope steps SRC --json",
        )
