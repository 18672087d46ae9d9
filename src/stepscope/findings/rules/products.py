"""Rules about products that do not use the device's fastest units, and kernels that only move tensors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from stepscope.analysis.kernels.counters import uses_tensor_cores
from stepscope.base.units import ratio_text, time_text
from stepscope.costs import alignment, class_of, misaligned
from stepscope.costs.dtype import size_of
from stepscope.findings.cures import matrix_units, narrow_types
from stepscope.findings.declare import Finding, Threshold, kernel_rule, of_time, worth
from stepscope.findings.facts import Facts, first
from stepscope.findings.groups import NARROW, Group, by_kernel, reproduce, summed
from stepscope.findings.of_kernels import of_kernels

_WIDE = worth("products in float32", 0.05, "ours: below it mixed precision has little to win")
_NARROW = Threshold(
    "products in 16 bits and less, of all products", 0.10, "ratio", "ours: above it mixed precision is on"
)
_PLAIN = worth("float32 products off tensor cores", 0.05, "ours: below it TF32 has little to win")
_AMPERE = Threshold("compute capability, major", 8, "count", "NVIDIA Ampere whitepaper: TF32 came with 8.0")
_OFF = worth("products in 16 bits off tensor cores", 0.02, "ours: below it there is little to win")
_SMALL = worth("products on kernels of small alignment", 0.01)
_LOAD = Threshold("bytes loaded at a time", 16, "bytes", "NVIDIA, Matrix Multiplication Background User's Guide")


_HALVED = ("element-wise", "normalisation", "reduction")
"""Classes of kernels whose time is spent moving their tensors."""


@kernel_rule(
    "amp-off",
    "Matrix products and convolutions in float32 on a device with tensor cores.",
    _WIDE,
    _NARROW,
    trade_off="Casts of weights and activations take time of their own, and results keep fewer bits.",
)
def amp_off(facts: Facts) -> Iterator[Finding]:
    """Products are matrix products, convolutions and attention, by operator and kernel; their element type comes from
    inputs if they were recorded, else from the kernel's name. Products in TF32 count as float32, too. Those of unknown
    type count neither way.

    At most all of their time can be saved (the ratio of both types' peaks does not limit it: a kernel in 16 bits may
    come closer to its own peak), and half of that of element-wise kernels, normalisations and reductions except the
    optimizer's, because they move half the bytes. Autocast leaves some of these in float32, kernels may have other
    bounds, and the host may be slower than the device.
    """
    if not facts.has_tensor_cores or not facts.enough_work:
        return
    products = [group for group in facts.groups if group.is_product]
    wide = [group for group in products if group.dtype in ("float32", "tf32")]
    narrow_ns = summed(group for group in products if group.dtype in NARROW)
    wide_ns = summed(wide) / facts.steps
    if facts.part_of_step(wide_ns) <= _WIDE.value:
        return
    if narrow_ns >= _NARROW.value * summed(products) or 2 * summed(wide) < summed(products):
        return
    others_ns = summed(group for group in facts.groups if _moves_less(group)) / facts.steps
    others = f"; {time_text(others_ns)} in other kernels that could move half the bytes"
    busy = summed(group for group in facts.groups if group.kind == "computation")
    yield of_time(
        title=f"Mixed precision is off: {facts.amount(wide_ns)} in float32 products"
        f"{_on_cores(facts, wide)}{others if others_ns else ''}",
        metric="time of products in float32, per step",
        time_ns=wide_ns,
        saving_ns=wide_ns + others_ns / 2,
        confidence="high",
        evidence=(
            *first(by_kernel(facts.steps, wide, dtype=lambda g: g.dtype, tensor_cores=lambda g: g.use.used)),
            {"kernel": "all of them", "share_of_kernel_time_ratio": summed(wide) / busy},
        ),
        advice=narrow_types(facts),
        query=reproduce(facts.steps, facts.counted, wide),
    )


def _on_cores(facts: Facts, products: list[Group]) -> str:
    """Says how much of the products' time is on tensor cores, as far as kernels' names show."""
    used, unknown = (summed(group for group in products if group.use.used is value) for value in (True, None))
    if unknown and not used:
        return ""
    bound = "at least " if unknown else ""
    return f", {bound}{ratio_text(used / summed(products))} on {matrix_units(facts)}"


def _moves_less(group: Group) -> bool:
    """Whether it would read and write half the bytes with tensors in 16 bits."""
    if group.kind != "computation" or group.is_product or group.direction == "optimizer":
        return False
    return _class(group) in _HALVED


def _class(group: Group) -> str:
    return class_of(None if group.model is None else group.model.family, group.name)


@kernel_rule(
    "tf32-off",
    "Matrix products in float32 off the tensor cores of a device that knows TF32.",
    _PLAIN,
    _AMPERE,
    trade_off="Products keep ten bits of mantissa instead of 23.",
)
def tf32_off(facts: Facts) -> Iterator[Finding]:
    """Float32 products whose kernel's name shows that it does not use tensor cores. By default PyTorch uses TF32 for
    convolutions but not for matrix products. Products with a vector do not count.

    At most their time can be saved; many products are bound by memory.
    """
    if facts.capability is None or facts.capability < _AMPERE.value:
        return
    yield from of_kernels(
        facts,
        lambda g: g.is_product and g.use.used is False and g.dtype == "float32",
        _PLAIN,
        title="TF32 is off: float32 products without tensor cores take {}",
        metric="time of float32 products off tensor cores, per step",
        confidence="high",
        advice="torch.set_float32_matmul_precision('high') and torch.backends.cudnn.allow_tf32 = True; "
        "it keeps the range of float32 with ten bits of mantissa.",
        input_dims=lambda g: g.dims,
    )


@kernel_rule(
    "tensor-cores-unused",
    "Products in 16 bits and less that do not use tensor cores.",
    _OFF,
    trade_off="Padding is computed and stored like the rest.",
)
def tensor_cores_unused(facts: Facts) -> Iterator[Finding]:
    """Products whose type fits tensor cores and whose kernel's name shows that it does not use them, or, if the name
    does not show it, whose hardware counters (`tensor_active`, `tensor_instructions` of `metrics --by metric`) show no
    work of the tensor pipe; others count neither way, and products with a vector have no use for them. The evidence
    names the sizes that prevent them, if inputs were recorded.

    At most their time can be saved.
    """
    if not facts.has_tensor_cores:
        return
    convolved = any((_off_cores(g) or _idle_pipe(facts, g)) and _class(g) == "convolution" for g in facts.groups)
    yield from of_kernels(
        facts,
        lambda g: _off_cores(g) or _idle_pipe(facts, g),
        _OFF,
        title=f"{matrix_units(facts).capitalize()} unused by products in 16 bits: {{}}",
        metric="time of products in 16 bits off tensor cores, per step",
        confidence="medium",
        advice="Make channels and features multiples of 8 (16 for 8-bit types)"
        + (", use channels_last for convolutions" if convolved else "")
        + f", and update {'MIOpen and hipBLASLt' if facts.platform == 'rocm' else 'cuDNN and cuBLAS'}.",
        input_dims=lambda g: g.dims,
        sizes=_wrong_sizes,
        **_tensor_active(facts),
    )


def _off_cores(group: Group) -> bool:
    return group.is_product and group.use.used is False and group.dtype in NARROW


def _tensor_active(facts: Facts) -> dict[str, Any]:
    """The counter that shows an idle tensor pipe, if one does."""
    if not any(_idle_pipe(facts, group) for group in facts.groups):
        return {}
    active = {kernel.name: kernel.values.get("tensor_active", 0.0) for kernel in facts.measured}
    return {"tensor_active": lambda group: active.get(group.name)}


def _idle_pipe(facts: Facts, group: Group) -> bool:
    """Whether counters show no tensor instruction in a 16-bit product whose name does not show it."""
    if not group.is_product or group.use.used is not None or group.dtype not in NARROW:
        return False
    counters = [values.values for values in facts.measured if values.name == group.name]
    return bool(counters) and all(
        uses_tensor_cores(values) is False and ("tensor_active" in values or "tensor_instructions" in values)
        for values in counters
    )


@kernel_rule(
    "misaligned-dimensions",
    "Products whose sizes are not multiples of 16 bytes, and whose kernels show it.",
    _SMALL,
    _LOAD,
    trade_off="Padding is computed and stored like the rest.",
)
def misaligned_dimensions(facts: Facts) -> Iterator[Finding]:
    """Sizes alone prove nothing: libraries handle many. The kernel's name must show it: a CUTLASS kernel with an
    alignment (`_align1`) of less than 16 bytes of its type. The evidence names the sizes if inputs were recorded.

    At most the kernels' time can be saved.
    """
    yield from of_kernels(
        facts,
        lambda g: g.is_product and _loads_less(g),
        _SMALL,
        title="Misaligned sizes: products that load less than 16 bytes at a time take {}",
        metric="time of products on kernels of small alignment, per step",
        confidence="medium",
        advice="Pad these sizes to multiples of 8 (float16, bfloat16), 16 (8 bits) or 4 (float32): "
        "vocabulary, sequence length, features, channels.",
        input_dims=lambda g: g.dims,
        sizes=_wrong_sizes,
    )


def _loads_less(group: Group) -> bool:
    elements = alignment(group.name)
    size = size_of("float32" if group.dtype == "tf32" else group.dtype) if group.dtype else None
    return elements is not None and size is not None and elements * size < _LOAD.value


def _wrong_sizes(group: Group) -> str | None:
    """The sizes of a group that are not multiples of 16 bytes, in words; None if all are."""
    if group.operator is None or group.dims is None:
        return None
    wrong = misaligned(group.operator, group.dims, group.types, group.strides, group.values)
    return ", ".join(f"{size.dimension} = {size.size}, not a multiple of {size.multiple}" for size in wrong) or None


_LAYOUTS = worth("layout conversions", 0.02)
_NAMES = re.compile(r"(?i)nchwToNhwc|nhwcToNchw|batched_transpose|nchw2nhwc|nhwc2nchw")
_COPIES = worth("copies and casts on the device", 0.05, "TraceLens: a direction of copies above 5 % of the total")


@kernel_rule(
    "layout-conversions",
    "Conversions between NCHW and NHWC around convolutions.",
    _LAYOUTS,
    trade_off="Operators without a channels-last kernel convert back, or run slower.",
)
def layout_conversions(facts: Facts) -> Iterator[Finding]:
    """Kernels of cuDNN and MIOpen that convert a convolution's tensors, because its fast kernels need channels last and
    the tensors are channels first; known by name (`nchwToNhwcKernel`, `batched_transpose_...`).

    At most all of their time can be saved; weights may still be converted.
    """
    yield from of_kernels(
        facts,
        lambda group: _NAMES.search(group.name),
        _LAYOUTS,
        title="Layout conversions (NCHW ↔ NHWC) take {}",
        metric="time of layout conversions, per step",
        confidence="high",
        advice="model.to(memory_format=torch.channels_last), and the same for its inputs."
        if facts.in_pytorch
        else "Keep images and weights in the layout that the kernels want.",
    )


@kernel_rule(
    "copies-and-casts",
    "Copies from device to device, casts and `contiguous()` of tensors.",
    _COPIES,
    trade_off="Kernels may be slower on inputs that are not contiguous.",
)
def copies_and_casts(facts: Facts) -> Iterator[Finding]:
    """Device work that `aten::copy_` and similar operators launched, except copies between the host and the device. It
    includes autocast's cast of each weight.

    At most all of it can be saved, with the host's time in these operators; some copies are needed.
    """
    yield from of_kernels(
        facts,
        _moves,
        _COPIES,
        title="Copies, casts and contiguous() on the device take {}",
        metric="time of copies and casts on the device, per step",
        confidence="low",
        advice="Keep one element type through the step, avoid .contiguous() and .clone() after "
        "transpose and permute, write into preallocated tensors (out=), torch.compile what is left.",
        launched_by=lambda group: group.operator,
        input_dims=lambda group: group.dims,
        types=lambda group: group.types,
    )


def _moves(group: Group) -> bool:
    if group.model is None or group.model.family != "copy" or group.direction == "optimizer":
        return False
    return group.kind == "computation" or (group.kind == "copy" and "DtoD" in group.name)
