"""`diff`: what got slower or faster between two recordings, by how much, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from stepscope.analysis.counted import left_out_of_means
from stepscope.analysis.job.throughput import rates
from stepscope.analysis.recording import marks_steps
from stepscope.base.errors import SourceError
from stepscope.base.units import plural, ratio_text, time_text
from stepscope.compare.rows import COLUMNS, COUNTED_CALLS, PROFILED_STEP, compare_rows, finish, row_of
from stepscope.compare.settings import differing, settings_of
from stepscope.compare.sides import ANSWERED_LIKE, Side, offered, read_side
from stepscope.compare.throughput import throughput_compared
from stepscope.compare.tree import Tree, read_tree
from stepscope.compare.tree_rows import diff_trees
from stepscope.formats.evidence import EVERYTHING
from stepscope.query.declare import Parameter, question
from stepscope.query.rank_exclusion import without_damaged_ranks
from stepscope.query.rows import ArrowTable, noted

if TYPE_CHECKING:
    from stepscope.query.scope import ComparedRun

_BY_DEFAULT = ("category", "label", "phase", "operator", "kernel")
_WITHIN = " Intervals (±) reflect how steps scatter within each recording; two runs may differ by more."

ERRORS = {
    "recorded-differently": (
        "`diff` was given two recordings that cannot be compared: one is a trace and the other has phases, say, or one has "
        "a device and the other has not, or what `--by` asks for is not in both. The message says what each has. Record "
        "both in the same way, or choose with `--by` something that both have."
    )
}


@question(
    "diff",
    "What got slower or faster, and how sure is that?",
    COLUMNS,
    group="compare",
    rests_on=EVERYTHING,
    about={
        None: "time",
        "category": "time",
        "tree": "recording",
        "operator": "events",
        "kernel": "events",
        "module": "events",
        "label": "recording",
        "phase": "recording",
    },
    parameters=(
        Parameter(
            "by",
            "text",
            "what is compared; by default phases of steps without the profiler, category, label or phase, as both have it",
            None,
            tuple(ANSWERED_LIKE),
            form=True,
        ),
    ),
    drawing="comparison",
    recordings="two",
    gates=True,
    fills="Record both in the same way.",
)
def diff(recordings: Sequence[ComparedRun], by: str | None = None) -> ArrowTable:
    """Compares two recordings: what got slower or faster, and how certain that is.

    The first row is the complete step, the others are its parts, the largest changes first: for traces what a step
    consists of (category), operators, kernels or modules, or all of them as one tree in which parts add up; for inline
    measurements their labels; for phases the phases. Times are means per step and averages over ranks. Each change has
    a 95 % interval with steps as samples; if it contains 0 the change is unclear. A rank that is damaged on one side is
    left out on both.

    [What got slower or faster](../diff.md) has examples, and explains what intervals cover and how a CI job fails on a
    change.
    """
    with without_damaged_ranks(recordings, same_ranks=True) as (valid, left_out):
        return _compared(valid, by, left_out)


def _compared(recordings: Sequence[ComparedRun], by: str | None, left_out: str) -> ArrowTable:
    from stepscope.questions import find

    chosen = _chosen(recordings, by)
    before, after = (
        read_tree(compared.scope) if chosen == "tree" else read_side(compared.scope, chosen) for compared in recordings
    )
    if chosen not in ("label", "phase"):
        marked = [marks_steps(recording.scope) for recording in recordings]
        words = "has steps", "has none, so that the complete recording would be one step"
        _require_same(recordings, marked, words, "call profiler.step() after each step in both")
    on_device = [side.of != "host work" for side in (before, after)]
    hint = "record both with the same activities, or compare --by category"
    _require_same(recordings, on_device, ("has device work", "has only the host"), hint)
    note = _note(before, after, recordings, chosen)
    if chosen in ("category", "tree") and before.of == "step" and _both_unprofiled(recordings):
        before, after = (replace(side, of=PROFILED_STEP) for side in (before, after))
    if isinstance(before, Tree) and isinstance(after, Tree):
        rows = diff_trees(before, after)
    else:
        rows = compare_rows(cast("Side", before), cast("Side", after), chosen)
    sure = rows.num_rows - rows["ci95_low_ns"].null_count
    note += _WITHIN if sure else ""
    done = throughput_compared(*(rates(recording.scope) for recording in recordings))
    note = "\n".join(filter(None, (left_out, note, *done, _settings(recordings))))
    answered_like = ("steps", "modules") if chosen == "tree" else (ANSWERED_LIKE[chosen],)
    rests_on = dict.fromkeys(kind for name in answered_like for kind in find(name).rests_on)
    return noted(rows, note, rests_on=rests_on)


def _chosen(recordings: Sequence[ComparedRun], by: str | None) -> str:
    offers_of_each = [offered(recording.scope) for recording in recordings]
    for name in _BY_DEFAULT if by is None else (by,):
        if all(name in offers for offers in offers_of_each):
            profiled = by is None and name == "category"
            return "phase" if profiled and _both_unprofiled(recordings) else name
    described = [
        f"{recording.role} ({recording.name}) has {', '.join(offers) or 'nothing to compare'}"
        for recording, offers in zip(recordings, offers_of_each, strict=True)
    ]
    common = [name for name in offers_of_each[0] if name in offers_of_each[1]]
    problem = "were not recorded alike" if by is None else f"cannot be compared by {by}"
    cure = f"compare --by {common[0]}, or record both with what it needs" if common else "record both in the same way"
    raise SourceError(f"the two {problem}: {'; '.join(described)}", hint=cure, slug="recorded-differently")


_UNPROFILED = """
    SELECT coalesce(min(steps), 0)
    FROM (SELECT count(*) FILTER (phase = 'step') AS steps FROM phase_step GROUP BY rank)
