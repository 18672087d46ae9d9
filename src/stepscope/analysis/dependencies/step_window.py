"""The time in which a path is followed: the steps that count, on all ranks together."""

from __future__ import annotations

from dataclasses import dataclass

from stepscope.analysis.counted import counted_steps
from stepscope.query.scope import Scope

MAX_WORK = 2_000_000
"""Kernels, copies and fills of all ranks that one path may cover. Of more, the last steps are taken."""


@dataclass(frozen=True, slots=True)
class StepWindow:
    """Consecutive steps of a recording (`span`).

    Args:
        start, end: from the first start on any rank until all are done (ns).
        starts, ends: of each step, over all ranks (ns).
        since, until: the time whose events affect them: from the step before on (ns).
        before: the step before them; None if they are the first.
        left_out: counted steps that are left out because there are too many events.
        began: when each rank started the first step (ns); empty for `start`.
    """

    span: int
    ranks: tuple[int, ...]
    steps: tuple[int, ...]
    start: int
    end: int
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    since: int
    until: int
    before: int | None
    left_out: int
    began: tuple[int, ...] = ()


_STEPS = """
    SELECT span, step, list(rank ORDER BY rank) AS ranks, list(start_ns ORDER BY rank) AS began, min(start_ns) AS start_ns, max(end_ns) AS end_ns,
        min(host_start_ns) AS host_start_ns, sum(device_events) AS device_events, bool_or(chosen) AS chosen,
        count(*) FILTER (WHERE chosen) AS chosen_on
    FROM (SELECT *, (rank, span, step) IN (SELECT (rank, span, step) FROM ({chosen})) AS chosen FROM step)
    GROUP BY span, step ORDER BY span, start_ns, step
"""


def step_windows(scope: Scope, all_steps: Scope) -> list[StepWindow]:
    """The requested steps, or those that count, of each recording, on all of its ranks; `all_steps` has these with all
    steps."""
    chosen = counted_steps()
    if scope.steps is not None:
        numbers = ", ".join(map(str, scope.steps)) or "NULL"
        chosen = f"SELECT rank, span, step FROM step WHERE step IN ({numbers})"
    rows = all_steps.sql(_STEPS.format(chosen=chosen)).to_pylist()
    windows = []
    for span in sorted({row["span"] for row in rows}):
        candidates = [row for row in rows if row["span"] == span]
        chosen_places = [place for place, row in enumerate(candidates) if row["chosen"]]
        if scope.steps is None:
            everywhere = len({rank for row in candidates for rank in row["ranks"]})
            chosen_places = [
                place for place in chosen_places if candidates[place]["chosen_on"] == everywhere
            ] or chosen_places
        taken: list[int] = []
        work = 0
        for place in reversed(chosen_places):
            work += candidates[place]["device_events"]
            if taken and work > MAX_WORK:
                break
            taken.append(place)
        taken.reverse()
        if not taken:
            continue
        steps = [candidates[place] for place in taken]
        before = candidates[max(taken[0] - 1, 0)]
        ranks = tuple(sorted({rank for row in steps for rank in row["ranks"]}))
        began = dict(zip(steps[0]["ranks"], steps[0]["began"], strict=True))
        windows.append(
            StepWindow(
                span=span,
                ranks=ranks,
                steps=tuple(row["step"] for row in steps),
                start=min(row["start_ns"] for row in steps),
                end=max(row["end_ns"] for row in steps),
                starts=tuple(row["start_ns"] for row in steps),
                ends=tuple(row["end_ns"] for row in steps),
                since=min(before["start_ns"], before["host_start_ns"]),
                until=max(row["end_ns"] for row in steps) + 1,
                before=before["step"] if taken[0] else None,
                left_out=len(chosen_places) - len(taken),
                began=tuple(began.get(rank, steps[0]["start_ns"]) for rank in ranks),
            )
        )
    return windows
