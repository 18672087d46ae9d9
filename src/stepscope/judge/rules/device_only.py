"""`device-only`: the recording shows the device and not the host, so no cause of idle time is known."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.judge.declare import Finding, Threshold, of_step, rule
from stepscope.judge.facts import Facts

_HOST = Threshold("recorded operators and ranges", 0, "count", "ours: any one shows the host")


@rule(
    "device-only",
    "Recordings of a device without operators.",
    _HOST,
)
def device_only(facts: Facts) -> Iterator[Finding]:
    """Device work was recorded and no operator, range or Python frame. What kernels fill of the time is
    known; what the host did while the device was idle is not.
    """
    if not facts.has_device or facts.has_host or not facts.step_ns:
        return
    yield of_step(
        "obstacle",
        facts.share("kernel"),
        "kernels' part of the step",
        title=f"No operators in the recording: kernels fill {facts.amount(facts.time('kernel'))}, and "
        "there is no saying what the host did while the device was idle",
        confidence="high",
        advice="`stepscope kernels`; record with ProfilerActivity.CPU too, to see operators and "
        "causes.",
        query=facts.parts_query,
    )
