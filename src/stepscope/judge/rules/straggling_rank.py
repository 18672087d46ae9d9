"""`straggling-rank`: the others wait for one rank, or for a few."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.analysis.straggler import LATE_ABOVE, Straggler
from stepscope.floor.units import ratio_text, time_text
from stepscope.judge.declare import Finding, Threshold, of_step, rule
from stepscope.judge.facts import Facts, first, ranks_text

_SHARE = Threshold(
    "what the others wait for it, of the step",
    LATE_ABOVE,
    "ratio",
    "ours: as for waiting for input",
)
_WORK = "its share of the work (longer sequences, larger batches), its clocks, other processes on its node"
_LOOK_AT = {
    "input_wait": "its DataLoader's workers, its storage, and its share of the data",
    "host_to_device": "its link to the device, and whether its batches are larger or not pinned",
    "forward": _WORK,
    "backward": _WORK,
    "optimizer": "its clocks, other processes on its node, and what it alone does there",
    "residual": "what it alone does between steps: logging, evaluation, checkpoints",
}
_OFTEN = """
    SELECT avg((own_ns - others_ns >= $late_ns)::INTEGER) FROM (
        SELECT max(dur_ns) FILTER (rank = $rank) AS own_ns,
            median(dur_ns) FILTER (rank <> $rank) AS others_ns
        FROM phase_step WHERE phase = $phase GROUP BY span, step
    ) WHERE own_ns IS NOT NULL AND others_ns IS NOT NULL
"""


@rule(
    "straggling-rank",
    "A rank that all others wait for, of a job's own phases.",
    _SHARE,
    trade_off="Work that is taken from one rank is work for the others.",
)
def straggling_rank(facts: Facts) -> Iterator[Finding]:
    """Ranks that exchange gradients in every step have steps of the same length, whoever is late. A
    rank is named where something tells: DDP's own timings of the all-reduce, in which the last to
    come waits least; input wait, which is never a wait for a rank; or, with four ranks or more, that
    few do more than all others before they meet.

    At most what the others wait can be saved; nothing is certain.
    """
    if facts.phases is None or facts.phases.late is None:
        return
    late = facts.phases.late
    share = facts.part_of_step(late.late_ns)
    rank, beside = late.ranks[0], min(r for r in facts.phases.ranks if r not in late.ranks)
    yield of_step(
        "loss",
        share,
        "what the others wait for it, of the step",
        title=f"Straggling rank: {_evidence(facts, late)}",
        saving_ns=late.late_ns,
        confidence="medium",
        evidence=first(
            {"rank": one, "phase": phase, "mean_ns": row["mean_ns"]}
            for one in (rank, beside)
            for phase, row in facts.phases.ranks[one].items()
        ),
        rank=rank if len(late.ranks) == 1 else None,
        advice=f"Look at rank {rank}: {_LOOK_AT[late.phase]}; a trace of it beside another: "
        f"`stepscope record --trace --ranks {min(beside, rank)},{max(beside, rank)}`.",
        query="stepscope phases SRC --by verdict",
        ranks=late.ranks,
        phase=late.phase,
    )


def _evidence(facts: Facts, late: Straggler) -> str:
    who, phase = f"rank {late.ranks[0]}", late.phase.replace("_", " ")
    lost, most = time_text(late.late_ns), "most of it"
    if late.phase_ns:
        most = f"{time_text(late.phase_ns)} of it"
    if late.waits_ns is not None:
        own, others = (time_text(ns) for ns in late.waits_ns)
        words = (
            f"the others wait {lost} per step for {who}: all-reduce takes {others} on them and {own} "
            "on it"
        )
        if late.phase_ns is None:
            words += "; no other phase is longer on it, so it loses the time within its backward"
        else:
            words += f"; it needs {time_text(late.phase_ns)} more than they do in {phase}"
    elif late.in_step:
        words = (
            f"{who} needs {lost} more per step than the others before they meet, {most} in {phase}, "
            "and their steps are as long: they wait for it"
        )
    else:
        words = f"steps of {who} are longer than the others' by {lost}, {most} in {phase}"
    if late.phase_ns is not None:
        asked = {"late_ns": late.late_ns / 2, "rank": late.ranks[0], "phase": late.phase}
        often = facts.scope.value(_OFTEN, asked)
        words += "" if often is None else f", in {ratio_text(often)} of the kept steps"
    if len(late.ranks) > 1:
        words += f"; {ranks_text(late.ranks[1:])} nearly as much"
    return words
