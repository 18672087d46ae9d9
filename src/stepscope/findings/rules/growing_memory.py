"""`growing-memory`: memory in use grows from step to step and does not level off."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from stepscope.base.units import bytes_text
from stepscope.findings.declare import Finding, Threshold, rule
from stepscope.findings.facts import Facts

_GROWTH = Threshold(
    "growth of memory from the first third of the run to the last",
    0.02,
    "ratio",
    "ours: an allocator's cache wanders by less",
)
_SAMPLES = Threshold("steps after which memory was read", 18, "count", "ours: six in each third of the run")
_GOES_ON = Threshold(
    "growth in the second half of the run, of that in the first",
    0.25,
    "ratio",
    "ours: growth that levels off is a cache filling up",
)

_READ = """
    SELECT rank, span, list(step ORDER BY step) AS steps, list(memory_bytes ORDER BY step) AS bytes
    FROM phase_step WHERE phase = 'step' AND memory_bytes IS NOT NULL
    GROUP BY rank, span ORDER BY rank, span
"""


@rule("growing-memory", "Memory that grows on through the run, of a job's own phases.", _GROWTH, _SAMPLES, _GOES_ON)
def growing_memory(facts: Facts) -> Iterator[Finding]:
    """Medians of the memory in use after a step, over the first, second and last third of the run, on
    the rank with the largest growth. It saves no time, but the run will end out of memory.
    """
    rows = [] if facts.phases is None else facts.scope.sql(_READ).to_pylist()
    grown = [(growth, row) for row in rows if (growth := _growth(row["bytes"])) is not None]
    if not grown:
        return
    growth, row = max(grown, key=lambda pair: pair[0])
    third = len(row["steps"]) // 3
    steps = median(row["steps"][-third:]) - median(row["steps"][:third])
    yield Finding(
        title=f"Memory in use after a step grew by {bytes_text(round(growth))}, about "
        f"{bytes_text(round(growth / max(steps, 1)))} a step, and does not level off",
        metric="growth of memory from the first third of the run to the last",
        value=growth,
        unit="bytes",
        confidence="high",
        evidence=({"rank": row["rank"], "samples": len(row["steps"]), "steps": steps},),
        rank=row["rank"],
        advice="Look for losses or outputs kept without .detach(), then take a memory snapshot.",
        query="stepscope phases SRC --by step",
    )


def _growth(samples: list[int]) -> float | None:
    """How much the last third is above the first (bytes), if that is much and continues."""
    if len(samples) < _SAMPLES.value:
        return None
    third = len(samples) // 3
    start, middle, end = (median(part) for part in (samples[:third], samples[third : 2 * third], samples[-third:]))
    goes_on = middle > start and end - middle >= _GOES_ON.value * (middle - start)
    return end - start if start > 0 and goes_on and end - start > _GROWTH.value * start else None
