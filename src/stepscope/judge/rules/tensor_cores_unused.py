"""`tensor-cores-unused`: products in 16 bits that run without tensor cores all the same."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.costs import misaligned
from stepscope.judge.declare import Finding, Threshold, rule
from stepscope.judge.facts import Facts, first
from stepscope.judge.groups import NARROW, Group, by_kernel, reproduce, summed

_SHARE = Threshold(
    "products in 16 bits off tensor cores, of the step",
    0.02,
    "ratio",
    "ours: below it there is little to win; the TensorBoard plugin only asks whether none are used",
)


@rule(
    "tensor-cores-unused",
    "Products in 16 bits and less that do not use tensor cores.",
    _SHARE,
    saves="kernel time",
    rests_on=("stream-order", "device-times"),
)
def tensor_cores_unused(facts: Facts) -> Iterator[Finding]:
    """Products whose type fits tensor cores and whose kernel's name says that it does not use them;
    names that do not tell count neither way, and products with a vector have no use for them. The
    evidence names the sizes that keep them off, where inputs were recorded.

    At most half of their time can be saved; nothing is certain.
    """
    if not facts.has_tensor_cores or not facts.enough_work:
        return
    off = [
        group
        for group in facts.groups
        if group.is_product and group.use.used is False and group.dtype in NARROW
    ]
    off_ns = summed(off) / facts.steps
    if facts.part_of_step(off_ns) <= _SHARE.value:
        return
    yield Finding(
        title=f"Tensor cores unused by products in 16 bits: {facts.amount(off_ns)}",
        metric="time of products in 16 bits off tensor cores, per step",
        value=off_ns,
        unit="ns",
        saving_ns=(0, off_ns / 2),
        confidence="medium",
        evidence=first(by_kernel(facts.steps, off, input_dims=lambda g: g.dims, sizes=wrong_sizes)),
        advice="Make channels and features multiples of 8 (16 for 8-bit types), use channels_last for "
        "convolutions, and update cuDNN and cuBLAS.",
        query=reproduce(facts.steps, facts.counted, off),
    )


def wrong_sizes(group: Group) -> str | None:
    """The sizes of a group that are no multiple of 16 bytes, in words; None where all are."""
    if group.operator is None or group.dims is None:
        return None
    wrong = misaligned(group.operator, group.dims, group.types, group.strides, group.values)
    return (
        ", ".join(f"{one.dimension} = {one.size}, no multiple of {one.multiple}" for one in wrong)
        or None
    )
