"""The ranks that the others wait for in collectives, and what these did meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from stepscope.base.units import ratio_text, time_text
from stepscope.query.declare import STEP, Column, by_form, question
from stepscope.query.rank_exclusion import damaged_ranks, ranks_text
from stepscope.query.rows import ArrowTable, answer_dicts, noted
from stepscope.query.scope import Scope
from stepscope.query.script import script_of

if TYPE_CHECKING:
    from stepscope.analysis.ranks.skew import RankSkew

_OF_CAUSES = (
    ("input_ns", "it waited longer for its DataLoader"),
    ("computation_ns", "its kernels computed longer"),
    ("copies_ns", "its copies took longer"),
    ("communication_ns", "its other collectives took longer, waits excluded"),
    ("garbage_collection_ns", "Python collected garbage longer"),
    ("compilation_ns", "it compiled longer"),
    ("host_ns", "operators, Python and runtime calls took longer while its device had nothing to do"),
    ("profiler_ns", "its profiler worked longer"),
    ("not_recorded_ns", "nothing was recorded for longer"),
    ("before_ns", "it lies before its recording starts"),
)
_COLUMNS = (
    Column("rank", "int", "rank that others waited for"),
    STEP,
    Column("cause", "text", "what it did longer than those that waited for it"),
    Column("start_ns", "int", "when the late rank arrived, since the run's start", moment=True),
    Column("operation", "text", "all_reduce, all_gather, reduce_scatter, all_to_all, ..."),
    Column("group", "text", "name of the process group"),
    Column("message_bytes", "int", "size of its message, as nccl-tests counts it"),
    Column("late", "bool", "whether it is a straggler, as in `findings`"),
    Column("last", "int", "collectives at which it arrived last", "count"),
    Column("last_ratio", "float", "fraction of its collectives whose last rank is known"),
    Column("waited_by_others_ns", "int", "waits of all others for it"),
    Column("charged_ns", "int", "cost of these waits by origin, without waits that it only passed on", sums=True),
    Column("skew_ns", "float", "mean loss of one of the others per step", sums=True),
    Column("step_ratio", "float", "fraction of the mean step"),
    Column("share_ratio", "float", "fraction of all that the rank did longer"),
    Column("max_ns", "int", "longest wait of a rank"),
    Column("max_rank", "int", "that rank"),
    Column("waited_ns", "int", "its waits for all others"),
    Column("why", "text", "what it did longer than those that waited for it", sums=True),
    *(Column(name, "int", f"part of charged_ns: {what}", "ns", visible=False) for name, what in _OF_CAUSES),
)
_CAUSES = tuple(name for name, _ in _OF_CAUSES)
_FORMS = {
    "rank": (
        "rank", "late", "last", "last_ratio", "waited_by_others_ns", "charged_ns", "skew_ns", "step_ratio",
        "waited_ns", "why", *_CAUSES,
    ),
    "step": ("rank", "step", "charged_ns", *_CAUSES),
    "cause": ("rank", "cause", "charged_ns", "skew_ns", "step_ratio", "share_ratio", "why"),
    "collective": (
        "rank", "step", "start_ns", "operation", "group", "message_bytes", "waited_by_others_ns", "max_ns",
        "max_rank", "cause",
    ),
}  # fmt: skip
_LITTLE = 0.01
"""By cause, ranks charged with less than this share of all waits have no row, nor causes below this share of theirs."""


@question(
    "stragglers",
    "Which ranks do the others wait for in collectives, and why are these late?",
    _COLUMNS,
    group="ranks",
    rests_on=(
        "host-times", "devices", "device-work", "device-times", "kernel-names", "clocks", "steps", "across-ranks",
    ),
    about="time",
    drawing="text",
    parameters=(by_form("a row a rank; a rank and step; a rank and cause; or a collective", *_FORMS),),
    fills="Record every rank of the job: `stepscope record --trace -- train.py`.",
)  # fmt: skip
def stragglers(scope: Scope, by: str = "rank") -> ArrowTable:
    """Each row is a rank; the one that costs the others most comes first. The question uses collectives that were
    matched over ranks and whose last rank is known (`collective.last_rank`): a difference below the uncertainty of the
    clocks is ignored. Steps that means leave out are left out.

    `waited_by_others_ns` adds up how long each of the others waited in collectives at which the rank arrived last.
    `charged_ns` is the part that cost them time: a collective overlaps computation, and a wait costs nothing until the
    rank stalls for it. Each bucket of a gradient waits for a late rank, but the cost counts once. Without its waits, a
    rank's collectives would follow one another as it launches them; its loss is how much sooner it would have
    continued, at most its stall, and together with earlier waits at most how far its host was ahead. Waits are followed
    to their origin: if rank B is late because it had waited for rank A in another group, that cost is charged to A.
    Over all ranks, charges add up to the cost of waits. If too few of the waits that others depend on are known,
    nothing is followed; a note says so. `skew_ns` is what one of the others loses by it in a mean step.

    A rank is **late**, a straggler, if its cost, without time before its recording, is at least 5 % of the step and at
    least three quarters of the largest cost of a rank, as long as this is true for at most half of the ranks;
    `findings` and `what-if` name the same ranks.

    **Why.** The late rank is compared with each rank that waited, from the end of the previous collective that both
    left together (all-reduce, all-gather, reduce-scatter, all-to-all, barrier, a send whose receiver was there) and the
    other stalled for, to its arrival, each by its own clock. The two durations differ by the wait. Each is divided
    completely, a moment going to the first that applies: computation, copies, communication, waiting for the
    DataLoader, garbage collection (recorded by torch's `record_python_gc_info`), compilation (Dynamo's timed phases),
    the profiler's own work, other work of the host, nothing recorded. So the columns of causes add up to `charged_ns`;
    one is negative if the late rank took less time for it. Shares are relative to what it did longer. `why` names the
    causes that make up most of that, and the kernels or operators that took longer.

    Two causes are not in the recording: the time before it starts (ranks do not start recording at the same time, so a
    first collective often waits), and time in which nothing was recorded. A host that fell behind stays behind for a
    while, because the others went on while they waited: its operators then count as the cause although they are no
    slower.

    Holistic Trace Analysis takes the start of one kind of kernel, by its name; TraceLens adds up waits by the order of
    collectives, without clocks, and shows neither their origin nor their cause.
    """
    from stepscope.analysis.ranks.skew import find_skew

    skew = find_skew(scope)
    names = _FORMS[by]
    if skew is None or not skew.collectives:
        return noted(answer_dicts(_COLUMNS, (), names), _no_waits(scope))
    forms = {"rank": _by_rank, "step": _by_step, "cause": _by_cause, "collective": _by_collective}
    rows = [row for row in forms[by](scope, skew) if row["rank"] in scope.ranks]
    answer = answer_dicts(_COLUMNS, rows, names)
    return noted(answer, _note(scope, skew))


def _by_rank(scope: Scope, skew: RankSkew) -> Iterator[dict[str, Any]]:
    from stepscope.analysis.ranks.delay_cause import explain_delay
    from stepscope.analysis.ranks.straggler import LATE_ABOVE, late_in_collectives

    late_ranks = late_in_collectives(skew)
    requested_ns = skew.wait_ns * skew.requested
    directly, waited = skew.by_rank(requested_ns), skew.by_rank(requested_ns, of=skew.waiter)
    charged = skew.by_rank(skew.charged_ns)
    for rank in sorted(charged, key=lambda rank: (-round(charged[rank].sum()), rank)):
        last = skew.last.get(rank, 0)
        row = _charged(skew, charged[rank].tolist())
        ratio = row["step_ratio"]
        yield {
            "rank": rank,
            "late": None if ratio is None else late_ranks is not None and rank in late_ranks.ranks,
            "last": last,
            "last_ratio": last / skew.attended[rank] if skew.attended.get(rank) else None,
            "waited_by_others_ns": int(directly[rank]),
            **row,
            "waited_ns": int(waited[rank]),
            "why": explain_delay(scope, skew, rank) or None if ratio is None or ratio >= LATE_ABOVE else None,
        }


def _charged(skew: RankSkew, causes: list[float]) -> dict[str, Any]:
    """Integer ns that add up."""
    integers = [round(ns) for ns in causes]
    skew_ns = skew.per_step(sum(integers))
    step_ns = skew.step_ns
    return {
        "charged_ns": sum(integers),
        "skew_ns": skew_ns,
        "step_ratio": skew_ns / step_ns if step_ns else None,
        **dict(zip(_CAUSES, integers, strict=True)),
    }


def _by_step(scope: Scope, skew: RankSkew) -> Iterator[dict[str, Any]]:  # noqa: ARG001
    import numpy as np

    keys, of = np.unique(np.stack([skew.late, skew.step], axis=1), axis=0, return_inverse=True)
    sums = np.zeros((len(keys), len(_CAUSES)))
    np.add.at(sums, of.ravel(), skew.charged_ns)
    for (rank, step), causes in zip(keys.tolist(), sums.tolist(), strict=True):
        yield {"rank": rank, "step": None if step < 0 else step, **_charged(skew, causes)}


def _by_cause(scope: Scope, skew: RankSkew) -> Iterator[dict[str, Any]]:
    from stepscope.analysis.ranks.delay_cause import cause_shares, slower_names
    from stepscope.analysis.ranks.skew import CAUSES

    charged = skew.by_rank(skew.charged_ns)
    waited = int(skew.wait_ns[skew.requested].sum())
    for rank in sorted(charged, key=lambda rank: -charged[rank].sum()):
        total_ns = charged[rank].sum()
        if total_ns <= _LITTLE * waited:
            break
        shares = cause_shares(charged[rank])
        for place in (-charged[rank]).argsort(kind="stable").tolist():
            ns = charged[rank][place]
            if abs(ns) < _LITTLE * total_ns:
                continue
            skew_ns = skew.per_step(ns)
            yield {
                "rank": rank,
                "cause": CAUSES[place],
                "charged_ns": round(ns),
                "skew_ns": skew_ns,
                "step_ratio": skew_ns / skew.step_ns if skew.step_ns else None,
                "share_ratio": float(shares[place]) if ns > 0 else None,
                "why": ", ".join(slower_names(scope, skew, rank, CAUSES[place])) or None,
            }


_COLLECTIVES = """
    SELECT match_id, any_value(operation) AS operation, any_value(group_name) AS "group",
        any_value(bytes) AS message_bytes
    FROM collective WHERE match_id IN (SELECT unnest($match::BIGINT[])) GROUP BY match_id
