"""`dependency-bound`: the device has its next work and waits for something else."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.judge.declare import Finding, Threshold, of_step, rule
from stepscope.judge.facts import Facts
from stepscope.judge.rules.low_utilization import low_use

_SHARE = Threshold(
    "time in which the device waits before work that was launched in time, of the step",
    0.05,
    "ratio",
    "ours: as for waiting for input; above 15 %, TraceLens' bound for idle time, it leads",
)


@rule(
    "dependency-bound",
    "Devices that have their next work and wait for another stream, event or rank.",
    _SHARE,
    rests_on=("clocks",),
    silent_without=("device-work",),
)
def dependency_bound(facts: Facts) -> Iterator[Finding]:
    """The time in which nothing ran on a device although its next work had been launched (other in
    `idle`: gaps of 30 µs and more). For what it waits is not in one rank's recording, so nothing is
    said of a saving.
    """
    time_ns = sum(facts.idle_ns("other").values())
    share = facts.part_of_step(time_ns)
    if share <= _SHARE.value:
        return
    yield of_step(
        "loss",
        share,
        "idle time before work that was launched in time, of the step",
        title=f"Dependency-bound: for {facts.amount(time_ns)} the device has its next work and waits for "
        f"another stream, event or rank, or for what was not recorded{low_use(facts)}",
        confidence="medium",
        advice="`stepscope idle` for the streams that wait; record all ranks to see for whom.",
        query="stepscope findings SRC --id dependency-bound --json",
    )
