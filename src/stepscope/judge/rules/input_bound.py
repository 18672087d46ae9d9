"""`input-bound`: the device waits for the next batch."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.judge.declare import Finding, Threshold, rule
from stepscope.judge.facts import Facts, first

_SHARE = Threshold(
    "DataLoader's part of the step",
    0.05,
    "ratio",
    "TensorBoard profiler plugin: DataLoader > 5 % of the step",
)


@rule(
    "input-bound",
    "Steps that wait for the next batch of the DataLoader.",
    _SHARE,
    saves="waiting",
    unreliable_with=("duration_overrun", "negative_dur", "zero_ts"),
)
def input_bound(facts: Facts) -> Iterator[Finding]:
    """The time in `DataLoader.__next__` in which nothing ran on a device and no runtime call went on.

    At most all of it can be saved, when workers keep ahead; at least its median over the steps, if
    that is less than its mean: what only some steps lose (a first batch, workers that start) may
    stay.
    """
    wait_ns = facts.time("dataloader")
    share = facts.share("dataloader")
    if share <= _SHARE.value:
        return
    low = min(wait_ns, facts.median_of_steps("dataloader")) if facts.has_steps else 0
    yield Finding(
        title=f"Input-bound: {facts.amount(wait_ns)} goes to waiting for the DataLoader",
        metric="DataLoader's part of the step",
        value=share,
        unit="ratio",
        saving_ns=(low, wait_ns),
        confidence="high",
        evidence=first(facts.by_recording("dataloader")),
        advice="Give DataLoader more workers (num_workers), persistent_workers=True and a larger "
        "prefetch_factor; make transforms cheaper or move them to the device; read from larger, "
        "fewer files.",
        query="stepscope steps SRC --by mean" if facts.has_steps else "stepscope summary SRC",
    )