"""


def _by_collective(scope: Scope, skew: RankSkew) -> Iterator[dict[str, Any]]:
    """Each collective that a rank waited in, the longest waits first."""
    import numpy as np

    from stepscope.analysis.ranks.skew import CAUSES

    requested = np.flatnonzero(skew.requested)
    matches, of = np.unique(skew.match[requested], return_inverse=True)
    with Scope(scope.store, all_times=True) as full_scope:
        rows_of_matches = full_scope.sql(_COLLECTIVES, {"match": matches.tolist()}).to_pylist()
    facts = {row["match_id"]: row for row in rows_of_matches}
    waited = np.bincount(of, skew.wait_ns[requested], minlength=len(matches))
    for number in np.lexsort((matches, -waited)).tolist():
        rows = requested[of == number]
        longest = rows[skew.wait_ns[rows].argmax()]
        step = int(skew.step[longest])
        yield {
            "rank": int(skew.late[longest]),
            "step": None if step < 0 else step,
            "start_ns": int(skew.late_end[longest]),
            **{name: facts[int(matches[number])][name] for name in ("operation", "group", "message_bytes")},
            "waited_by_others_ns": int(waited[number]),
            "max_ns": int(skew.wait_ns[longest]),
            "max_rank": int(skew.waiter[longest]),
            "cause": CAUSES[int(skew.causes_ns[rows].sum(axis=0).argmax())],
        }


def _no_waits(scope: Scope) -> str:
    ranks, size = scope.store.ranks, scope.value("SELECT max(world_size) FROM rank")
    if len(ranks) > 1:
        return (
            f"No collective is matched over the {len(ranks)} recorded ranks, so that nothing tells who waited for whom: "
            "`stepscope checks SRC`."
        )
    of = f" of {size}" if size and size > 1 else ""
    return (
        f"One rank{of} is in this recording, rank {ranks[0]}, and who waits for whom takes several: record every rank "
        f"of the job (`stepscope record --trace -- {script_of(scope)}`). Those recorded more than ten minutes apart, by their own "
        "clocks, are taken for jobs of their own."
    )


def _note(scope: Scope, skew: RankSkew) -> str:
    from stepscope.analysis.ranks.collectives import LACKS_RANKS

    with Scope(scope.store, all_times=True) as full_scope:
        damaged = damaged_ranks(full_scope)
        lacking = full_scope.value(
            f"SELECT count(DISTINCT match_id) FROM collective WHERE match_id IS NOT NULL AND {LACKS_RANKS}"
        )
    undecided = skew.undecided
    number = skew.collectives
    were = "collective was" if number == 1 else "collectives were"
    lines = [f"{number} {were} matched over {len(skew.ranks)} ranks"]
    if undecided:
        reason = "the clocks do not tell who arrived last"
        reason += ", or it was a rank that is left out" if damaged else ""
        lines.append(f"for {undecided} of them {reason}, and no rank is charged")
    if lacking:
        lines.append("some lack a rank of their group, which may be the one that the others waited for")
    if damaged:
        lines.append(f"{ranks_text(damaged)}, whose recording is damaged, left out")
    if not skew.followed:
        lines.append("waits cannot be followed to their origin and stay with the rank that came last")
    return f"{'; '.join(lines)}. {_named(skew, 'No recorded rank' if lacking else 'No rank')}".strip()


def _named(skew: RankSkew, none: str) -> str:
    """Names the straggler, or says how far the latest rank is from being one; empty if no step is marked."""
    from stepscope.analysis.ranks.skew import CAUSES
    from stepscope.analysis.ranks.straggler import LATE_ABOVE, late_in_collectives, recorded_skew

    if not skew.step_ns:
        return ""
    straggler, late = late_in_collectives(skew), recorded_skew(skew)
    rank = max(late, key=lambda late_rank: late[late_rank])
    ratio = late[rank] / skew.step_ns
    charged = skew.by_rank(skew.charged_ns)[rank]
    before_ns = skew.per_step(charged[CAUSES.index("before the recording")])
    before = f"; {time_text(before_ns)} more lie before its recording starts, and are not counted"
    before = before if round(before_ns) > 0 else ""
    if straggler is not None:
        do, others = "do" if len(straggler.ranks) > 2 else "does", straggler.ranks[1:]
        also = f", as {do} {ranks_text(others)} nearly" if others else ""
        return f"Rank {rank} is a straggler: it costs each of the others {time_text(late[rank])} of a step, {ratio_text(ratio)}{also}{before}."
    if ratio <= 0:
        return ""
    why_not = "more than half of the ranks nearly as much"
    if ratio < LATE_ABOVE:
        why_not = f"a straggler {ratio_text(LATE_ABOVE)} or more"
    costs = f"rank {rank} costs the others most, {ratio_text(ratio)} of a step"
    return f"{none} is a straggler: {costs}, and {why_not}{before}."
