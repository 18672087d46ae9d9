"""Finds kernels that take longer while their device communicates."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepscope.analysis.counted import COUNTED_STEPS
from stepscope.analysis.kernels.traits import BLOCK, GRID
from stepscope.analysis.recording import (
    COMMUNICATION,
    Array,
    Columns,
    device_work,
    every_step,
    groups,
    rank_batches,
    union_of,
)
from stepscope.compare.interval import RankMean, interval_of_change, over_ranks
from stepscope.link.intervals import covered
from stepscope.query.scope import Scope

FEWEST = 5
"""With fewer clear or overlapped runs of a kernel, a device is not compared."""
MIN_OVERLAP = 0.9
"""Share of a kernel's time that communication must overlap."""

_RUNS = f"""
    SELECT event.rank, event.span, event.device, event.start_ns,
        event.start_ns + event.dur_ns AS end_ns, event.name, grid, block, operator_name, dims,
        dense_rank() OVER (
            ORDER BY event.name, grid, block, shared_memory_bytes, operator_name, dims
        ) AS kernel
    FROM (
        SELECT *, {GRID}, {BLOCK} FROM {{events}}
        WHERE kind = 'computation' AND {{ranks}} AND {{inside}} AND (
            step IS NULL OR (rank, span, step) IN (SELECT (rank, span, step) FROM ({COUNTED_STEPS}))
        )
    ) AS event
    LEFT JOIN (SELECT rank, id, span, input_id FROM {{host}} WHERE input_id IS NOT NULL) AS operator
        ON (operator.rank, operator.id) = (event.rank, event.operator_id)
    LEFT JOIN operator_input AS input
        ON (input.rank, input.span, input.input_id)
            = (operator.rank, operator.span, operator.input_id)
"""
_KINDS = "SELECT DISTINCT kernel, name, grid, block, operator_name, dims FROM ({runs})"


class Slowed(NamedTuple):
    """A kernel with the same name, launch shape and inputs, with and without communication at the same time.

    Args:
        overlapped, clear: numbers of runs with communication, and without; with their mean durations over devices.
        ratio: by how much an overlapped run is longer; `low`, `high`: its 95 % interval (Welch).
        slowdown_ns: the total extra time of overlapped runs.
    """

    name: str
    grid: str | None
    block: str | None
    operator: str | None
    dims: str | None
    overlapped: int
    clear: int
    overlapped_ns: float
    clear_ns: float
    ratio: float
    low: float
    high: float
    slowdown_ns: int


class _Kind(NamedTuple):
    name: str
    grid: str | None
    block: str | None
    operator_name: str | None
    dims: str | None


class Slowing(NamedTuple):
    """Results for a scope's kernels: those with enough runs, and how many others ran."""

    kernels: list[Slowed]
    too_few: int


def slowed(scope: Scope) -> Slowing:
    """Compares each kernel's runs with and without communication, by device; partly overlapped ones count as neither."""
    sides: dict[_Kind, list[tuple[RankMean, RankMean]]] = {}
    lacking: set[_Kind] = set()
    window = scope.part.window
    inside = "true"
    if window is not None:
        inside = f"start_ns >= {window[0]} AND start_ns + dur_ns <= {window[1]}"
    with every_step(scope) as all_steps:
        for ranks in rank_batches(scope):
            work = device_work(all_steps, ranks)
            if not any((events["work"] == COMMUNICATION).any() for events in work.values()):
                continue
            runs = _RUNS.format(
                events=scope.unfiltered("device_event"), host=scope.unfiltered("host_event"), ranks=ranks,
                inside=inside,
            )  # fmt: skip
            kinds = {row.pop("kernel"): _Kind(**row) for row in scope.sql(_KINDS.format(runs=runs)).to_pylist()}
            by_device = groups(scope.numpy(f"SELECT rank, span, device, start_ns, end_ns, kernel FROM ({runs})"), "rank", "span", "device")  # fmt: skip
            for (rank, span, device), columns in by_device.items():
                pairs, few = _on_device(columns, work[rank, span], device)
                for kernel, pair in pairs.items():
                    sides.setdefault(kinds[kernel], []).append(pair)
                lacking |= {kinds[kernel] for kernel in few}
    compared = (_compared(kind, pairs) for kind, pairs in sides.items())
    kernels = [slow for slow in compared if slow is not None]
    kernels.sort(key=lambda slow: (-slow.slowdown_ns, slow.name))
    return Slowing(kernels, len(lacking - set(sides)))


def _on_device(runs: Columns, work: Columns, device: int) -> tuple[dict[int, tuple[RankMean, RankMean]], list[int]]:
    """For each kernel of a device its clear and overlapped runs, and the kernels with too few of either."""
    during = union_of(work, (work["device"] == device) & (work["work"] == COMMUNICATION))
    length = runs["end_ns"] - runs["start_ns"]
    hidden = covered(during, runs["start_ns"], runs["end_ns"])
    overlaps = (length > 0) & (hidden >= MIN_OVERLAP * length)
    sides = [_means(runs["kernel"][of], length[of]) for of in (~overlaps & (hidden == 0), overlaps)]
    both = {
        kernel: (sides[0][kernel], mean)
        for kernel, mean in sides[1].items()
        if kernel in sides[0] and min(sides[0][kernel].samples, mean.samples) >= FEWEST
    }
    return both, [kernel for kernel in sides[1] if kernel not in both]


def _means(kernel: Array, length: Array) -> dict[int, RankMean]:
    order = np.argsort(kernel, kind="stable")
    numbers, starts = np.unique(kernel[order], return_index=True)
    parts = np.split(length[order], starts[1:])
    return {int(number): RankMean.of(part.tolist()) for number, part in zip(numbers.tolist(), parts, strict=False)}


def _compared(kind: _Kind, pairs: list[tuple[RankMean, RankMean]]) -> Slowed | None:
    clear, overlapped = over_ranks([left for left, _ in pairs]), over_ranks([right for _, right in pairs])
    interval = interval_of_change(clear, overlapped)
    if interval is None or not clear.mean_ns:
        return None
    usual = float(clear.mean_ns)
    longer = sum((right.mean_ns - left.mean_ns) * right.samples for left, right in pairs)
    return Slowed(
        *kind,
        overlapped=overlapped.samples,
        clear=clear.samples,
        overlapped_ns=float(overlapped.mean_ns),
        clear_ns=usual,
        ratio=float(overlapped.mean_ns) / usual - 1,
        low=interval[0] / usual,
        high=interval[1] / usual,
        slowdown_ns=round(longer),
    )
