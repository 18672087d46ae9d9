"""`host-only`: the recording shows no device, and operators and Python fill the step."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.floor.units import ratio_text
from stepscope.judge.declare import FILLED, LEADING, Finding, of_step, rule
from stepscope.judge.facts import Facts


@rule(
    "host-only",
    "Recordings without a device, whose steps the host's operators fill.",
    LEADING,
    FILLED,
)
def host_only(facts: Facts) -> Iterator[Finding]:
    """The time in operators, ranges and Python, which stands for the device's where none is recorded,
    and the operator with the largest self time.
    """
    if facts.has_device or not facts.has_host:
        return
    most = ""
    if facts.busiest_operator is not None:
        name, share = facts.busiest_operator
        most = f"; {name} has most of their self time ({ratio_text(share)})"
    yield of_step(
        "work",
        facts.share("cpu_exec"),
        "operators' and Python's part of the step",
        title="No device in the recording: operators and Python on the host fill "
        f"{facts.amount(facts.time('cpu_exec'))}{most}",
        confidence="high",
        advice="`stepscope operators`; record with ProfilerActivity.CUDA (XPU, ...) to see a device.",
        query=facts.parts_query,
    )
