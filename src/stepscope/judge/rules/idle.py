"""`idle`: the device does nothing, for reasons that are not in the recording."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.judge.declare import Finding, Threshold, of_step, rule
from stepscope.judge.facts import Facts
from stepscope.judge.rules.low_utilization import low_use

_SHARE = Threshold(
    "idle time of unknown cause, of the step",
    0.05,
    "ratio",
    "ours: as for waiting for input; above 15 %, TraceLens' bound for idle time, it leads",
)


@rule(
    "idle",
    "Devices that are idle for reasons that are not in the recording.",
    _SHARE,
    silent_without=("device-work",),
)
def idle(facts: Facts) -> Iterator[Finding]:
    """The time in which nothing ran on a device before work whose launch was not recorded (unlinked in
    `idle`): nobody can say whether it was launched late.
    """
    time_ns = sum(facts.idle_ns("unlinked", None).values())
    share = facts.part_of_step(time_ns)
    if share <= _SHARE.value:
        return
    yield of_step(
        "loss",
        share,
        "idle time of unknown cause, of the step",
        title=f"Idle: for {facts.amount(time_ns)} the device does nothing, for reasons not recorded"
        f"{low_use(facts)}",
        confidence="medium",
        advice="`stepscope idle`; the launches that would say why are not in the recording.",
        query="stepscope findings SRC --id idle --json",
    )
