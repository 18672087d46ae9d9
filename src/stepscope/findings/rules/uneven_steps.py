"""Rules about steps that take much longer than the others, and the first step of a recording."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter

import numpy as np

from stepscope.analysis.job.phase_times import EACH_STEP, TOGETHER, by_steps
from stepscope.analysis.steps.parts import PARTS, STEP_PARTS
from stepscope.base.grouping import grouped
from stepscope.base.units import ratio_text, time_text
from stepscope.findings.declare import Finding, Threshold, rule
from stepscope.findings.facts import Facts, Row, first
from stepscope.link.steps import ENOUGH_STEPS, SLOW_FIRST

_SHARE = Threshold(
    "how much more a mean step waits than the median one, of the median step",
    0.05,
    "ratio",
    "ours: three times the spread of quiet runs",
)
_STEPS = Threshold("steps after the first", 4, "count", "ours: fewer have no median to speak of")
_RATIO = Threshold(
    "first step over the median of the others", SLOW_FIRST, "ratio", "ours: warm-up easily doubles a step"
)
_MIN_STEPS = Threshold("steps", ENOUGH_STEPS, "count", "ours: fewer have no median to speak of")
_IN_WORDS = {part.name: part.words for part in STEP_PARTS}
_OF_PHASES = {
    "input_wait": "waiting for the DataLoader",
    "host_to_device": "time in copies to the device",
    "forward": "time in forward",
    "backward": "time in backward",
    "optimizer": "time in the optimizer",
    "residual": "time outside the phases",
}
_WARM_UP = {True: "Record with a longer warmup in torch.profiler.schedule", False: "Start recording some steps later"}
"""By whether torch.profiler recorded it."""


@rule(
    "uneven-steps",
    "Steps that take much longer than the median one.",
    _SHARE,
    _STEPS,
    trade_off="Logging and checkpoints in long steps have to run elsewhere or less often.",
    rests_on=("host-times", "device-times"),
    silent_without=("file",),
)
def uneven_steps(facts: Facts) -> Iterator[Finding]:
    """The complete steps of all recordings except the first of each, which `first-step` is about, without the time in
    which kernels run: a step that has more to compute (the last of accumulated gradients) is longer with good reason.
    The finding names the part of the breakdown that grows most in the longest step.

    For a job's own phases, which cover the entire run, its counted steps on the host; the parts are the phases.

    At most the difference between the mean and the median of this time is saved, if long steps were like the others;
    long steps may do what the others do not.
    """
    if facts.phases is not None:
        yield from (findings := list(_of_phases(facts)))
        if findings:
            return
    if not facts.has_steps:
        return
    rows: list[Row] = []
    for broken in facts.times.broken:
        for row in np.flatnonzero(broken.steps["complete"]).tolist()[1:]:
            parts = broken.parts_ns[row]
            rows.append(
                {
                    "rank": broken.rank,
                    "step": int(broken.steps["step"][row]),
                    "step_ns": int(parts.sum()),
                    **{f"{part}_ns": int(ns) for part, ns in zip(PARTS, parts, strict=True)},
                    "window_ns": (int(broken.steps["start_ns"][row]), int(broken.steps["end_ns"][row])),
                }
            )
    if len(rows) < _STEPS.value:
        return
    lengths = np.array([row["step_ns"] for row in rows])
    waits = lengths - np.array([row["kernel_ns"] for row in rows])
    median, more = float(np.median(lengths)), float(waits.mean() - np.median(waits))
    if not median or more / median <= _SHARE.value:
        return
    rows.sort(key=lambda row: row["step_ns"] - row["kernel_ns"], reverse=True)
    beyond = {
        (row["rank"], row["window_ns"]): row["step_ns"] - row["kernel_ns"] - float(np.median(waits)) for row in rows
    }
    usual = {part: float(np.median([row[f"{part}_ns"] for row in rows])) for part in PARTS}
    longest = rows[0]
    grown = max(PARTS[1:], key=lambda part: longest[f"{part}_ns"] - usual[part])
    sure = grown in ("dataloader", "copy", "communication")
    whose = f" of rank {longest['rank']}" if len(facts.scope.ranks) > 1 else ""
    yield Finding(
        title=f"Steps are uneven: step {longest['step']}{whose} takes {time_text(longest['step_ns'])}, the "
        f"median {time_text(median)}; the extra time is {_IN_WORDS[grown]}",
        metric="how much more a mean step waits than the median one, of the median step",
        value=more / median,
        unit="ratio",
        saving_ns=more,
        lost_on="job",
        confidence="high" if sure else "medium",
        evidence=first({k: v for k, v in row.items() if k != "window_ns"} for row in rows),
        gaps=_gaps(facts, beyond),
        rank=longest["rank"],
        step=longest["step"],
        window_ns=longest["window_ns"],
        advice=f"Compare step {longest['step']} with a usual one (`stepscope steps`): {_IN_WORDS[grown]} is "
        f"{ratio_text(longest[f'{grown}_ns'] / longest['step_ns'])} of it. Typical causes: changing sizes, checkpoints, "
        "logging, garbage collection, slow batches.",
        query="stepscope steps SRC --json",
    )


def _gaps(facts: Facts, beyond: dict[tuple[int, tuple[int, int]], float]) -> dict[tuple[int, int, int], float]:
    """The longest waits for the host in long steps, up to the excess of each (`beyond`, by rank and window), in a mean
    step (ns)."""
    gaps = {}
    left = dict(beyond)
    for wait in facts.host_waits.long:
        of = (
            step
            for step in left
            if step[0] == wait.gap.rank and step[1][0] <= wait.gap.start_ns < step[1][1] and left[step] > 0
        )
        if (step := next(of, None)) is not None:
            ns = min(left[step], wait.time_ns)
            left[step] -= ns
            gaps[wait.key] = ns / len(beyond)
    return gaps


def _of_phases(facts: Facts) -> Iterator[Finding]:
    """The rank of a run with the most uneven steps, by the phases of its recorded steps."""
    steps = facts.scope.sql(by_steps(EACH_STEP)).to_pylist()
    means = f"SELECT rank, sum({TOGETHER}) / sum(weight) AS ns FROM phase_step WHERE phase = 'step' GROUP BY rank"
    mean_of = {row["rank"]: row["ns"] for row in facts.scope.sql(means).to_pylist()}
    by_rank = grouped((row for row in steps if row["total_ns"] is not None), itemgetter("rank"))
    uneven = []
    for rank, rows in by_rank.items():
        of_median = rows[0]["over_median_ratio"]
        median = rows[0]["total_ns"] / of_median if of_median else 0.0
        if len(rows) >= _STEPS.value and median:
            mean = mean_of[rank]
            uneven.append((mean - median, median, mean, rank))
    more, median, mean, rank = max(uneven, default=(0.0, 1.0, 1.0, 0))
    if more / median <= _SHARE.value:
        return
    rows = sorted(by_rank[rank], key=lambda row: -row["total_ns"])
    longest = rows[0]
    usual = {part: float(np.median([row[f"{part}_ns"] or 0 for row in rows])) for part in _OF_PHASES}
    grown = max(_OF_PHASES, key=lambda part: (longest[f"{part}_ns"] or 0) - usual[part])
    whose = f" of rank {rank}" if len(by_rank) > 1 else ""
    part_ns = longest[f"{grown}_ns"] or 0
    # If long steps are rare, none may have been timed.
    timed = longest["total_ns"] > (1 + _SHARE.value) * mean
    title = (
        f"Steps are uneven: step {longest['step']}{whose} of the run takes {time_text(longest['total_ns'])}, the "
        f"median {time_text(median)}; the extra time is {_OF_PHASES[grown]}"
        if timed
        else f"Steps are uneven: the mean{whose} is {time_text(mean)}, the median of the timed steps "
        f"{time_text(median)}; the long ones were not timed"
    )
    part = f": {ratio_text(part_ns / longest['total_ns'])} of that step is {_OF_PHASES[grown]}"
    yield Finding(
        title=title,
        metric="how much more a mean step takes than the median one, of the median step",
        value=more / median,
        unit="ratio",
        saving_ns=more,
        lost_on="job",
        step_ns=mean,  # including the long ones, which are its subject
        evidence=first({k: v for k, v in row.items() if v is not None} for row in rows),
        rank=rank,
        advice="`stepscope phases --by step` lists the slow steps, `--by window` when they occur"
        f"{part if timed else ''}. Typical causes: checkpoints, logging, garbage collection, slow batches, other jobs on "
        "the machine.",
        query="stepscope phases SRC --by step --json",
    )


@rule("first-step", "A first recorded step that would spoil means.", _RATIO, _MIN_STEPS, silent_without=("file",))
def first_step(facts: Facts) -> Iterator[Finding]:
    """The first complete step of a recording, if it is the longest, compared with the median of the others. Means,
    intervals and `diff` leave it out, by this threshold, as means of the step in other findings do; a long run saves
    nothing by it.
    """
    if not facts.has_steps:
        return
    for broken in facts.times.broken:
        slow = np.flatnonzero(broken.steps["is_warmup"])
        others = np.flatnonzero(broken.steps["complete"] & ~broken.steps["is_warmup"])
        if not len(slow) or not len(others):
            continue
        row, lengths = int(slow[0]), broken.parts_ns.sum(axis=1)
        first_ns, usual = int(lengths[row]), float(np.median(lengths[others]))
        step = int(broken.steps["step"][row])
        yield Finding(
            title=f"The first recorded step takes {time_text(first_ns)}, the others "
            f"{time_text(usual)}: means leave it out",
            metric="first step over the median of the others",
            value=first_ns / usual,
            unit="ratio",
            confidence="high",
            evidence=({"first_ns": first_ns, "median_of_others_ns": usual},),
            rank=broken.rank,
            step=step,
            window_ns=(int(broken.steps["start_ns"][row]), int(broken.steps["end_ns"][row])),
            advice=f"{_WARM_UP[facts.by_torch_profiler]}; --step {step} asks about this step alone.",
            query="stepscope steps SRC --json",
        )
