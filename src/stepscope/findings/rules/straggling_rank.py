"""`straggling-rank`: the others wait for one rank, or for a few."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from stepscope.analysis.ranks.straggler import LATE_ABOVE, Straggler, recorded_charges
from stepscope.base.units import ratio_text, time_text
from stepscope.findings.declare import Finding, Threshold, of_step, rule
from stepscope.findings.facts import Facts, first, ranks_text
from stepscope.findings.one_step import in_one_step
from stepscope.query.script import script_of

if TYPE_CHECKING:
    from stepscope.analysis.ranks.skew import RankSkew

_SHARE = Threshold("what the others wait for it, of the step", LATE_ABOVE, "ratio", "ours: as for waiting for input")
_WORK = "its share of the work (longer sequences, larger batches), its clocks, other processes on its node"
_LOOK_AT = {
    "input_wait": "its DataLoader's workers, its storage, and its share of the data",
    "host_to_device": "its link to the device, and whether its batches are larger or not pinned",
    "forward": _WORK,
    "backward": _WORK,
    "optimizer": "its clocks, other processes on its node, and what it alone does there",
    "residual": "what it alone does between steps: logging, evaluation, checkpoints",
}
_LOOK_INTO = {
    "input": _LOOK_AT["input_wait"],
    "computation": _WORK,
    "copies": _LOOK_AT["host_to_device"],
    "communication": "the groups that only it communicates in, and its links",
    "garbage collection": "what it alone allocates; gc.freeze() after the first steps, or gc.disable() and "
    "gc.collect() at the same step on all ranks",
    "compilation": "what makes it compile again: shapes that only it has (TORCH_LOGS=recompiles)",
    "host": "operators that only it runs, logging, other processes on its node, CPU binding",
    "profiler": "recording fewer steps, or without stacks and shapes: the profiler delays it",
    "not recorded": "a trace with Python stacks (`stepscope record --stack -- {script}`): nothing was recorded there",
}
"""What to look at, by the cause that the trace shows."""
_OFTEN = """
    SELECT sum((own_ns - others_ns >= $skew_ns)::INTEGER * weight) / sum(weight) FROM (
        SELECT max(dur_ns) FILTER (rank = $rank) AS own_ns,
            median(dur_ns) FILTER (rank <> $rank) AS others_ns,
            max(weight) AS weight
        FROM phase_step WHERE phase = $phase GROUP BY span, step
    ) WHERE own_ns IS NOT NULL AND others_ns IS NOT NULL
