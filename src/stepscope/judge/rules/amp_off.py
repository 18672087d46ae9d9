"""`amp-off`: matrix products run in float32 although 16 bits would be several times as fast."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.floor.units import ratio_text
from stepscope.judge.declare import Finding, Threshold, rule
from stepscope.judge.facts import Facts, first
from stepscope.judge.groups import NARROW, by_kernel, reproduce, summed

_SHARE = Threshold(
    "products in float32, of the step",
    0.05,
    "ratio",
    "ours: below it mixed precision has little to win",
)
_NARROW = Threshold(
    "products in 16 bits and less, of all products",
    0.10,
    "ratio",
    "ours: above it mixed precision is on, and what stays in float32 may be meant to (DLProf 20.10 "
    "recommended AMP where it was on)",
)
_FASTER = Threshold(
    "how much faster mixed precision makes products, at least",
    1.5,
    "ratio",
    "NVIDIA, Train With Mixed Precision: 1.5 to 3 times and more on whole networks",
)


@rule(
    "amp-off",
    "Matrix products and convolutions in float32 on a device with tensor cores.",
    _SHARE,
    _NARROW,
    _FASTER,
    saves="kernel time",
    rests_on=("stream-order", "device-times"),
)
def amp_off(facts: Facts) -> Iterator[Finding]:
    """Products are matrix products, convolutions and attention, by operator and kernel; their element
    type follows from inputs where they were recorded, else from the kernel's name. Products in TF32
    are in float32 too. Those of no known type count neither way.

    At most their time shrinks as the device's peak grows from float32 (or TF32) to float16, as the
    data sheet says; at least by a factor of 1.5.
    """
    if not facts.has_tensor_cores or not facts.enough_work:
        return
    products = [group for group in facts.groups if group.is_product]
    wide = [group for group in products if group.dtype in ("float32", "tf32")]
    narrow_ns = summed(group for group in products if group.dtype in NARROW)
    wide_ns = summed(wide) / facts.steps
    if facts.part_of_step(wide_ns) <= _SHARE.value:
        return
    if narrow_ns >= _NARROW.value * summed(products) or 2 * summed(wide) < summed(products):
        return
    on_cores_ns = summed(group for group in wide if group.use.used) / facts.steps
    high = (wide_ns - on_cores_ns) * (1 - _ratio(facts, "float32", "vector"))
    high += on_cores_ns * (1 - _ratio(facts, "tf32", "matrix"))
    low = wide_ns * (1 - 1 / _FASTER.value)
    busy = summed(group for group in facts.groups if group.kind == "computation")
    yield Finding(
        title=f"Mixed precision is off: {facts.amount(wide_ns)} in float32 products, "
        f"{ratio_text(on_cores_ns / wide_ns)} on tensor cores",
        metric="time of products in float32, per step",
        value=wide_ns,
        unit="ns",
        saving_ns=(min(low, high), high),
        confidence="high",
        evidence=(
            *first(
                by_kernel(
                    facts.steps, wide, dtype=lambda g: g.dtype, tensor_cores=lambda g: g.use.used
                )
            ),
            {"kernel": "all of them", "share_of_kernel_time_ratio": summed(wide) / busy},
        ),
        advice="Train under torch.autocast(device_type='cuda', dtype=torch.bfloat16), or "
        "dtype=torch.float16 with torch.amp.GradScaler on devices before Ampere.",
        query=reproduce(facts.steps, facts.counted, wide),
    )


def _ratio(facts: Facts, dtype: str, unit: str) -> float:
    """Peak in a type over that in float16 on tensor cores; half where the device is not known."""
    limits = facts.limits
    if limits is None:
        return 0.5
    now = (limits.matrix if unit == "matrix" else limits.vector).get(dtype)
    best = limits.matrix.get("float16")
    return min(1.0, now / best) if now and best else 0.5
