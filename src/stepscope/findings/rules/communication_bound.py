"""`communication-bound`: ranks communicate, or wait for each other, and nothing else runs."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.analysis.ranks.collectives import LACKS_RANKS
from stepscope.base.units import ratio_text, time_text
from stepscope.findings.declare import Finding, of_step, rule, worth
from stepscope.findings.facts import Facts, Row, first, ranks_text

_SHARE = worth(
    "exposed communication", 0.10, "TensorBoard profiler plugin: communication > 10 % of the step (TraceLens: > 5 %)"
)
_MUCH = 0.25
"""If an operation has this share of all communication, its cure is named."""
_MEASURED = 0.9
"""The share of the collectives' time that must be measured before waiting is mentioned."""
_UNSURE = 0.1
"""The share of it that the uncertainty of the clocks may hide."""
_UNRECORDED = 0.05
"""From this share on, waiting for unrecorded causes is mentioned."""
_EXCHANGES = frozenset({"all_to_all", "send_recv"})
_MESSAGES = frozenset({"send", "recv"})
_SHARDED = frozenset({"all_gather", "reduce_scatter"})
_INFERENCE = ("fewer ranks to a layer", "smaller types", "overlapping parts of the batch")


@rule(
    "communication-bound",
    "Communication that no computation hides.",
    _SHARE,
    trade_off="Kernels that overlap communication share multiprocessors and memory bandwidth with it and take longer.",
    rests_on=("device-times",),
    silent_without=("device-work",),
)
def communication_bound(facts: Facts) -> Iterator[Finding]:
    """The time in which communication kernels ran, or the host was in a collective, and nothing computed or copied. It
    includes both the transfer and waiting for late ranks, which one rank's recording cannot separate. If all ranks were
    recorded and nine tenths of the collectives' time are matched over them, the finding says how much of that time was
    waiting for the last rank. Waiting for ranks that `straggling-rank` names is that loss, and not counted here.
    Profilers do not start at the same time on all ranks, which may cause waiting for what a late rank did before its
    recording starts; the finding says so, and has low confidence if that is most of it.

    For phases it is the part of backward that DDP's own timings found exposed; if all ranks have timings, on the rank
    that waits least: more of it on another is waiting for late ranks.

    At most all of it can be saved.
    """
    exposed_ns = max(0, facts.time("communication") - round(facts.waited_for_late_ns))
    share = facts.part_of_step(exposed_ns)
    if share <= _SHARE.value:
        return
    rows = facts.by_recording("communication")
    operations, source = _by_operation(facts), ""
    if facts.phases_alone is not None:
        source = ", by DDP's own timings of the all-reduce"
        if len(rows) < len(facts.phases_alone.ranks):
            source += f", even on rank {rows[0]['rank']}, which waits least"
    whose = "each rank's" if _several(facts) else "each step's"
    yield of_step(
        "loss",
        share,
        "exposed communication, of the step",
        title=f"Communication-bound: {facts.amount(exposed_ns)} is communication, or waiting for other ranks, that no "
        f"computation overlaps{_other_waits(facts)}{source}{_largest_operation(facts, operations)}{_before(facts, exposed_ns)}",
        saving_ns=exposed_ns,
        lost_on="job",
        confidence="low" if 2 * facts.waited_unrecorded_ns > exposed_ns else facts.confidence,
        evidence=(*first(rows, 8), *first(operations)),
        rank=rows[0]["rank"] if len(rows) > 1 or source else None,
        advice=f"{facts.parts_command} for {whose} part. {_less(facts, operations)} {_uneven(facts, operations)}",
        query=facts.parts_query if facts.per == "step" else "stepscope device-time SRC",
        ranks=facts.on_ranks("communication", _SHARE.value)[1],
    )


def _other_waits(facts: Facts) -> str:
    """Says which waiting is not counted."""
    if facts.late is None or not facts.waited_for_late_ns:
        return ""
    return f", besides waiting for {ranks_text(facts.late.ranks)} ({time_text(facts.waited_for_late_ns)})"


def _before(facts: Facts, exposed_ns: float) -> str:
    """Says how much of it has its cause before a recording starts."""
    unrecorded_ns = facts.waited_unrecorded_ns
    if unrecorded_ns <= _UNRECORDED * exposed_ns:
        return ""
    return f"; {time_text(unrecorded_ns)} of it for what late ranks did before their recordings start"