"""


@rule(
    "straggling-rank",
    "A rank that all others wait for, by matched collectives, or by a job's own phases.",
    _SHARE,
    trade_off="Work that is taken from one rank is work for the others.",
    rests_on=("across-ranks",),
)
def straggling_rank(facts: Facts) -> Iterator[Finding]:
    """Ranks that exchange gradients in every step have steps of the same length, whoever is late. A rank is named if
    there is evidence: DDP's own timings of the all-reduce, in which the last to arrive waits least; input wait, which
    is never a wait for a rank; or, with four ranks or more, that a few do more than all others before they meet.

    If the ranks were traced and their collectives matched, these show which rank arrived last, how long each of the
    others waited for it, and what it did longer than them. A wait for a rank that had itself waited for another is
    charged to that other one, and time before a rank's recording is charged to none (`stragglers` has the details).

    At most the waiting time of the others can be saved.
    """
    late = facts.late
    if late is None:
        return
    if late.phase is None:
        yield _of_collectives(facts, late)
    else:
        yield _of_phases(facts, late, late.phase)


def _of_collectives(facts: Facts, late: Straggler) -> Finding:
    from stepscope.analysis.ranks.delay_cause import explain_delay
    from stepscope.analysis.ranks.skew import CAUSES

    skew, rank = facts.rank_skew, late.ranks[0]
    assert skew is not None  # noqa: S101  # they name who is late
    charged = skew.by_rank(skew.charged_ns)[rank].tolist()
    words = (
        f"the others wait {time_text(late.skew_ns)} per step for rank {rank} in collectives{_in_one_step(skew, rank)}"
    )
    if because := explain_delay(facts.scope, skew, rank, recorded=True):
        words += f": {because}"
    before_ns = skew.per_step(charged[CAUSES.index("before the recording")])
    if before_ns >= _SHARE.value * facts.step_ns:
        words += f"; {time_text(before_ns)} more are before its recording starts and not counted"
    if len(late.ranks) > 1:
        words += f"; nearly as long for {ranks_text(late.ranks[1:])}"
    look_into = _LOOK_INTO[late.cause or "not recorded"].replace("{script}", script_of(facts.scope))
    return of_step(
        "loss",
        late.share_ratio,
        "what the others wait for it, of the step",
        title=f"Straggling rank: {words}",
        saving_ns=late.skew_ns,
        lost_on="job",
        evidence=first(
            {"rank": rank, "cause": cause, "skew_ns": round(skew.per_step(ns))}
            for cause, ns in sorted(zip(CAUSES, charged, strict=True), key=lambda pair: -abs(pair[1]))
            if ns
        ),
        rank=rank if len(late.ranks) == 1 else None,
        advice=f"Look at rank {rank}: {look_into}. `stepscope stragglers --by cause` lists what it did longer than the others.",
        query="stepscope stragglers SRC",
        ranks=late.ranks,
    )


def _in_one_step(skew: RankSkew, rank: int) -> str:
    """Whether one step makes the mean, in words."""
    by_step: dict[tuple[int, int], float] = {}
    of_rank = skew.late == rank
    charged = recorded_charges(skew).sum(axis=1)
    for step, ns in zip(skew.step[of_rank].tolist(), charged[of_rank].tolist(), strict=True):
        by_step[rank, step] = by_step.get((rank, step), 0.0) + ns
    return in_one_step(by_step, steps=round(skew.steps))


def _of_phases(facts: Facts, late: Straggler, phase: str) -> Finding:
    assert facts.phases is not None  # noqa: S101  # they name who is late
    step_ns = facts.phases.step_ns
    share = late.skew_ns / step_ns if step_ns else 0.0
    rank, other = late.ranks[0], min(r for r in facts.phases.ranks if r not in late.ranks)
    return of_step(
        "loss",
        share,
        "what the others wait for it, of the step",
        title=f"Straggling rank: {_evidence(facts, late, phase)}",
        saving_ns=late.skew_ns,
        lost_on="job",
        step_ns=step_ns,
        evidence=first(
            {"rank": shown_rank, "phase": name, "mean_ns": row["mean_ns"]}
            for shown_rank in (rank, other)
            for name, row in facts.phases.ranks[shown_rank].items()
        ),
        rank=rank if len(late.ranks) == 1 else None,
        advice=f"Look at rank {rank}: {_LOOK_AT[phase]}; a trace of it and another: "
        f"`stepscope record --trace --ranks {min(other, rank)},{max(other, rank)} "
        f"-- {script_of(facts.scope)}`.",
        query="stepscope phases SRC --by verdict",
        ranks=late.ranks,
        phase=phase,
    )


def _evidence(facts: Facts, late: Straggler, of: str) -> str:
    who, phase = f"rank {late.ranks[0]}", of.replace("_", " ")
    lost, part = time_text(late.skew_ns), "most of it"
    if late.phase_ns:
        part = f"{time_text(late.phase_ns)} of it"
    if late.waits_ns is not None:
        rank_wait, others = (time_text(ns) for ns in late.waits_ns)
        words = f"the others wait {lost} per step for {who}: all-reduce takes {others} on them and {rank_wait} on it"
        if late.phase_ns is None:
            words += "; no other phase is longer on it: it loses the time within backward"
        else:
            words += f"; it needs {time_text(late.phase_ns)} more than they do in {phase}"
    elif late.in_step:
        words = f"{who} needs {lost} more per step than the others before they meet, {part} in {phase}; the others wait for it"
    else:
        words = f"steps of {who} are longer than the others' by {lost}, {part} in {phase}"
    if late.phase_ns is not None:
        parameters = {"skew_ns": late.skew_ns / 2, "rank": late.ranks[0], "phase": of}
        often = facts.scope.value(_OFTEN, parameters)
        words += "" if often is None else f", in {ratio_text(often)} of the recorded steps"
    if len(late.ranks) > 1:
        words += f"; {ranks_text(late.ranks[1:])} nearly as much"
    return words
