"""`launch-bound`: the device waits for the host, which launches many short kernels."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.floor.units import count_text, ratio_text
from stepscope.judge.declare import Finding, rule
from stepscope.judge.facts import Facts
from stepscope.judge.rules.host_bound import (
    RECORDER,
    SHARE,
    SHORT,
    WORK_MISSING,
    mostly_short,
    saving,
    waiting_ns,
)


@rule(
    "launch-bound",
    "Devices that wait for the host, which launches many short kernels one by one.",
    SHARE,
    SHORT,
    RECORDER,
    saves="waiting",
    unreliable_with=("clock_skew", "unlinked_kernel_fraction", "first_step_starved"),
    silent_with=WORK_MISSING,
)
def launch_bound(facts: Facts) -> Iterator[Finding]:
    """The same waiting as in `host-bound`, in a step most of whose kernels run for less than 10 µs:
    an operator takes the host longer than its kernel takes the device, so the device runs dry. Fewer
    launches are the cure.
    """
    if not waiting_ns(facts) or not mostly_short(facts):
        return
    low, high = saving(facts)
    kernels = facts.kernels
    launched, short = kernels["kernels"] / facts.steps, kernels["short"] / kernels["kernels"]
    yield Finding(
        title=f"Launch-bound: {facts.amount(high)} waiting for the host to launch "
        f"{count_text(round(launched))} kernels, {ratio_text(short)} of them below 10 µs",
        metric="time in which the device waits for the host, of the step",
        value=facts.part_of_step(high),
        unit="ratio",
        saving_ns=(low, high),
        confidence="medium",
        evidence=(
            {
                "kernels_per_step": launched,
                "short_per_step": kernels["short"] / facts.steps,
                "mean_kernel_ns": kernels["kernel_ns"] / kernels["kernels"],
                "step_ns": facts.step_ns,
            },
        ),
        advice="Launch less: torch.compile(mode='reduce-overhead') or CUDA graphs "
        "(torch.cuda.make_graphed_callables), fused or foreach optimizers, a larger batch.",
        query="stepscope findings SRC --id launch-bound --json",
    )
