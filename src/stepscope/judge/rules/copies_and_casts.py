"""`copies-and-casts`: kernels that copy, cast or make contiguous, and compute nothing."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.judge.declare import Finding, Threshold, rule
from stepscope.judge.facts import Facts, first
from stepscope.judge.groups import Group, by_kernel, reproduce, summed

_SHARE = Threshold(
    "copies and casts on the device, of the step",
    0.05,
    "ratio",
    "TraceLens: a direction of copies above 5 % of the total",
)


@rule(
    "copies-and-casts",
    "Copies from device to device, casts and `contiguous()` of tensors.",
    _SHARE,
    saves="kernel time",
    rests_on=("stream-order", "device-times"),
)
def copies_and_casts(facts: Facts) -> Iterator[Finding]:
    """Work that `aten::copy_` and its likes launched on the device, copies between the host and the
    device apart. Under autocast a cast of each weight is in it.

    At most all of it can be saved; nothing is certain, since some copies are needed.
    """
    if not facts.enough_work:
        return
    found = [group for group in facts.groups if _moves(group)]
    time_ns = summed(found) / facts.steps
    if facts.part_of_step(time_ns) <= _SHARE.value:
        return
    yield Finding(
        title=f"Copies, casts and contiguous() on the device take {facts.amount(time_ns)}",
        metric="time of copies and casts on the device, per step",
        value=time_ns,
        unit="ns",
        saving_ns=(0, time_ns),
        confidence="low",
        evidence=first(
            by_kernel(
                facts.steps,
                found,
                input_dims=lambda group: group.dims,
                types=lambda group: group.types,
            )
        ),
        advice="Keep one element type through the step, avoid .contiguous() and .clone() after "
        "transpose and permute, write into tensors made before (out=), torch.compile what is left.",
        query=reproduce(facts.steps, facts.counted, found),
    )


def _moves(group: Group) -> bool:
    if group.model is None or group.model.family != "copy" or group.direction == "optimizer":
        return False
    return group.kind == "computation" or (group.kind == "copy" and "DtoD" in group.name)
