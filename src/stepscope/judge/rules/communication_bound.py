"""`communication-bound`: ranks communicate, or wait for each other, and nothing else runs."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.judge.declare import Finding, of_step, rule, worth
from stepscope.judge.facts import Facts, first

_SHARE = worth(
    "exposed communication",
    0.10,
    "TensorBoard profiler plugin: communication > 10 % of the step (TraceLens: > 5 %)",
)


@rule(
    "communication-bound",
    "Communication that no computation hides.",
    _SHARE,
    trade_off="Kernels that run beside communication share multiprocessors and memory bandwidth with it and "
    "take longer.",
    rests_on=("device-times",),
    silent_without=("device-work",),
)
def communication_bound(facts: Facts) -> Iterator[Finding]:
    """The time in which communication kernels ran, or the host was in a collective, and nothing
    computed or copied. It holds the transfer as well as waiting for ranks that are late, which one
    rank's recording cannot tell apart.

    Of phases it is the part of backward that DDP's own timings found exposed, on the rank that waits
    least where all ranks have timings: more of it on another is waiting for late ranks.

    At most all of it can be saved; nothing is certain.
    """
    exposed_ns, share = facts.time("communication"), facts.share("communication")
    if share <= _SHARE.value:
        return
    rows = facts.by_recording("communication")
    source = ""
    if facts.phases_alone is not None:
        source = ", by DDP's own timings of the all-reduce"
        if len(rows) < len(facts.phases_alone.ranks):
            source += f", even on rank {rows[0]['rank']}, which waits least"
    yield of_step(
        "loss",
        share,
        "exposed communication, of the step",
        title=f"Communication-bound: for {facts.amount(exposed_ns)} ranks communicate, or wait for each "
        f"other, with nothing to hide it{source}",
        saving_ns=exposed_ns,
        confidence=facts.confidence,
        evidence=first(rows, 8),
        rank=rows[0]["rank"] if len(rows) > 1 or source else None,
        advice=f"{facts.parts_command} for each rank's part. {_less(facts)} Where one rank waits long and "
        "another hardly, even out their work instead.",
        query=facts.parts_query if facts.per == "step" else "stepscope device-time SRC",
        ranks=facts.on_ranks("communication", _SHARE.value)[1],
    )


def _less(facts: Facts) -> str:
    """What hides or shortens the communication of such a job."""
    if not facts.trains:
        return (
            "Exchange less, or beside computation: fewer ranks to a layer, smaller types, one part of the "
            "batch while another is computed."
        )
    wrapped = {
        "DistributedDataParallel with larger or smaller bucket_cap_mb, gradient_as_bucket_view=True and "
        "static_graph=True": facts.has_called("DistributedDataParallel."),
        "FSDP with backward prefetch": facts.has_called("FSDP::", "FullyShardedDataParallel."),
    }
    # Where none is seen, of phases say, any may be.
    named = [how for how, seen in wrapped.items() if seen or not any(wrapped.values())]
    ddp = any("Distributed" in how for how in named)
    narrow = "bf16" if facts.has_bfloat16 else "fp16"
    cures = [*named, "no_sync() while gradients accumulate"]
    return f"Overlap it: {'; '.join(cures)}{f'; {narrow} compression hooks' if ddp else ''}."