"""
_FOR_AN_INTERVAL = 2


def _both_unprofiled(recordings: Sequence[ComparedRun]) -> bool:
    """Whether both have enough steps without the profiler, which slows those in a trace. They are unknown for a part."""
    return all(
        not recording.scope.part
        and "phase" in offered(recording.scope)
        and recording.scope.value(_UNPROFILED) >= _FOR_AN_INTERVAL
        for recording in recordings
    )


def _require_same(recordings: Sequence[ComparedRun], has: list[bool], words: tuple[str, str], hint: str) -> None:
    if has[0] == has[1]:
        return
    described = "; ".join(
        f"{recording.role} ({recording.name}) {words[0] if present else words[1]}"
        for recording, present in zip(recordings, has, strict=True)
    )
    raise SourceError(f"the two were not recorded alike: {described}", hint=hint, slug="recorded-differently")


def _note(before: Side | Tree, after: Side | Tree, recordings: Sequence[ComparedRun], by: str) -> str:
    def samples_of(side: Side | Tree) -> str:
        ranks = f"{side.ranks} {plural(side.ranks, 'rank')}"
        if side.total is None or not side.total.timing.samples:
            return ranks
        steps = side.total.timing.samples
        step = "iteration" if by == "label" else "step"
        return f"{steps} {plural(steps, step)} of {ranks}"

    names = [recording.name for recording in recordings]
    words = [f"before: {names[0]}, {samples_of(before)}; after: {names[1]}, {samples_of(after)}."]
    if by not in ("label", "phase") and not marks_steps(recordings[0].scope):
        words.append("No steps were found: each recording counts as one.")
    if by not in ("label", "phase"):
        words += [_not_the_same_step(recordings), _without_profiler(recordings)]
        words += [
            f"{recording.role.capitalize()}: {left_out}"
            for recording in recordings
            if (left_out := left_out_of_means(recording.scope))
        ]
        words.append(_step_itself(recordings) if before.of == "device work" else "")
    if by == "phase":
        words.append(_measured_in_one(recordings))
        if all("category" in offered(recording.scope) for recording in recordings):
            words.append(
                "These steps ran without the profiler, which slows those in the traces; "
                "--by category and --by tree compare those."
            )
    if before.ranks > 1 or after.ranks > 1:
        words.append("Times are per step and averaged over ranks.")
    if by == "label":
        words.append("Events may overlap or lie inside one another: changes do not add up.")
    elif by == "tree" and before.of == "step":
        words.append("Each moment of a step is in one row: work that other work hides takes none.")
    elif by == "tree" or by in COUNTED_CALLS:
        words.append(
            "Durations are summed: what runs at once counts twice."
            if before.of == "device work"
            else "No device was recorded: times are the host's self times."
        )
    return " ".join(filter(None, words))


def _step_itself(recordings: Sequence[ComparedRun]) -> str:
    """Says how the step changed, in which work may hide other work; empty for a part or without steps."""
    if any(recording.scope.part or not marks_steps(recording.scope) for recording in recordings):
        return ""
    before, after = (read_side(recording.scope, "category").total for recording in recordings)
    if before is None or after is None:
        return ""
    step = row_of("step", before, after)
    finish(step, adds_up=True)
    took = f"{time_text(step['before_ns'])} → {time_text(step['after_ns'])}"
    return f"The step itself, where work may hide other work: {took}, {step['verdict']} (--by category)."


def _without_profiler(recordings: Sequence[ComparedRun]) -> str:
    if not _both_unprofiled(recordings):
        return ""
    took = [read_side(recording.scope, "phase").total for recording in recordings]
    described = " → ".join(time_text(round(total.timing.mean_ns)) for total in took if total is not None)
    return (
        f"These steps are the profiled ones, which the profiler slows: without it one takes {described} (--by phase)."
    )


_ARMED = """
    SELECT bool_or(armed) AS measured,
        (SELECT max((metadata->>'$.overhead.ratio_high')::DOUBLE) FROM source) AS most
    FROM inline_timing WHERE kind = 'iteration' AND NOT averaged
