"""`tf32-off`: float32 products keep off the tensor cores that could take them as TF32."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.judge.declare import Finding, Threshold, rule
from stepscope.judge.facts import Facts, first
from stepscope.judge.groups import by_kernel, reproduce, summed

_SHARE = Threshold(
    "float32 products off tensor cores, of the step",
    0.05,
    "ratio",
    "ours: below it TF32 has little to win",
)
_AMPERE = Threshold(
    "compute capability, major", 8, "count", "NVIDIA Ampere whitepaper: TF32 came with 8.0"
)


@rule(
    "tf32-off",
    "Matrix products in float32 off the tensor cores of a device that knows TF32.",
    _SHARE,
    _AMPERE,
    saves="kernel time",
    rests_on=("stream-order", "device-times"),
)
def tf32_off(facts: Facts) -> Iterator[Finding]:
    """Float32 products whose kernel's name says that it does not use tensor cores. PyTorch leaves TF32
    off for matrix products and on for convolutions. Products with a vector do not count.

    At most their time shrinks as the device's peak grows from float32 to TF32, as the data sheet
    says; nothing is certain, since many products are bound by memory.
    """
    if facts.capability is None or facts.capability < _AMPERE.value or not facts.enough_work:
        return
    plain = [
        group
        for group in facts.groups
        if group.is_product and group.use.used is False and group.dtype == "float32"
    ]
    plain_ns = summed(plain) / facts.steps
    if facts.part_of_step(plain_ns) <= _SHARE.value:
        return
    ratio = 0.5
    if facts.limits is not None and facts.limits.matrix.get("tf32"):
        ratio = facts.limits.vector.get("float32", 0) / facts.limits.matrix["tf32"] or 0.5
    yield Finding(
        title=f"TF32 is off: float32 products without tensor cores take {facts.amount(plain_ns)}",
        metric="time of float32 products off tensor cores, per step",
        value=plain_ns,
        unit="ns",
        saving_ns=(0, plain_ns * (1 - min(1.0, ratio))),
        confidence="high",
        evidence=first(by_kernel(facts.steps, plain, input_dims=lambda g: g.dims)),
        advice="torch.set_float32_matmul_precision('high') and torch.backends.cudnn.allow_tf32 = True; "
        "it keeps the range of float32 with ten bits of mantissa.",
        query=reproduce(facts.steps, facts.counted, plain),
    )
