"""`compute-bound`: forward, backward and optimizer fill the step of a job that measured its phases."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.judge.declare import FILLED, LEADING, Finding, of_step, rule
from stepscope.judge.facts import Facts, first


@rule(
    "compute-bound",
    "Steps that forward, backward and optimizer fill, of a job's own phases.",
    LEADING,
    FILLED,
)
def compute_bound(facts: Facts) -> Iterator[Finding]:
    """What is left when no loss leads. Phases do not tell what the device does meanwhile."""
    if facts.phases_alone is None or not facts.time("compute"):
        return
    yield of_step(
        "work",
        facts.share("compute"),
        "their part of the step",
        title=f"Compute-bound: forward, backward and optimizer fill {facts.amount(facts.time('compute'))}",
        evidence=first(facts.by_recording("compute"), 8),
        advice="Record a trace and look at what takes it: `stepscope kernels`, `stepscope operators`.",
        query=facts.parts_query,
        ranks=facts.on_ranks("compute", 0)[1],
    )
