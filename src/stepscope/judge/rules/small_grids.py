"""`small-grids`: kernels with fewer blocks than the device has multiprocessors."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.judge.declare import Finding, Threshold, rule
from stepscope.judge.facts import Facts, first
from stepscope.judge.groups import by_kernel, reproduce

_SHARE = Threshold(
    "time of multiprocessors without a block, of the step",
    0.05,
    "ratio",
    "ours: below it there is little to win",
)


@rule(
    "small-grids",
    "Kernels that give a part of the multiprocessors nothing to do.",
    _SHARE,
    saves="kernel time",
    rests_on=("stream-order", "device-times"),
)
def small_grids(facts: Facts) -> Iterator[Finding]:
    """A kernel of fewer blocks than multiprocessors leaves the others empty: its duration times the
    part of them that have no block is lost, unless another stream fills it.

    At most this time can be saved, by a batch that fills the device; nothing is certain.
    """
    if not facts.enough_work:
        return
    small = [g for g in facts.groups if g.kind == "computation" and (g.idle_sm_ns or 0) > 0]
    lost = sum(group.idle_sm_ns or 0 for group in small) / facts.steps
    if facts.part_of_step(lost) <= _SHARE.value:
        return
    yield Finding(
        title=f"Kernels with fewer blocks than multiprocessors leave {facts.amount(lost)} of the device "
        "empty",
        metric="kernels' time times the part of multiprocessors without a block, per step",
        value=lost,
        unit="ns",
        saving_ns=(0, lost),
        confidence="low",
        evidence=first(by_kernel(facts.steps, small, lost=lambda group: group.idle_sm_ns)),
        advice="Raise the batch size, stack small calls into one (torch.bmm, grouped products), or run "
        "independent parts on streams of their own.",
        query=reproduce(
            facts.steps, facts.counted, small, "sum(dur_ns * (1 - least(blocks_per_sm, 1)))"
        ),
    )
