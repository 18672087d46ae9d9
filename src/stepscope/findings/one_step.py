"""Says if a single step dominates a mean: the other steps lose much less."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from stepscope.analysis.steps.parts import PARTS
from stepscope.base.units import ratio_text

if TYPE_CHECKING:
    from stepscope.findings.facts import Facts

DOMINANT = 0.5
"""The part of all that is lost from which on one step makes the mean."""
_FEWEST_STEPS = 3
"""Of two steps one always has half."""
_OF_PHASE = """
    SELECT rank, step, sum(dur_ns * weight)::DOUBLE AS ns FROM phase_step WHERE phase = $phase GROUP BY rank, step
"""


def in_one_step(lost_ns: Mapping[tuple[int, int], float], *, ranks: int = 1, steps: int | None = None) -> str:
    """The share of a loss that one step has, as the end of a sentence; empty if it is at most half, or steps are few.

    >>> in_one_step({(0, 3): 1.0, (0, 4): 8.0, (0, 5): 1.0})
    ', 80.0 % of it in step 4 alone'
    """
    total_ns = sum(lost_ns.values())
    if not lost_ns or (steps or len(lost_ns)) < _FEWEST_STEPS:
        return ""
    (rank, step), max_ns = max(lost_ns.items(), key=lambda pair: pair[1])
    of_rank = f" of rank {rank}" if ranks > 1 else ""
    return (
        f", {ratio_text(max_ns / total_ns)} of it in step {step}{of_rank} alone" if max_ns > DOMINANT * total_ns else ""
    )


def phase_in_one_step(facts: Facts, phase: str) -> str:
    """The same for a phase of the run's recorded steps."""
    rows = facts.scope.sql(_OF_PHASE, {"phase": phase}).to_pylist()
    lost = {(row["rank"], row["step"]): row["ns"] for row in rows}
    return in_one_step(lost, ranks=len({row["rank"] for row in rows}))


def part_in_one_step(facts: Facts, part: str) -> str:
    """The same for a part of the traced steps."""
    if not facts.has_steps or len({broken.span for broken in facts.times.broken}) > 1:
        return ""
    column = PARTS.index(part)
    lost = {
        (broken.rank, int(step)): float(ns)
        for broken in facts.times.broken
        for step, ns in zip(broken.counted_windows["step"], broken.counted_parts_ns[:, column], strict=True)
    }
    return in_one_step(lost, ranks=len(facts.scope.ranks))
