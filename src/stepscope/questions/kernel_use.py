"""The arithmetic of how well kernels use a device: utilisation, SM efficiency, achieved occupancy."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from stepscope.intervals import Levels, concurrency, covered, integral, union
from stepscope.questions.recording import COMMUNICATION, COMPUTATION, Array, Columns

_MOST_BUCKETS = 100


@dataclass(frozen=True, slots=True)
class KernelUse:
    """How well kernels used one device: sums over a window, or one number for each of some windows.

    `resident_area` is the time integral of the part of the multiprocessors that had a block, and
    `described_window_ns` the window where any kernel states its blocks (0 where none does);
    `occupancy_area` is the integral of the kernels' occupancies, which `occupied_ns` divides.
    """

    window_ns: Array
    kernel_ns: Array
    resident_area: Array
    described_window_ns: Array
    occupancy_area: Array
    occupied_ns: Array
    described_ns: Array
    running_ns: Array

    def total(self, *others: KernelUse) -> KernelUse:
        """All windows together, and those of other devices or recordings with them."""
        sums: dict[str, Any] = {
            field.name: np.concatenate([getattr(use, field.name) for use in (self, *others)]).sum(
                keepdims=True
            )
            for field in fields(self)
        }
        return KernelUse(**sums)

    def ratios(self) -> list[list[float | None]]:
        """Utilisation, SM efficiency, occupancy and the described part; one list a window.

        None is "not measured".
        """
        pairs = (
            (self.kernel_ns, self.window_ns),
            (self.resident_area, self.described_window_ns),
            (self.occupancy_area, self.occupied_ns),
            (self.described_ns, self.running_ns),
        )
        columns = [[_ratio(*one) for one in zip(*pair, strict=True)] for pair in pairs]
        return [list(row) for row in zip(*columns, strict=True)]


def _ratio(part: float, whole: float) -> float | None:
    return None if whole <= 0 else float(part / whole)


def use_of_kernels(work: Columns, start: Array, end: Array) -> KernelUse:
    """How well the kernels among a device's work used it in each window from `start` to `end`.

    Args:
        work: as `device_work` gives it.
        start, end: the windows (ns), in any order.
    """
    kernels = (work["work"] == COMPUTATION) | (work["work"] == COMMUNICATION)
    begin, finish = work["start_ns"][kernels], work["end_ns"][kernels]
    blocks, occupancy = work["blocks_per_sm"][kernels], work["occupancy_ratio"][kernels]
    resident, occupied = blocks > 0, occupancy >= 0  # false for NaN

    def summed(chosen: Array, weight: Array | None = None, most: float | None = None) -> Array:
        running = concurrency(
            begin[chosen], finish[chosen], None if weight is None else weight[chosen]
        )
        if most is not None:
            running = Levels(running.time, np.minimum(running.value, most))
        return integral(running, start, end)

    return KernelUse(
        window_ns=end - start,
        kernel_ns=covered(union(begin, finish), start, end),
        resident_area=summed(resident, blocks, most=1.0),
        described_window_ns=(end - start) * bool(resident.any()),
        occupancy_area=summed(occupied, occupancy),
        occupied_ns=summed(occupied),
        described_ns=summed(resident),
        running_ns=summed(np.ones(len(begin), dtype=bool)),
    )


def whole_window(steps: Columns) -> tuple[Array, Array]:
    """From the first step's begin to the last complete step's end (the last one's if none is)."""
    counted = steps["complete"] if steps["complete"].any() else np.ones_like(steps["complete"])
    return steps["start_ns"][counted].min(keepdims=True), steps["end_ns"][counted].max(
        keepdims=True
    )


def buckets(begin: int, end: int) -> tuple[Array, Array]:
    """Begins and ends of equal pieces of time: a power of ten of µs long, at most 100 of them.

    The last takes what remains, so that the pieces add up to the whole.

    >>> [edge.tolist() for edge in buckets(0, 2_700)]
    [[0, 1000], [1000, 2700]]
    """
    length = 1_000
    while (end - begin) > _MOST_BUCKETS * length:
        length *= 10
    count = max(1, (end - begin) // length)
    starts = begin + length * np.arange(count, dtype=np.int64)
    return starts, np.append(starts[1:], end)