"""


def _measured_in_one(recordings: Sequence[ComparedRun]) -> str:
    """Says if events were measured in the steps of only one of the two, and how much that adds at most; else empty."""
    measured = {recording.role: recording.scope.sql(_ARMED).to_pylist()[0] for recording in recordings}
    armed = {role: row["most"] for role, row in measured.items() if row["measured"]}
    if len(armed) != 1:
        return ""
    ((role, high),) = armed.items()
    added = "" if high is None else f", which adds at most {ratio_text(high)} to one by its own measure"
    return f"Events were measured in the steps of {role} alone (--inline){added}: a part of the change may be that."


def _settings(recordings: Sequence[ComparedRun]) -> str:
    before, after = (settings_of(recording.scope) for recording in recordings)
    pairs = differing(before, after)
    if not pairs:
        return "Their settings, as far as recorded, are the same." if before and after else ""
    described = ", ".join(f"{name} {was} → {now}" for name, was, now in pairs)
    return f"Recorded with other settings: {described}."


_FOUND_BY = (
    "SELECT DISTINCT CASE WHEN starts_with(rule, 'recurring') THEN name ELSE rule END AS rule FROM step ORDER BY 1"
)


def _not_the_same_step(recordings: Sequence[ComparedRun]) -> str:
    """Says if steps that were found by repetition are not cut at the same place; else empty."""
    guessed = "SELECT EXISTS (SELECT 1 FROM step WHERE starts_with(rule, 'recurring'))"
    if not any(recording.scope.value(guessed) for recording in recordings):
        return ""
    rules = [recording.scope.sql(_FOUND_BY).column("rule").to_pylist() for recording in recordings]
    if rules[0] == rules[1] and len(rules[0]) == 1:
        return ""
    described = "; ".join(
        f"{recording.role}: {', '.join(names)}" for recording, names in zip(recordings, rules, strict=True)
    )
    return (
        f"Steps were found by what recurs and start at different operators or ranges ({described}), so they are not the "
        "same step: means of a step compare, what lies near its edges does not."
    )
