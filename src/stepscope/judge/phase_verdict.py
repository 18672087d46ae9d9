"""What holds a whole run back: what its ranks' recorders found, and which rank the others wait for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stepscope.analysis.phase_times import PHASES, times_of
from stepscope.analysis.straggler import RankTimes, Straggler, find_straggler
from stepscope.floor.units import ratio_text, time_text

if TYPE_CHECKING:
    from stepscope.answers.scope import Scope

STRAGGLER = "straggling-rank"
_COMMUNICATION = "communication-bound"
_COMPUTE = "compute-bound"
_SAME_AS = {"input_wait": "input-bound", "host_to_device": "copy-bound", "residual": "residual"}

_LOOK_AT = {
    "input_wait": "its DataLoader's workers, its storage, and its share of the data",
    "host_to_device": "its link to the device, and whether its batches are larger or not pinned",
    "forward": "its share of the work (longer sequences, larger batches), its clocks, other "
    "processes on its node",
    "backward": "its share of the work (longer sequences, larger batches), its clocks, other "
    "processes on its node",
    "optimizer": "its clocks, other processes on its node, and what it alone does there",
    "residual": "what it alone does between steps: logging, evaluation, checkpoints",
}

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RunFinding:
    """Something that holds a run back.

    Args:
        kind: as the recorder's findings have it, or `straggling-rank`.
        ranks: ranks on which it was found, the worst first.
        share_ratio: its share of the step on the worst; None where it has none.
        evidence: what was measured, in words.
        next_step: what to try next.
        weight: its share of all ranks' steps, by which findings are ordered.
        late_ns: how long the others wait in a mean step, for a straggling rank.
        phase: in which phase that rank loses the time.
    """

    kind: str
    ranks: tuple[int, ...]
    share_ratio: float | None
    evidence: str
    next_step: str | None
    weight: float
    late_ns: float | None = None
    phase: str | None = None


def judge_run(scope: Scope) -> list[RunFinding]:
    """What holds the run back, the largest share of all ranks' time first.

    The recorder's findings are of all counted steps; when steps are asked for, only the straggling
    rank is looked for.
    """
    times = _rank_times(scope)
    late = find_straggler(times)
    found = [_late(scope, late, times)] if late is not None else []
    if scope.steps is None:
        found += _of_recorders(scope, late, times)
    # That a step is what it computes is no loss: a rank that all others wait for comes before it.
    return sorted(found, key=lambda one: (late is not None and one.kind == _COMPUTE, -one.weight))


def missing_ranks(scope: Scope) -> tuple[int, ...]:
    """Ranks of the job whose files are not there; none where ranks were chosen."""
    if scope.ranks != scope.store.ranks:
        return ()
    size = scope.value("SELECT max(world_size) FROM rank") or 0
    recorded = {row["rank"] for row in scope.sql("SELECT DISTINCT rank FROM phase").to_pylist()}
    # A file may say anything: a job of more ranks than could be listed says nothing.
    return tuple(rank for rank in range(size) if rank not in recorded) if size < 1 << 20 else ()


def ranks_text(ranks: Sequence[int]) -> str:
    """Ranks as people write them.

    >>> ranks_text((9, 8, 10, 3))
    'ranks 3, 8-10'
    """
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and runs[-1][1] == rank - 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    parts = [
        str(first) if first == last else f"{first}{', ' if last == first + 1 else '-'}{last}"
        for first, last in runs
    ]
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(parts)}"


def _rank_times(scope: Scope) -> dict[int, RankTimes]:
    """Mean times of each rank, over all its recordings."""
    rows = scope.sql(
        f"""
        SELECT rank, phase, sum(mean_ns * steps) / sum(steps) AS mean_ns,
            CASE WHEN bool_and(device_mean_ns IS NOT NULL)
                THEN sum(device_mean_ns * steps) / sum(steps) END AS device_ns,
            sum(communication_ns * steps) / sum(steps) FILTER (communication_ns IS NOT NULL)
                AS all_reduce_ns,
            coalesce(bool_or(forward_waits), false) AS forward_waits
        FROM ({times_of(scope)}) WHERE steps > 0 GROUP BY rank, phase
        """
    ).to_pylist()
    by_rank: dict[int, dict[str, Row]] = {}
    for row in rows:
        by_rank.setdefault(row["rank"], {})[row["phase"]] = row
    by_rank = {rank: phases for rank, phases in by_rank.items() if "step" in phases}
    on_device = bool(by_rank) and all(
        phases.get(name, {}).get("device_ns") is not None
        for phases in by_rank.values()
        for name in ("forward", "backward")
    )
    return {
        rank: RankTimes(
            step_ns=phases["step"]["mean_ns"],
            phases=_on_device(phases) if on_device else _on_host(phases),
            all_reduce_ns=phases["step"]["all_reduce_ns"],
            forward_waits=phases["step"]["forward_waits"],
            on_device=on_device,
        )
        for rank, phases in by_rank.items()
    }


def _on_host(phases: Mapping[str, Row]) -> dict[str, float]:
    return {name: phases[name]["mean_ns"] for name in PHASES if name in phases}


def _on_device(phases: Mapping[str, Row]) -> dict[str, float]:
    times = {
        name: phases[name]["device_ns"]
        for name in PHASES
        if name in phases and phases[name]["device_ns"] is not None
    }
    if "input_wait" in phases:
        times["input_wait"] = phases["input_wait"]["mean_ns"]
    return times


def _late(scope: Scope, late: Straggler, times: Mapping[int, RankTimes]) -> RunFinding:
    rank = late.ranks[0]
    who, phase = f"rank {rank}", late.phase.replace("_", " ")
    if late.waits_ns is not None:
        own, others = (time_text(ns) for ns in late.waits_ns)
        evidence = (
            f"the others wait {time_text(late.late_ns)} per step for {who}: all-reduce takes {others} "
            f"on them and {own} on it"
        )
        if late.phase_ns is None:
            evidence += "; no other phase is longer on it, so it loses the time within its backward"
        else:
            evidence += f"; it needs {time_text(late.phase_ns)} more than they do in {phase}"
    elif late.in_step:
        evidence = (
            f"{who} needs {time_text(late.late_ns)} more per step than the others before they meet, "
            f"{_most(late)} in {phase}, and their steps are as long: they wait for it"
        )
    else:
        evidence = (
            f"steps of {who} are longer than the others' by {time_text(late.late_ns)}, "
            f"{_most(late)} in {phase}"
        )
    if late.phase_ns is not None:
        evidence += _how_often(scope, rank, late)
    if len(late.ranks) > 1:
        evidence += f"; {ranks_text(late.ranks[1:])} nearly as much"
    beside = next(other for other in sorted(times) if other not in late.ranks)
    return RunFinding(
        STRAGGLER,
        late.ranks,
        late.share_ratio,
        evidence,
        f"look at {who}: {_LOOK_AT[late.phase]}; a trace of it beside another: "
        f"`stepscope record --trace --ranks {min(beside, rank)},{max(beside, rank)}`",
        late.share_ratio,
        late.late_ns,
        late.phase,
    )


def _most(late: Straggler) -> str:
    return f"{time_text(late.phase_ns)} of it" if late.phase_ns else "most of it"


def _how_often(scope: Scope, rank: int, late: Straggler) -> str:
    """In how many of the kept steps the rank was late; empty where no steps were kept."""
    often = scope.value(
        """
        SELECT avg((own_ns - others_ns >= $late_ns)::INTEGER) FROM (
            SELECT max(dur_ns) FILTER (rank = $rank) AS own_ns,
                median(dur_ns) FILTER (rank <> $rank) AS others_ns
            FROM phase_step WHERE phase = $phase GROUP BY span, step
        ) WHERE own_ns IS NOT NULL AND others_ns IS NOT NULL
        """,
        {"late_ns": late.late_ns / 2, "rank": rank, "phase": late.phase},
    )
    return "" if often is None else f", in {ratio_text(often)} of the kept steps"


def _of_recorders(
    scope: Scope, late: Straggler | None, times: Mapping[int, RankTimes]
) -> list[RunFinding]:
    rows: list[Row] = scope.sql(
        f"""
        SELECT kind, list(rank ORDER BY share_ratio DESC NULLS LAST, rank) AS ranks,
            max(share_ratio) AS share_ratio, sum(share_ratio) AS shares,
            arg_max(evidence, coalesce(share_ratio, 0)) AS evidence,
            arg_max(next_step, coalesce(share_ratio, 0)) AS next_step
        FROM (
            SELECT rank, kind, max(share_ratio) AS share_ratio,
                arg_max(evidence, coalesce(share_ratio, 0)) AS evidence,
                arg_max(next_step, coalesce(share_ratio, 0)) AS next_step
            FROM phase_finding WHERE {_not_said_yet(scope, late)} GROUP BY rank, kind
        ) GROUP BY kind ORDER BY kind
        """
    ).to_pylist()
    found = []
    for row in rows:
        ranks, evidence = tuple(row["ranks"]), " ".join((row["evidence"] or "–").split())
        if row["kind"] == _COMMUNICATION and len(ranks) < len(times):
            evidence = f"even on rank {ranks[0]}, which waits least, {evidence}"
        elif len(times) > 1:
            many = "all" if len(ranks) == len(times) else f"{len(ranks)} of {len(times)}"
            evidence = f"on {many} ranks; rank {ranks[0]}: {evidence}"
        weight = (row["shares"] or 0.0) / (
            len(ranks) if row["kind"] == _COMMUNICATION else len(times)
        )
        found.append(
            RunFinding(row["kind"], ranks, row["share_ratio"], evidence, row["next_step"], weight)
        )
    return found


def _not_said_yet(scope: Scope, late: Straggler | None) -> str:
    """SQL: findings that are not but another view of waiting for a late rank.

    Where the all-reduce was timed on all ranks, its time on the one that waits least is what it
    takes; the rest is waiting, on the others.
    """
    conditions = ["true"]
    timed: list[Row] = scope.sql(
        """
        SELECT arg_min(rank, exposed_communication_ns) AS least,
            count(DISTINCT rank) > 1 AND bool_and(exposed_communication_ns IS NOT NULL) AS of_all
        FROM phase WHERE phase = 'step'
        """
    ).to_pylist()
    if timed[0]["of_all"]:
        conditions.append(f"(kind <> '{_COMMUNICATION}' OR rank = {timed[0]['least']})")
    if late is not None and late.phase in _SAME_AS:
        ranks = ", ".join(map(str, late.ranks))
        conditions.append(f"NOT (kind = '{_SAME_AS[late.phase]}' AND rank IN ({ranks}))")
    return " AND ".join(conditions)