def _by_operation(facts: Facts) -> list[Row]:
    """Collectives of the counted steps by operation and process group, per step: those with the most exposed time
    first, or, if that is unknown, with the most time.

    `wait_ns` is how long ranks waited for the last one, if that was measured for all of them, on all ranks.
    """
    if facts.phases_alone is not None:
        return []
    return facts.host(
        f"""
        SELECT operation, coalesce(group_description, group_name) AS "group",
            count(*) / {facts.steps} AS calls_per_step, sum(dur_ns) / {facts.steps} AS time_ns,
            sum(exposed_ns) / {facts.steps} AS exposed_ns,
            CASE WHEN count(wait_ns) = count(*) AND NOT bool_or({LACKS_RANKS}) THEN sum(wait_ns) / {facts.steps} END AS wait_ns
        FROM collective AS c JOIN (
            SELECT rank AS on_rank, id AS event_id, dur_ns FROM device_event WHERE {{counted}}
            UNION ALL
            SELECT rank, id, dur_ns FROM host_event WHERE role = 'communication' AND {{counted}}
        ) ON (on_rank, event_id) = (c.rank, coalesce(c.id, c.host_id))
        WHERE operation IS NOT NULL GROUP BY ALL
        ORDER BY exposed_ns DESC NULLS LAST, time_ns DESC, operation, "group"
        """
    )


def _largest_operation(facts: Facts, operations: list[Row]) -> str:
    """Names the operation with most of it, and how much of it was waiting."""
    by = "exposed_ns" if all(row["exposed_ns"] is not None for row in operations) else "time_ns"
    total = sum(row[by] for row in operations)
    if not total:
        return ""
    largest = operations[0]
    part = ratio_text(largest[by] / total)
    group = f" of group {largest['group']}" if len({row["group"] for row in operations}) > 1 else ""
    words = "exposed time" if by == "exposed_ns" else "time"
    waited = _waiting(facts, operations)
    last = "" if waited is None else f"; {ratio_text(waited)} of their time is waiting for the last rank"
    return f"; {largest['operation']}{group} has {part} of the collectives' {words}{last}"


def _waiting(facts: Facts, operations: list[Row]) -> float | None:
    """The share of the collectives' time in which ranks waited for the last; None if it is not measured for nearly all
    of it, or if the clocks are too imprecise: a wait shorter than their error counts as none.
    """
    total = sum(row["time_ns"] for row in operations)
    measured_rows = [row for row in operations if row["wait_ns"] is not None]
    measured = sum(row["time_ns"] for row in measured_rows)
    off = 2 * (facts.scope.value("SELECT max(clock_uncertainty_ns) FROM rank") or 0)
    unsure = off * sum(row["calls_per_step"] for row in measured_rows)
    if not total or measured < _MEASURED * total or unsure > _UNSURE * measured:
        return None
    return sum(row["wait_ns"] for row in measured_rows) / measured


def _less(facts: Facts, operations: list[Row]) -> str:
    """Says what hides or shortens the communication of such a job, by its largest operation."""
    cures: list[str] = []
    total = sum(row["time_ns"] for row in operations)
    large = {row["operation"] for row in operations if row["time_ns"] > _MUCH * total}
    if large & _EXCHANGES:
        cures.append(
            "exchange a part of the batch while another is computed, and fetch what the next batch needs ahead of time "
            "(for embeddings TorchRec's TrainPipelineSparseDist)"
        )
    if not facts.trains:
        return f"Overlap it: {'; '.join([*cures, *_INFERENCE])}."
    ddp = facts.has_called("DistributedDataParallel.")
    fsdp = facts.has_called("FSDP::", "FullyShardedDataParallel.")
    if (ddp or not fsdp) and (not large or "all_reduce" in large):
        narrow = "bf16" if facts.has_bfloat16 else "fp16"
        cures.append(
            "DistributedDataParallel with larger or smaller bucket_cap_mb, gradient_as_bucket_view=True and "
            f"static_graph=True; {narrow} compression hooks"
        )
    if (fsdp or not ddp) and (not large or large & _SHARDED):
        cures.append("FSDP with backward prefetch")
    if large & _MESSAGES:
        cures.append("more, smaller microbatches or an interleaved schedule, where ranks are stages of a pipeline")
    if not large or large - _EXCHANGES - _MESSAGES:
        cures.append("no_sync() while gradients accumulate")
    return f"Overlap it: {'; '.join(cures)}."


def _several(facts: Facts) -> bool:
    return facts.phases_alone is not None or len(facts.scope.ranks) > 1


def _uneven(facts: Facts, operations: list[Row]) -> str:
    waited = _waiting(facts, operations)
    if waited is not None and waited > 0.5:
        return (
            "Most of the collectives' time is waiting for the last rank: balance the ranks' work first "
            "(`stepscope stragglers SRC` names the late ones)."
        )
    if waited is not None:
        return "`stepscope communication SRC` has sizes, bandwidths and waits."
    if _several(facts):
        return "If one rank waits much longer than the others, balance their work instead."
    return "Record all ranks to see whether one is late; if so, balance their work instead."
