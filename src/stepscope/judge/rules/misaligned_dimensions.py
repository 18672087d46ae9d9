"""`misaligned-dimensions`: sizes that force products onto kernels that load element by element."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.costs import alignment
from stepscope.costs.dtype import size_of
from stepscope.judge.declare import Finding, Threshold, rule
from stepscope.judge.facts import Facts, first
from stepscope.judge.groups import Group, by_kernel, reproduce, summed
from stepscope.judge.rules.tensor_cores_unused import wrong_sizes

_SHARE = Threshold(
    "products on kernels of small alignment, of the step",
    0.01,
    "ratio",
    "ours: below it there is little to win",
)
_LOAD = Threshold(
    "bytes loaded at a time",
    16,
    "bytes",
    "NVIDIA, Matrix Multiplication Background User's Guide: sizes should be multiples of 16 bytes",
)


@rule(
    "misaligned-dimensions",
    "Products whose sizes are no multiple of 16 bytes, and whose kernels show it.",
    _SHARE,
    _LOAD,
    saves="kernel time",
    rests_on=("stream-order", "device-times"),
)
def misaligned_dimensions(facts: Facts) -> Iterator[Finding]:
    """Sizes alone prove nothing: libraries cope with many. It is the kernel's name that must show it: a
    CUTLASS kernel of an alignment (`_align1`) that comes to less than 16 bytes of its type. The
    evidence names the sizes where inputs were recorded.

    At most half of the kernels' time can be saved; nothing is certain.
    """
    if not facts.enough_work:
        return
    slow = [group for group in facts.groups if group.is_product and _loads_less(group)]
    slow_ns = summed(slow) / facts.steps
    if facts.part_of_step(slow_ns) <= _SHARE.value:
        return
    yield Finding(
        title="Misaligned sizes: products that load less than 16 bytes at a time take "
        f"{facts.amount(slow_ns)}",
        metric="time of products on kernels of small alignment, per step",
        value=slow_ns,
        unit="ns",
        saving_ns=(0, slow_ns / 2),
        confidence="medium",
        evidence=first(
            by_kernel(facts.steps, slow, input_dims=lambda g: g.dims, sizes=wrong_sizes)
        ),
        advice="Pad these sizes to multiples of 8 (float16, bfloat16), 16 (8 bits) or 4 (float32): "
        "vocabulary, sequence length, features, channels.",
        query=reproduce(facts.steps, facts.counted, slow),
    )


def _loads_less(group: Group) -> bool:
    elements = alignment(group.name)
    size = size_of("float32" if group.dtype == "tf32" else group.dtype) if group.dtype else None
    return elements is not None and size is not None and elements * size < _LOAD.value
