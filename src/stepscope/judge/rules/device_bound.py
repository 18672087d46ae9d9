"""`device-bound`: kernels fill the step."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.floor.units import ratio_text
from stepscope.judge.declare import FILLED, LEADING, Finding, of_step, rule
from stepscope.judge.facts import Facts
from stepscope.judge.rules.data_quality import hides_idle


@rule(
    "device-bound",
    "Steps that kernels fill.",
    LEADING,
    FILLED,
)
def device_bound(facts: Facts) -> Iterator[Finding]:
    """What is left when no loss leads: the time in which a kernel computes. Nothing is saved by
    waiting less then; the largest kernels and operators are where time can be won. It is silent where device work is
    missing and the device looks idle.
    """
    if not facts.has_device or not facts.has_host or hides_idle(facts):
        return
    used = facts.utilization
    yield of_step(
        "work",
        facts.share("kernel"),
        "kernels' part of the step",
        title=f"Device-bound: kernels fill {facts.amount(facts.time('kernel'))}"
        + ("" if used is None else f"; GPU utilisation is {ratio_text(used)}"),
        confidence="high",
        advice="`stepscope kernels` and `stepscope operators`: the largest are where time can be won.",
        query=facts.parts_query,
    )
