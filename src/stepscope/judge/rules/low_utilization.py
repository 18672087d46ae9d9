"""`low-utilization`: kernels run for less than half of the time."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.floor.units import ratio_text
from stepscope.judge.declare import Finding, Threshold, rule
from stepscope.judge.facts import Facts, first

_USE = Threshold(
    "GPU utilisation", 0.50, "ratio", "TensorBoard profiler plugin: GPU utilisation < 50 %"
)
_OTHER = Threshold(
    "DataLoader and communication together, of the step",
    0.15,
    "ratio",
    "ours: above it they are the cause, and a larger batch would not cure it",
)


@rule(
    "low-utilization",
    "Devices on which kernels run for less than half of the time.",
    _USE,
    _OTHER,
    rests_on=("launches",),
    silent_without=("device-work",),
)
def low_utilization(facts: Facts) -> Iterator[Finding]:
    """Utilisation is the part of the steps in which at least one kernel runs. What is lost is counted
    where its cause is (`host-bound`), so nothing is said of a saving here. It is
    silent where input or communication is the cause, where the recording has no host side, and
    where steps are not marked, since the device waits for nobody outside of them.
    """
    use = facts.utilization
    if use is None or use >= _USE.value or not facts.enough_work or not facts.has_host:
        return
    if facts.share("dataloader", "communication") > _OTHER.value:
        return
    rows = [
        {"rank": rank, "utilization_ratio": value}
        for rank, value in sorted(facts.times.use_of_rank.items(), key=lambda pair: pair[1])
    ]
    yield Finding(
        title=f"GPU utilisation is {ratio_text(use)}: a larger batch would cost little more time",
        metric="GPU utilisation",
        value=use,
        unit="ratio",
        confidence="medium",
        evidence=first(rows, 8),
        advice="Raise the batch size as far as memory and convergence allow: the host's time for a "
        "step hardly grows with it. Or share the device among several processes.",
        query="stepscope utilization SRC",
    )


def low_use(facts: Facts) -> str:
    """The utilisation in words, where it is low, to end a sentence about a device that waits."""
    use = facts.utilization
    return "" if use is None or use >= _USE.value else f"; GPU utilisation is {ratio_text(use)}"
