"""`recomputation`: activations are computed again in backward."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.findings.declare import Finding, Threshold, of_time, rule, worth
from stepscope.findings.facts import Facts, first

_SHARE = worth("device time of recomputed forward", 0.05, "ours: below it memory is worth more")
_BACKWARD = Threshold(
    "recomputed forward over the rest of backward", 1.0, "ratio", "ours: more belongs to gradients of gradients"
)

_RERUNS = """
    kind = 'operator' AND direction = 'backward' AND {counted}
    AND (role IS NULL AND sequence_number >= 0 OR role = 'backward' AND name LIKE '%Checkpoint%')
"""
_LAUNCHED = """
    WITH RECURSIVE work AS (
        SELECT rank, operator_id, sum(dur_ns) AS dur_ns, count(*) AS kernels FROM device_event
        WHERE kind = 'computation' AND direction = 'backward' AND {counted}
            AND operator_id IS NOT NULL GROUP BY ALL
    ), above AS (
        SELECT op.rank, op.id AS operator_id, op.parent_id, op.id, op.name, op.role, op.dur_ns,
            op.role IS NULL AND coalesce(op.sequence_number >= 0, false) AS again
        FROM work JOIN host_event AS op ON op.rank = work.rank AND op.id = work.operator_id
        UNION ALL
        SELECT above.rank, above.operator_id, op.parent_id, op.id, op.name, op.role, op.dur_ns,
            CASE WHEN op.role = 'backward' THEN op.name LIKE '%Checkpoint%'
                ELSE coalesce(op.sequence_number >= 0, false) END
        FROM above JOIN host_event AS op ON op.rank = above.rank AND op.id = above.parent_id
        WHERE above.role IS DISTINCT FROM 'backward'
    ), launched AS (
        SELECT op.name, work.dur_ns, work.kernels, reruns.again
        FROM work
        JOIN (SELECT rank, operator_id, bool_or(again) AS again FROM above GROUP BY ALL) AS reruns
            USING (rank, operator_id)
        JOIN host_event AS op ON op.rank = work.rank AND op.id = work.operator_id
    )
"""
"""Work of operators in backward, and whether one between them and the backward node above them, or they themselves,
have a number, or that node is a checkpoint's."""

_NODES = """
    SELECT sum(dur_ns)::BIGINT AS ns FROM (
        SELECT DISTINCT rank, above.id, above.dur_ns
        FROM above JOIN (SELECT rank, operator_id, bool_or(again) AS again FROM above GROUP BY ALL) AS reruns
            USING (rank, operator_id)
        WHERE role = 'backward' AND reruns.again
    )
"""


@rule(
    "recomputation",
    "Activation checkpoints, whose forward runs again in backward.",
    _SHARE,
    _BACKWARD,
    trade_off="Activations that are not computed again stay in memory: its peak grows.",
    rests_on=("launches",),
)
def recomputation(facts: Facts) -> Iterator[Finding]:
    """Autograd numbers the operators that it records, and in backward it records none. Operators that nevertheless have
    a number inside a backward node are a forward that `torch.utils.checkpoint` runs again, re-entrant or not; so is
    what they call, such as a library's convolution or attention, which has no number itself, and what a checkpoint's
    own backward node calls. Backward of backward (create_graph=True) numbers its operators too: if these take longer
    than the rest of backward, the rule is silent.

    At most their device time and that of the host in such backward nodes can be saved, if memory allows; it may not.
    """
    if not facts.enough_work or not facts.has_rows("host_event", _RERUNS.replace("{counted}", facts.counted)):
        return
    rows = facts.host(
        f"{_LAUNCHED} SELECT name AS operator, sum(kernels)::BIGINT AS kernels, sum(dur_ns)::BIGINT AS total_ns "
        "FROM launched WHERE again GROUP BY name ORDER BY total_ns DESC, name"
    )
    total_ns = sum(row["total_ns"] for row in rows)
    again_ns = total_ns / facts.steps
    if facts.part_of_step(again_ns) <= _SHARE.value:
        return
    others = facts.host(f"{_LAUNCHED} SELECT sum(dur_ns)::BIGINT AS ns FROM launched WHERE NOT again")
    if total_ns > _BACKWARD.value * (others[0]["ns"] or 0):
        return
    nodes = facts.host(f"{_LAUNCHED} {_NODES}")
    yield of_time(
        title=f"Activation checkpoints compute forward again for {facts.amount(again_ns)}",
        metric="device time of recomputed forward, per step",
        time_ns=again_ns,
        hidden_ns=facts.hidden((nodes[0]["ns"] or 0) / facts.steps),
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
        query=facts.to_repeat(f"{_LAUNCHED} SELECT sum(dur_ns) FILTER (again) / {facts.steps} FROM launched"),
    )
