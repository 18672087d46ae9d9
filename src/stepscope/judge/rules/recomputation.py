"""`recomputation`: activations are computed a second time in backward."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.judge.declare import Finding, Threshold, rule
from stepscope.judge.facts import Facts, first

_SHARE = Threshold(
    "device time of recomputed forward, of the step",
    0.05,
    "ratio",
    "ours: below it memory is worth more",
)
_BACKWARD = Threshold(
    "recomputed forward over the rest of backward",
    1.0,
    "ratio",
    "ours: gradients take twice their forward; what is more belongs to gradients of gradients",
)

_LAUNCHED = """
    WITH launched AS (
        SELECT op.name, work.dur_ns,
            coalesce(op.sequence_number >= 0, false) AND op.role IS NULL AS again
        FROM (
            SELECT * FROM device_event
            WHERE kind = 'computation' AND direction = 'backward' AND {counted}
        ) AS work
        JOIN host_event AS op ON op.rank = work.rank AND op.id = work.operator_id
    )
"""


@rule(
    "recomputation",
    "Activation checkpoints, whose forward runs again in backward.",
    _SHARE,
    _BACKWARD,
    trade_off="Activations that are not computed again are kept: peak memory grows.",
    rests_on=("launches",),
)
def recomputation(facts: Facts) -> Iterator[Finding]:
    """Autograd numbers the operators that it records, and in backward it records none. Operators that
    carry a number all the same inside a backward node are a forward that `torch.utils.checkpoint`
    runs again, with re-entry or without. Backward of backward (create_graph=True) numbers its
    operators too: where these take longer than the rest of backward, the rule is silent.

    At most their device time can be saved, if memory allows; nothing is certain, since it may not.
    """
    if not facts.enough_work:
        return
    rows = facts.host(
        f"{_LAUNCHED} SELECT name AS operator, count(*) AS kernels, sum(dur_ns)::BIGINT AS total_ns "
        "FROM launched WHERE again GROUP BY name ORDER BY total_ns DESC, name"
    )
    total_ns = sum(row["total_ns"] for row in rows)
    again_ns = total_ns / facts.steps
    if facts.part_of_step(again_ns) <= _SHARE.value:
        return
    rest = facts.host(f"{_LAUNCHED} SELECT sum(dur_ns)::BIGINT AS ns FROM launched WHERE NOT again")
    if total_ns > _BACKWARD.value * (rest[0]["ns"] or 0):
        return
    yield Finding(
        title=f"Activation checkpoints compute forward again for {facts.amount(again_ns)}",
        metric="device time of recomputed forward, per step",
        value=again_ns,
        unit="ns",
        saving_ns=again_ns,
        confidence="medium",
        evidence=first(
            {
                "operator": row["operator"],
                "kernels_per_step": row["kernels"] / facts.steps,
                "time_ns": row["total_ns"] / facts.steps,
            }
            for row in rows
        ),
        advice="Checkpoint fewer layers as memory allows, or only what is cheap to compute again "
        "(torch.utils.checkpoint.create_selective_checkpoint_contexts).",
        query=facts.to_repeat(
            f"{_LAUNCHED} SELECT sum(dur_ns) FILTER (again) / {facts.steps} FROM launched"
        ),
    )
