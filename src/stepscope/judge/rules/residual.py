"""`residual`: a part of the step that is none of its phases."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.judge.declare import Finding, of_step, rule, worth
from stepscope.judge.facts import Facts, first

_SHARE = worth(
    "time outside of all phases",
    0.15,
    "ours: as for time in which the device waits; a loop has some Python around its phases",
)


@rule(
    "residual",
    "Steps with much time outside of input, forward, backward and optimizer, of a job's own phases.",
    _SHARE,
    trade_off="Logging, metrics and checkpoints have to be done elsewhere or less often.",
)
def residual(facts: Facts) -> Iterator[Finding]:
    """What phases leave of the step: logging, metrics, synchronisation, checkpoints, Python, and what
    runs in compiled code or a captured graph, where phases are not observed.

    At most all of it can be saved; nothing is certain, since it may be waiting for the device.
    """
    time_ns, share = facts.time("residual"), facts.share("residual")
    if share <= _SHARE.value:
        return
    where, ranks = facts.on_ranks("residual", _SHARE.value)
    yield of_step(
        "loss",
        share,
        "time outside of all phases, of the step",
        title=f"Residual: {facts.amount(time_ns)} is none of the phases{where}: logging, metrics, "
        "synchronisation, checkpoints, Python",
        saving_ns=time_ns,
        confidence="medium",
        evidence=first(facts.by_recording("residual"), 8),
        advice="Name parts of the loop with `stepscope.region` and plan them, or take a trace with "
        "stacks: `stepscope record --stack -- train.py`.",
        query=facts.parts_query,
        ranks=ranks,
    )
