"""`recomputation`: activations are computed a second time in backward."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.questions.findings.declare import Finding, Threshold, rule
from stepscope.questions.findings.facts import Facts, first

_SHARE = Threshold(
    "device time of recomputed forward, of the step",
    0.05,
    "ratio",
    "ours: below it memory is worth more",
)

_ANY = """
    SELECT count(*) AS calls FROM host_event
    WHERE kind = 'operator' AND name = 'CheckpointFunctionBackward'
"""
_RECOMPUTED = """
    WITH again AS (
        SELECT rank, span, id, thread, start_ns, start_ns + dur_ns AS end_ns, device_ns
        FROM host_event
        WHERE kind = 'operator' AND name = 'CheckpointFunctionBackward' AND {counted}
            AND device_ns IS NOT NULL
    ),
    backward AS (
        SELECT again.rank, again.id, sum(inner_node.device_ns) AS device_ns
        FROM again JOIN host_event AS inner_node
            ON inner_node.rank = again.rank AND inner_node.span = again.span
            AND inner_node.thread = again.thread AND inner_node.kind = 'operator'
            AND inner_node.name LIKE 'autograd::engine::evaluate_function: %'
            AND inner_node.start_ns >= again.start_ns
            AND inner_node.start_ns + inner_node.dur_ns <= again.end_ns
        GROUP BY again.rank, again.id
    )
"""
_TIME = "sum(again.device_ns - coalesce(backward.device_ns, 0))"
_FROM = "FROM again LEFT JOIN backward USING (rank, id)"


@rule(
    "recomputation",
    "Activation checkpoints, whose forward runs again in backward.",
    _SHARE,
    saves="kernel time",
    unreliable_with=("unlinked_kernel_fraction",),
)
def recomputation(facts: Facts) -> Iterator[Finding]:
    """The device work that `CheckpointFunctionBackward` (`torch.utils.checkpoint` with
    use_reentrant=True) launched, less that of the backward nodes inside it: the forward that it runs
    again. Checkpoints without re-entry leave no name in a recording and are not found.

    At most this time can be saved, if memory allows; nothing is certain, since it may not.
    """
    found = facts.host(
        f"{_RECOMPUTED} SELECT count(*) AS calls, {_TIME}::BIGINT AS time_ns {_FROM}"
    )
    time_ns = (found[0]["time_ns"] or 0) / facts.steps
    if facts.part_of_step(time_ns) <= _SHARE.value:
        return
    yield Finding(
        title=f"Activation checkpoints compute forward again for {facts.amount(time_ns)}",
        metric="device time of recomputed forward, per step",
        value=time_ns,
        unit="ns",
        saving_ns=(0, time_ns),
        confidence="medium",
        evidence=first([{"checkpoints_per_step": found[0]["calls"] / facts.steps}]),
        advice="Checkpoint fewer layers as memory allows, or only what is cheap to compute again "
        "(selective checkpoints: torch.utils.checkpoint.create_selective_checkpoint_contexts).",
        query=" ".join(
            f"{_RECOMPUTED} SELECT {_TIME} / {facts.steps} {_FROM}".replace(
                "{counted}", facts.counted
            ).split()
        ),
    )
