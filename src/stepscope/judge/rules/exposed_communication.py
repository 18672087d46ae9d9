"""`exposed-communication`: ranks communicate, or wait for each other, and nothing else runs."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.judge.declare import Finding, Threshold, rule
from stepscope.judge.facts import Facts, first

_SHARE = Threshold(
    "exposed communication, of the step",
    0.10,
    "ratio",
    "TensorBoard profiler plugin: communication > 10 % of the step (TraceLens: > 5 %)",
)


@rule(
    "exposed-communication",
    "Communication that no computation hides.",
    _SHARE,
    saves="waiting",
    unreliable_with=("duration_overrun", "zero_ts"),
    silent_with=("no_gpu_events",),
)
def exposed_communication(facts: Facts) -> Iterator[Finding]:
    """The time in which communication kernels ran, or the host was in a collective, and nothing
    computed or copied. It holds the transfer as well as waiting for ranks that are late, which one
    rank's recording cannot tell apart.

    At most all of it can be saved; nothing is certain.
    """
    exposed_ns = facts.time("communication")
    share = facts.share("communication")
    if share <= _SHARE.value:
        return
    rows = list(facts.by_recording("communication"))
    yield Finding(
        title=f"Exposed communication: {facts.amount(exposed_ns)} with nothing to hide it",
        metric="exposed communication, of the step",
        value=share,
        unit="ratio",
        saving_ns=(0, exposed_ns),
        confidence="high",
        evidence=first(rows, 8),
        rank=rows[0]["rank"] if len(rows) > 1 else None,
        advice="Overlap it: DistributedDataParallel with larger or smaller bucket_cap_mb, "
        "gradient_as_bucket_view=True and static_graph=True; FSDP with backward prefetch; "
        "no_sync() while gradients accumulate; bf16 compression hooks. Where one rank waits long "
        "and another hardly, even out their work instead.",
        query="stepscope steps SRC --by mean" if facts.has_steps else "stepscope device-time SRC",
    )
