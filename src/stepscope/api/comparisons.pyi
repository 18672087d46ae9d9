"""One function per question that compares recordings. Made by docs/generate.py; do not edit."""

from collections.abc import Sequence
from typing import Literal

from typing_extensions import Unpack

from stepscope.api.asked import AskedOfSeveral
from stepscope.api.several import Source
from stepscope.query.table import Table

def diff(
    before: Source,
    after: Source,
    *,
    by: Literal["category", "operator", "kernel", "module", "tree", "label", "phase"] | None = None,
    **asked: Unpack[AskedOfSeveral],
) -> Table:
    """What got slower or faster, and how sure is that?

    Args:
        before: a folder, file, store, open trace or result of `parse_result`.
        after: the recording to compare with `before`, made in the same way.
        by: what is compared; by default phases of steps without the profiler, category, label or phase, as both have
            it.

    Columns: name, path, depth, kind, matched, before_ns, after_ns, change_ns, change_ratio, ci95_low_ns, ci95_high_ns,
    verdict, share_ratio, calls_before, calls_after, inside, samples_before, samples_after.
    """

def metrics_diff(before: Source, after: Source, **asked: Unpack[AskedOfSeveral]) -> Table:
    """How do the hardware counters of each kernel differ between two recordings?

    Args:
        before: a folder, file, store, open trace or result of `parse_result`.
        after: the recording to compare with `before`, made in the same way.

    Columns: kernel, grid, block, device_before_ns, device_after_ns, metric, before, after, unit, change_ratio.
    """

def scaling(
    sources: Sequence[Source],
    *,
    mode: Literal["weak", "strong"] | None = None,
    below: float = 0.8,
    by: Literal["label", "phase", "class"] | None = None,
    **asked: Unpack[AskedOfSeveral],
) -> Table:
    """How well does each part of the iteration scale to more processes?

    Args:
        sources: a folder, file, store, open trace or result of `parse_result` for each recording.
        mode: whether each process or all together do the same work in all runs; by default by the recorded batches,
            else weak.
        below: efficiency below which a label stops scaling.
        by: what is compared: inline labels, phases, or classes of traced time; by default the first that all runs have.

    Columns: label, run, ranks, average_ns, max_ns, slowest_rank, efficiency_ratio, weak_efficiency_ratio,
    strong_efficiency_ratio, stops_at_ranks, over_ideal_ns, serial_ratio, inside, mode, efficiency_low_ratio,
    efficiency_high_ratio, serial_low_ratio, serial_high_ratio, model, next_ranks, next_ns, next_low_ns, next_high_ns.
    """
