"""Computes how well kernels use a device: utilisation, SM efficiency, achieved occupancy."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from stepscope.analysis.device_share import summed
from stepscope.analysis.recording import COMMUNICATION, COMPUTATION, Array, Columns
from stepscope.link.intervals import Levels, concurrencies, concurrency, covered, integral, union


@dataclass(frozen=True, slots=True)
class KernelUse:
    """How well kernels used one device: sums over a window, or a number per window.

    `timed_window_ns` is the window, 0 if no kernel has a duration; `resident_area` the time integral of the share of
    multiprocessors with a block, `described_window_ns` the window if any kernel states its blocks, else 0;
    `occupancy_area` the integral of occupancies, to be divided by `occupied_ns`.
    """

    window_ns: Array
    timed_window_ns: Array
    kernel_ns: Array
    resident_area: Array
    described_window_ns: Array
    occupancy_area: Array
    occupied_ns: Array
    described_ns: Array
    running_ns: Array

    def total(self, *others: KernelUse) -> KernelUse:
        """Sums all windows, and those of other devices or recordings."""
        sums: dict[str, Any] = {
            field.name: np.concatenate([getattr(use, field.name) for use in (self, *others)]).sum(keepdims=True)
            for field in fields(self)
        }
        return KernelUse(**sums)

    def ratios(self) -> list[list[float | None]]:
        """Utilisation, SM efficiency, occupancy and described share per window; None for "not measured"."""
        pairs = (
            (self.kernel_ns, self.timed_window_ns),
            (self.resident_area, self.described_window_ns),
            (self.occupancy_area, self.occupied_ns),
            (self.described_ns, self.running_ns),
        )
        columns = [[_ratio(*terms) for terms in zip(*pair, strict=True)] for pair in pairs]
        return [list(row) for row in zip(*columns, strict=True)]


def _ratio(part: float, total: float) -> float | None:
    return None if total <= 0 else float(part / total)


def has_times(work: Columns) -> bool:
    """Whether the durations of kernels are known: not if there are kernels and all have the duration 0."""
    kernels = (work["work"] == COMPUTATION) | (work["work"] == COMMUNICATION)
    return bool(not kernels.any() or (work["end_ns"] > work["start_ns"])[kernels].any())


def use_of_kernels(work: Columns, start: Array, end: Array) -> KernelUse:
    """How well a device's kernels (`device_work`) used it in each window (ns), in any order."""
    kernels = (work["work"] == COMPUTATION) | (work["work"] == COMMUNICATION)
    first, last = work["start_ns"][kernels], work["end_ns"][kernels]
    blocks, occupancy = work["blocks_per_sm"][kernels], work["occupancy_ratio"][kernels]
    resident, occupied = blocks > 0, occupancy >= 0  # false for NaN

    running_ns = summed(first, last, start, end)

    def time_of(chosen: Array) -> Array:
        if chosen.all():
            return running_ns
        return summed(first[chosen], last[chosen], start, end)

    on_blocks, by_occupancy = _weighted(first, last, (resident, blocks), (occupied, occupancy))
    return KernelUse(
        window_ns=end - start,
        timed_window_ns=(end - start) * has_times(work),
        kernel_ns=covered(union(first, last), start, end),
        resident_area=integral(Levels(on_blocks.time, np.minimum(on_blocks.value, 1.0)), start, end),
        described_window_ns=(end - start) * bool(resident.any()),
        occupancy_area=integral(by_occupancy, start, end),
        occupied_ns=time_of(occupied),
        described_ns=time_of(resident),
        running_ns=running_ns,
    )


def _weighted(first: Array, last: Array, blocks: tuple[Array, Array], occupancy: tuple[Array, Array]) -> list[Levels]:
    """The summed weights of the chosen kernels at each moment, for two choices with weights."""
    chosen, weight = blocks
    if np.array_equal(chosen, occupancy[0]):
        weights = [weight[chosen], occupancy[1][chosen]]
        return concurrencies(first[chosen], last[chosen], weights)
    return [
        concurrency(first[chosen_rows], last[chosen_rows], values[chosen_rows])
        for chosen_rows, values in (blocks, occupancy)
    ]
