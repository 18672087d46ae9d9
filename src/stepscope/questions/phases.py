"""`phases`: the host's activity in a step, over an entire run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.analysis.job.phase_times import EACH_STEP, IN_WINDOWS, OTHER_STEPS, TOGETHER, by_steps, order, times_of
from stepscope.analysis.job.throughput import throughput_words
from stepscope.base.units import ratio_text, time_text
from stepscope.query.declare import SPAN, Column, by_form, question
from stepscope.query.rows import ArrowTable, answer_rows, noted
from stepscope.query.scope import Scope

if TYPE_CHECKING:
    from stepscope.findings.engine import RankedFinding

_COLUMNS = (
    Column("kind", "text", "what limits the run"),
    Column("rank", "int", "rank it was measured on; of a finding the worst rank"),
    Column("ranks", "int", "ranks on which it was found", "count"),
    Column("phase", "text", "phase, or `step` for the complete step"),
    Column("step", "int", "number of the step, or of the first of a window"),
    Column("steps", "int", "steps that were counted", "count"),
    Column("mean_ns", "float", "mean time on the host per step"),
    Column("skew_ns", "float", "time that the others wait for the rank, per step"),
    Column("share_ratio", "float", "fraction of the mean step"),
    Column("median_ns", "float", "median over the stored steps"),
    Column("p95_ns", "float", "95th percentile over the stored steps"),
    Column("max_ns", "int", "longest of any step", visible=False),
    Column("device_mean_ns", "float", "mean time on the device per step", visible=False),
    Column("over_fastest_ratio", "float", "its mean over that of the fastest rank", ""),
    Column("total_ns", "int", "the complete step"),
    Column("over_median_ratio", "float", "the same over the rank's median of stored steps"),
    Column("memory_bytes", "int", "memory in use after it, where it was read"),
    Column("peak_bytes", "int", "peak of memory in use until then"),
    Column("reserved_bytes", "int", "bytes reserved by a device's allocator, in use or not"),
    Column("input_wait_ns", "int", "waiting for the batch"),
    Column("forward_ns", "int", "forward"),
    Column("backward_ns", "int", "backward"),
    Column("optimizer_ns", "int", "optimizer"),
    Column("residual_ns", "int", "none of the phases"),
    Column("host_to_device_ns", "int", "copying the batch to the device"),
    Column("peak_of", "text", "which memory that is", visible=False),
    Column("first_batch_ns", "float", "mean wait for an epoch's first batch, which is in no step", visible=False),
    # The answer's note contains it, too.
    Column("verdict", "text", "what limits the run, with its evidence", visible=False),
    Column("evidence", "text", "what was measured"),
    Column("next_step", "text", "what to try next", visible=False, advises=True),
    SPAN,
)
_WINDOWS = {"step": EACH_STEP, "window": IN_WINDOWS}
_MUCH_OF_A_STEP = 0.05
"""If timing may take more than this share of the timed step, the note says so."""


@question(
    "phases",
    "Which phase of the step takes the time, over the entire run?",
    _COLUMNS,
    group="steps",
    rests_on=(),
    about="recording",
    parameters=(
        by_form(
            "a row for each phase, stored step, or 20th of the run; or what limits the run",
            "phase",
            *_WINDOWS,
            "verdict",
        ),
    ),
    steps="all",
    fills="Record with `stepscope record --phases -- train.py`, or stepscope.inline.start() in the script.",
)
def phases(scope: Scope, by: str = "phase") -> ArrowTable:
    """Each row is a phase on a rank, after one row for the complete step with its peak memory and the verdict on the
    run. Each moment of the host belongs to the innermost open phase, or to the residual, so that their means add up to
    that of the step. The note says what limits the run, over all ranks.

    The mean step is that of all counted steps, by the clock, timed or not. Medians, percentiles and the longest are of
    the timed steps, and so are the means of phases: `other steps` is by how much the mean of all exceeds that of the
    timed ones, if these lack rare long steps. If the timed ones are longer, because timing takes time or a rare long
    one is among them, each phase is reduced by as much as it changes with its step. A phase that could not be observed
    has no row: it is not 0. With a device, the host's time is that of launching work; `device_mean_ns` is the device's.
    With `--step`, everything is over the chosen stored steps.

    `--by step` has a row for each stored step, with its phases side by side, to see when a run became slow or its
    memory grew; `--by window` the same in 20 windows of the run, as means. Memory is read about every tenth step.

    `--by verdict` has a row for each thing that limits the run: the results of `findings`, with the same verdict first,
    as far as step times, phases and checks suffice for them. [The rules](../findings.md) have the thresholds.

    Phases that ranges mark (`stepscope record --nvtx` under another profiler) are those of the captured steps, on the
    host; a loss module belongs to forward. They have no verdict: `findings` judges the events of such a recording.

    **The rank that the others wait for.** `over_fastest_ratio` compares ranks phase by phase, but an all-reduce inside
    backward makes all backwards equally long, whichever rank is late. So a rank is named, from 5 % of the step on, only
    with evidence: DDP's own timings of the all-reduce, in which the last to arrive waits least; input wait, which is
    never a wait for a rank; or, with four ranks or more, that a few do more than all others before they meet.
    """
    if by in _WINDOWS:
        return scope.sql(by_steps(_WINDOWS[by]))
    findings = _judged(scope)
    if by == "verdict":
        return noted(_findings(findings), "\n".join(_words(ranked) for ranked in findings))
    return noted(_phases(scope, findings), "\n".join(_note(scope, findings)))


def _judged(scope: Scope) -> list[RankedFinding]:
    """What holds the run back, the verdict first; empty if no phase says what limits it."""
    from stepscope.findings.engine import judge
    from stepscope.findings.facts import Facts
    from stepscope.findings.rules import quick

    facts = scope.cached(Facts, lambda: Facts(scope))
    findings = [] if facts.phases is None else judge(facts, quick())
    return findings if findings and findings[0].limits else []


def _phases(scope: Scope, findings: list[RankedFinding]) -> ArrowTable:
    verdict = findings[0].finding if findings else None
    return scope.sql(
        f"""
        SELECT rank, phase, steps, mean_ns, median_ns, p95_ns, max_ns, device_mean_ns,
            mean_ns / nullif(max(mean_ns) FILTER (WHERE phase = 'step') OVER (PARTITION BY rank, span), 0) AS share_ratio,
            CASE WHEN phase <> '{OTHER_STEPS}' THEN mean_ns / nullif(min(mean_ns) OVER (PARTITION BY phase), 0)
                END AS over_fastest_ratio,
            peak_bytes, reserved_bytes, peak_of, first_batch_ns,
            CASE WHEN phase = 'step' THEN $verdict END AS verdict,
            CASE WHEN phase = 'step' THEN $next_step END AS next_step, span
        FROM ({times_of(scope)}) ORDER BY rank, span, {order("phase")}, phase
        """,
        {"verdict": verdict and verdict.title, "next_step": verdict and verdict.advice},
    )


_OF_VERDICT = ("kind", "rank", "ranks", "phase", "skew_ns", "share_ratio", "evidence", "next_step")


def _findings(findings: list[RankedFinding]) -> ArrowTable:
    rows = []
    for ranked in findings:
        of = ranked.finding
        rank, ranks = (of.ranks[0], len(of.ranks)) if of.ranks else (of.rank, None if of.rank is None else 1)
        skew_ns = None if of.phase is None else of.saving_ns
        rows.append((ranked.rule.id, rank, ranks, of.phase, skew_ns, of.share, of.title, of.advice))
    return answer_rows(_COLUMNS, rows, _OF_VERDICT)


def _note(scope: Scope, findings: list[RankedFinding]) -> list[str]:
    lines = [f"Verdict: {_words(findings[0])}"] if findings else []
    if findings[1:]:
        also = ", ".join(_named(ranked) for ranked in findings[1:])
        lines.append(f"Also: {also}. --by verdict has their evidence.")
    (slowest,) = scope.sql(
        "SELECT max(first_batch_ns) AS ns, arg_max(first_batches, first_batch_ns) AS n FROM phase"
    ).to_pylist()
    if slowest["ns"] is not None:
        lines.append(
            f"The first batch of an epoch, which is in no step, took {time_text(slowest['ns'])} on "
            f"average ({slowest['n']} counted)."
        )
    from stepscope.findings.facts import ranks_text

    lines += _timing(scope)
    lines += filter(None, [throughput_words(scope)])
    missing = _missing_ranks(scope)
    if missing:
        ranked = "it" if len(missing) == 1 else "one of them"
        lines.append(f"No phases of {ranks_text(missing)} are recorded: the others may wait for {ranked}.")
    return lines


def _timing(scope: Scope) -> list[str]:
    """Says what timing costs, if that is why not every step is timed, and which steps do not count."""
    (row,) = scope.sql(
        f"""
        SELECT arg_max(phase.timed_every, phase.timing_ns) AS every, max(phase.timing_ns) AS ns,
            arg_max(times.mean_ns, phase.timing_ns) AS step_ns,
            sum(phase.disturbed_steps)::BIGINT AS disturbed, sum(phase.unobserved_steps)::BIGINT AS unobserved,
            coalesce((SELECT bool_or(weight > 1) FROM phase_step), true) AS left_out
        FROM phase LEFT JOIN ({times_of(scope)}) times USING (rank, span, phase) WHERE phase = 'step'
        """
    ).to_pylist()
    lines = []
    # In a run that ends with the first steps, all are.
    if (row["every"] or 1) > 1 and row["ns"] is not None and row["left_out"]:
        step_ns = row["step_ns"] or 0
        timing_ratio = row["ns"] / max(row["ns"] + step_ns, 1)
        contains = f" Up to {ratio_text(timing_ratio)} of a timed step is timing itself."
        lines.append(
            f"One in {row['every']} steps is timed: timing one takes {time_text(row['ns'])}, "
            f"{ratio_text(row['ns'] / max(step_ns * row['every'], 1))} of {row['every']} mean steps."
            f"{contains if timing_ratio >= _MUCH_OF_A_STEP else ''}"
        )
    lines += _other_steps(scope)
    for count, why in (
        (row["disturbed"], "a profiler ran or wrote its file, or the recording looked for what to measure"),
        (row["unobserved"], "another model was trained in place of the one before, and had to be found"),
    ):  # fmt: skip
        if count:
            lines.append(f"{count} step{'s are' if count > 1 else ' is'} in no mean: {why}.")
    return lines


def _other_steps(scope: Scope) -> list[str]:
    """Says how the timed steps differ from all, for the rank where they differ most."""
    rows = scope.sql(
        f"""
        SELECT sum({TOGETHER}) / sum(weight) AS mean_ns, sum(dur_ns * weight) / sum({TOGETHER}) - 1 AS part
        FROM phase_step WHERE phase = 'step' GROUP BY rank, span ORDER BY abs(part) DESC LIMIT 1
        """
    ).to_pylist()
    part = rows[0]["part"] if rows else None
    if part is None or abs(part) < _MUCH_OF_A_STEP:
        return []
    why = "rare long steps were not timed, and nothing is known of their phases."
    if part > 0:
        why = "timing makes them longer, or more of the long ones were timed. That is taken out of their phases."
    more, mean = "more" if part > 0 else "less", time_text(rows[0]["mean_ns"])
    return [f"The timed steps take {ratio_text(abs(part))} {more} than the mean step of all, {mean}: {why}"]


def _missing_ranks(scope: Scope) -> tuple[int, ...]:
    """Ranks of the job without phases; empty if ranks were chosen, or no rank has any."""
    if scope.ranks != scope.store.ranks:
        return ()
    size = scope.value("SELECT max(world_size) FROM rank") or 0
    recorded = {row["rank"] for row in scope.sql("SELECT DISTINCT rank FROM phase").to_pylist()}
    # Files are untrusted: a job with more ranks than could be listed is ignored.
    is_listed = recorded and size < 1 << 20
    return tuple(rank for rank in range(size) if rank not in recorded) if is_listed else ()


def _words(ranked: RankedFinding) -> str:
    return f"{ranked.finding.title}. Next: {ranked.finding.advice}"


def _named(ranked: RankedFinding) -> str:
    share = ranked.finding.share
    return ranked.rule.id if share is None else f"{ranked.rule.id} ({ratio_text(share)})"
