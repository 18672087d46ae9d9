"""Compares the throughput of two recordings and, if their batches differ, the time per sample."""

from __future__ import annotations

import math
from collections.abc import Sequence

from stepscope.analysis.job.throughput import NO_INTERVAL, Rate, rate_text, together
from stepscope.base.statistics import is_informative
from stepscope.base.units import count_text, ratio_text, time_text

_SAME_BATCH = 1e-3
"""Mean batches with a smaller relative difference are the same: the last of an epoch may be smaller."""


def throughput_compared(before: Sequence[Rate], after: Sequence[Rate]) -> list[str]:
    """A sentence for each number that both have, and one if their batches differ."""
    first, second = ({rate.name: rate for rate in together(side)} for side in (before, after))
    lines = []
    for name in sorted(first.keys() & second.keys()):
        left, right = first[name], second[name]
        if not left.per_second:
            continue
        lines.append(
            f"{name}/s: {rate_text(left)} → {rate_text(right)} "
            f"({_change(left, right, right.per_second / left.per_second - 1)})."
        )
        mine, theirs = (rate.per_step / len(rate.ranks) for rate in (left, right))
        if mine and theirs and not math.isclose(mine, theirs, rel_tol=_SAME_BATCH):
            took, takes = left.step_ns / mine, right.step_ns / theirs
            lines.append(
                f"Batches differ ({count_text(mine)} and {count_text(theirs)} {name} of a rank in a step), "
                f"and so does the work of a step: per {name.removesuffix('s')} a rank's step takes "
                f"{time_text(took)} → {time_text(takes)} ({_change(left, right, takes / took - 1)})."
            )
    return lines


def _change(left: Rate, right: Rate, change: float) -> str:
    """A relative change with its interval, from the relative errors of both rates."""
    signed = f"{'+' if change > 0 else ''}{ratio_text(change)}"
    errors = [
        None if rate.half_per_second is None else rate.half_per_second / rate.per_second
        for rate in (left, right)
        if rate.per_second
    ]
    error = (
        math.inf if None in errors or len(errors) < 2 else math.hypot(*(error for error in errors if error is not None))
    )
    if not is_informative(error, 1.0):
        return f"{signed}, {NO_INTERVAL}"
    # In logarithms, so that a rate and its inverse, the time of a sample, are judged alike.
    unclear = error >= abs(math.log1p(change))
    half = ratio_text((1 + change) * error)
    return f"{signed} ± {half}{', no clear change' if unclear else ''}"
