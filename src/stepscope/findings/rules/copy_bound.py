"""`copy-bound`: copies run while nothing computes."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.base.units import bytes_text, ratio_text
from stepscope.findings.declare import Finding, of_step, rule, worth
from stepscope.findings.facts import Facts, first

_SHARE = worth("exposed copies", 0.05, "TraceLens: a direction of copies above 5 % of the total")

COPYING = "kind = 'runtime' AND role = 'copy'"
"""Calls that copy, which wait for the device if memory is pageable."""


@rule(
    "copy-bound",
    "Copies that no computation hides.",
    _SHARE,
    trade_off="Batches that are copied ahead take device memory, and copies share its bandwidth with kernels.",
    rests_on=("device-times",),
    silent_without=("device-work",),
)
def copy_bound(facts: Facts) -> Iterator[Finding]:
    """The time in which a device copied and computed nothing. For phases it is the time that the host
    spends copying batches to the device.

    At most all of it can be saved, plus the time in which calls that copy block the host; nothing is certain:
    `pageable-copies` and `copies-and-casts` name copies that have a cure.
    """
    time_ns, share = facts.time("copy"), facts.share("copy")
    if share <= _SHARE.value:
        return
    where, ranks = facts.on_ranks("copy", _SHARE.value)
    what = "the device copies and computes nothing meanwhile"
    advice = "`stepscope copies` for direction, bandwidth and pageable memory"
    if facts.phases_alone is not None:
        what, advice = f"the host copies batches to the device{where}", "Copy less"
        copied = facts.phases_alone.mean("copied_bytes")
        pageable = facts.phases_alone.mean("pageable_bytes")
        if copied:
            what += (
                f": {bytes_text(round(copied))} a step, {ratio_text((pageable or 0) / copied)} of it "
                "from memory that is not pinned"
            )
        if copied is None or pageable:
            advice = "Pin the loader's memory (pin_memory=True)"
    asynchronous = "non_blocking=True" if facts.in_pytorch else "asynchronous calls from pinned memory"
    yield of_step(
        "loss",
        share,
        "exposed copies, of the step",
        title=f"Copy-bound: for {facts.amount(time_ns)} {what}",
        saving_ns=time_ns,
        hidden_ns=facts.hidden_in(COPYING) if facts.has_device else 0.0,
        confidence=facts.confidence,
        evidence=first(facts.by_recording("copy"), 8),
        advice=f"{advice}; copy with {asynchronous} beside computation, use smaller types, and create on "
        "the device what can be created there.",
        query=facts.parts_query,
        ranks=ranks,
    )
