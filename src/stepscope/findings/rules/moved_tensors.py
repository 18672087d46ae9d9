"""Rules about kernels that only move tensors: from one layout, type or place to another."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stepscope.findings.declare import Finding, kernel_rule, worth
from stepscope.findings.facts import Facts
from stepscope.findings.groups import Group
from stepscope.findings.of_kernels import of_kernels

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
        saving=1,
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
        saving=1,
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
