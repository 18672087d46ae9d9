"""`gap-bound`: the device loses its time between pieces of work that were launched in time."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.analysis.gaps import KERNEL_WAIT_NS
from stepscope.floor.units import time_text
from stepscope.judge.declare import Finding, Threshold, of_step, rule
from stepscope.judge.facts import Facts
from stepscope.judge.rules.low_utilization import low_use

_SHARE = Threshold(
    "short gaps before work that was launched in time, of the step",
    0.05,
    "ratio",
    "ours: as for waiting for input; above 15 %, TraceLens' bound for idle time, it leads",
)


@rule(
    "gap-bound",
    "Devices that lose time in short gaps between pieces of work.",
    _SHARE,
    rests_on=("clocks",),
    silent_without=("device-work",),
)
def gap_bound(facts: Facts) -> Iterator[Finding]:
    """The gaps below 30 µs before work that had been launched in time (kernel wait in `idle`): the
    device's own delay between two pieces of work. `small-kernels` says what fewer kernels could save.
    """
    time_ns = sum(facts.idle_ns("kernel wait").values())
    share = facts.part_of_step(time_ns)
    if share <= _SHARE.value:
        return
    yield of_step(
        "loss",
        share,
        "short gaps before work that was launched in time, of the step",
        title=f"Gap-bound: for {facts.amount(time_ns)} the device is between two pieces of work that "
        f"were launched in time, each gap shorter than {time_text(KERNEL_WAIT_NS)}{low_use(facts)}",
        confidence="medium",
        advice="`stepscope kernels`: fewer, longer ones (fused operators, torch.compile, CUDA graphs) "
        "leave fewer gaps.",
        query="stepscope findings SRC --id gap-bound --json",
    )
