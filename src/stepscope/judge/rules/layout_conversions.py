"""`layout-conversions`: kernels that only turn tensors from one memory layout to another."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stepscope.judge.declare import Finding, Threshold, rule
from stepscope.judge.facts import Facts, first
from stepscope.judge.groups import by_kernel, reproduce, summed

_SHARE = Threshold(
    "layout conversions, of the step", 0.02, "ratio", "ours: below it there is little to win"
)
_NAMES = re.compile(r"(?i)nchwToNhwc|nhwcToNchw|batched_transpose|nchw2nhwc|nhwc2nchw")


@rule(
    "layout-conversions",
    "Conversions between NCHW and NHWC around convolutions.",
    _SHARE,
    saves="kernel time",
    rests_on=("stream-order", "device-times"),
)
def layout_conversions(facts: Facts) -> Iterator[Finding]:
    """Kernels of cuDNN and MIOpen that convert a convolution's tensors, since its fast kernels want
    channels last and the tensors are channels first; known by name (`nchwToNhwcKernel`,
    `batched_transpose_...`).

    At most all of their time can be saved, at least half: weights may go on being converted.
    """
    if not facts.enough_work:
        return
    found = [group for group in facts.groups if _NAMES.search(group.name)]
    time_ns = summed(found) / facts.steps
    if facts.part_of_step(time_ns) <= _SHARE.value:
        return
    yield Finding(
        title=f"Layout conversions (NCHW ↔ NHWC) take {facts.amount(time_ns)}",
        metric="time of layout conversions, per step",
        value=time_ns,
        unit="ns",
        saving_ns=(time_ns / 2, time_ns),
        confidence="high",
        evidence=first(by_kernel(facts.steps, found)),
        advice="model.to(memory_format=torch.channels_last), and the same for its inputs.",
        query=reproduce(facts.steps, facts.counted, found),
    )
