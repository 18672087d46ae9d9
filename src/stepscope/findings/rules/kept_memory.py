"""`kept-memory`: every step keeps memory that it allocated."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from stepscope.analysis.memory.replay import Memory
from stepscope.base.units import bytes_text, ratio_text
from stepscope.findings.declare import Finding, Threshold, rule
from stepscope.findings.facts import Facts, first

_STEPS = Threshold(
    "steps that end with more memory than the one before, and are not the first",
    3,
    "count",
    "ours: caches and state fill in the first step; two in a row may be chance",
)
_GROWTH = Threshold(
    "growth a step, of the memory at the peak", 0.0005, "ratio", "ours: it would be doubled after some 2,000 steps"
)


@rule(
    "kept-memory",
    "Memory that grows from step to step, of traces and snapshots, with what keeps it.",
    _STEPS,
    _GROWTH,
    rests_on=("memory", "steps"),
)
def kept_memory(facts: Facts) -> Iterator[Finding]:
    """Memory allocated at the end of each step except the first: it must grow in every one, by the
    median of these at least. Allocations of one of them that are alive at the end of the last are
    grouped by operator and call stack; groups in which all of these steps kept some are candidates for a leak. It
    saves no time, but the run will run out of memory. `growing-memory` examines a run's phases.
    """
    growing = [growth for growth in map(_growth, facts.memories) if growth is not None]
    if not growing:
        return
    memory, growth, ends = max(growing, key=lambda item: item[1] / item[0].allocated.max())
    sites = _sites(memory, ends)
    title = f"Memory grows by {bytes_text(growth)} a step, in each of {len(ends) - 1} steps"
    explained = sum(growth["bytes_per_step"] for growth in sites)
    if sites:
        title += f"; {_words(sites[0], growth)}"
    yield Finding(
        title=title,
        metric="growth of allocated memory, median of steps",
        value=growth,
        unit="bytes",
        confidence="high" if explained >= growth / 2 else "medium",
        evidence=first(sites) or ({"rank": memory.rank, "device": memory.device, "steps": len(ends)},),
        rank=memory.rank,
        advice="Look there for tensors that lists or attributes keep: losses and outputs without .detach(), "
        "hidden states, logs. `stepscope memory SRC --by step` for each step.",
        query="stepscope memory SRC --by step",
    )


def _growth(memory: Memory) -> tuple[Memory, int, list[int]] | None:
    """The median growth of a step, and the last state of each step, if all but the first grow."""
    ends = []
    for step in memory.steps:
        states = memory.states_in([(step.start_ns, step.end_ns)])
        if len(states):
            ends.append(int(states[-1]))
    ends = ends[1:]
    if len(ends) <= _STEPS.value:
        return None
    grown = np.diff(memory.allocated[ends])
    median = int(np.median(grown))
    if (grown <= 0).any() or median < _GROWTH.value * int(memory.allocated.max()):
        return None
    return memory, median, ends


def _sites(memory: Memory, ends: list[int]) -> list[dict[str, Any]]:
    """What each of the steps kept until the end of the last, by allocation site; the most first."""
    retained: dict[tuple[int, int], list[int]] = {}
    steps = len(ends) - 1
    for place, (start, end) in enumerate(pairwise(ends)):
        allocated = np.flatnonzero((memory.start > start) & (memory.start <= end) & (memory.end > ends[-1]))
        for row in allocated.tolist():
            key = int(memory.operator.number[row]), int(memory.stack.number[row])
            retained.setdefault(key, [0] * steps)[place] += int(memory.bytes[row])
    rows = [
        {
            "rank": memory.rank,
            "device": memory.device,
            "operator": None if operator < 0 else memory.operator.words[operator],
            "stack": None if stack < 0 else memory.stack.words[stack],
            "bytes_per_step": int(np.median(sizes)),
        }
        for (operator, stack), sizes in retained.items()
        if all(sizes)
    ]
    return sorted(rows, key=lambda row: -row["bytes_per_step"])


def _words(site: dict[str, Any], growth: int) -> str:
    share = ratio_text(min(site["bytes_per_step"] / growth, 1.0))
    frame = (site["stack"] or "").partition(";")[0]
    named = " in ".join(filter(None, (site["operator"], frame)))
    return f"{share} of it is allocated by {named}" if named else f"one allocation is {share} of it"
