"""`synchronization`: calls in the step that make the host wait for the device, which then runs out of work."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stepscope.analysis.recording import Array, recordings
from stepscope.analysis.steps.gaps import WAITS_FOR_DEVICE
from stepscope.base.grouping import merge_rows
from stepscope.base.units import mean_count_text, plural, ratio_text
from stepscope.findings.declare import Finding, Threshold, of_time, rule, worth
from stepscope.findings.facts import Facts, Row, first
from stepscope.findings.host_waits import LONG_NS, waiting_parts

_SHARE = worth("time the device is idle when such calls return", 0.02, "ours: below it there is little to win")
_CALLS_PER_STEP = Threshold("such calls per step", 0.5, "count", "ours: what happens once is no habit")

_CALLS = f"""
    SELECT event.rank, event.span, event.start_ns, event.start_ns + event.dur_ns AS end_ns,
        event.name AS call, coalesce(above.name, '(no operator)') AS caller,
        coalesce(above.kind = 'operator', false) AS in_operator,
        CASE WHEN higher.kind = 'operator' THEN higher.id WHEN above.kind = 'operator' THEN above.id ELSE event.id END AS within,
        CASE WHEN higher.kind = 'operator' THEN higher.dur_ns WHEN above.kind = 'operator' THEN above.dur_ns
            ELSE event.dur_ns END AS within_ns
    FROM (
        SELECT * FROM host_event
        WHERE kind = 'runtime' AND {{counted}} AND (
            ({WAITS_FOR_DEVICE}) OR (
                role = 'copy' AND (NOT regexp_matches(name, 'Async') OR (rank, id) IN (
                    SELECT (rank, launch_id) FROM device_event
                    WHERE copy_kind = 'DtoH' AND memory_kind = 'pageable' AND launch_id IS NOT NULL
                ))
            )
        )
    ) AS event
    LEFT JOIN host_event AS above ON above.rank = event.rank AND above.id = event.parent_id
    LEFT JOIN host_event AS higher ON higher.rank = event.rank AND higher.id = above.parent_id AND above.kind = 'operator'
    WHERE coalesce(above.kind, '') <> 'overhead'
    ORDER BY event.rank, event.span, end_ns
"""
_ONCE = 0.5
"""If one gap has more than this share of the loss in all steps, the finding says so."""
_OF_PROFILER = ["cudaDeviceSynchronize", "hipDeviceSynchronize"]
"""The recorder itself calls these where it starts and ends; outside of an operator they are not blamed."""


@rule(
    "synchronization",
    "Calls in the step after which the device is idle: `.item()`, `nonzero`, copies that "
    "block, `torch.cuda.synchronize()`.",
    _SHARE,
    _CALLS_PER_STEP,
    trade_off="The host knows values later, and a host that runs ahead keeps more memory in use.",
    rests_on=("clocks", "launches"),
    silent_without=("device-work",),
)
def synchronization(facts: Facts) -> Iterator[Finding]:
    """A call that waits for the device returns when all its work is done; the device is then idle until the host has
    launched again. These gaps, which start during such a call and end after it with work launched only then, are what
    counts, not the duration of the calls: waiting for a busy device loses nothing. `cudaMemcpyAsync` from the device
    into pageable memory is such a call: it returns when all is copied. Waits for the DataLoader in such gaps are
    `input-bound`, and a call that continues for 100 µs and more after the device has no more recorded work is
    `unrecorded-work`.

    A host that does not wait gets ahead by the duration of such calls, with the operators that make them (`aten::item`
    and what it calls), and hides later waits, too: at most that much is saved, and no more than the time in which no
    kernel computes. A host that is slower than the device would leave it idle anyway. Calls of the recorder itself, and
    waiting for events of other streams on the device, do not count.
    """
    if not facts.enough_work:
        return
    calls = facts.scope.numpy(_CALLS.replace("{counted}", facts.counted))
    if not len(calls["rank"]):
        return
    blamed: list[Row] = []
    gaps: dict[tuple[int, int, int], float] = {}
    called_ns = 0
    waits = {(broken.rank, broken.span): broken.waits for broken in facts.times.broken}
    for key, events in recordings(calls).items():
        if (of := waits.get(key)) is not None:
            lost_ns = waiting_parts(of).sum(axis=1)
            lost_ns -= np.where(of.blocked_ns >= LONG_NS, np.minimum(of.blocked_ns, lost_ns), 0)
            late = of.launched
            ours = np.isin(events["call"], _OF_PROFILER) & ~events["in_operator"]
            _, once = np.unique(events["within"][~ours], return_index=True)
            called_ns += int(events["within_ns"][~ours][once].sum())
            gap_rows = _blamed(events, of.start[late], of.end[late], lost_ns[late], facts.steps)
            gaps |= {(*key, row.pop("start_ns")): row["idle_ns"] for row in gap_rows}
            blamed += gap_rows
    rows = merge_rows(blamed, "caller", "call", adding=("calls_per_step", "idle_ns"))
    rows.sort(key=lambda row: -row["idle_ns"])
    idle_ns = sum(row["idle_ns"] for row in rows)
    count = sum(row["calls_per_step"] for row in rows)
    if facts.part_of_step(idle_ns) <= _SHARE.value or count < _CALLS_PER_STEP.value:
        return
    yield of_time(
        title=f"After {_calls(count)} a {facts.per}, most in "
        f"{rows[0]['caller']}, the device is idle for {facts.amount(idle_ns)}{_after_one(gaps, idle_ns)}",
        metric="time the device is idle when synchronising calls return, per step",
        time_ns=idle_ns,
        hidden_ns=facts.hidden(called_ns / facts.steps, idle_ns),
        evidence=first(rows),
        gaps=gaps,
        advice=_wait_less(facts),
    )


def _after_one(gaps: dict[tuple[int, int, int], float], idle_ns: float) -> str:
    """How much of the mean a single call causes, as before a checkpoint."""
    longest = max(gaps.values())
    return (
        f", {ratio_text(longest / idle_ns)} of it after a single call"
        if len(gaps) > 1 and longest > _ONCE * idle_ns
        else ""
    )


def _wait_less(facts: Facts) -> str:
    if not facts.in_pytorch:
        return (
            "Leave values on the device until the last launch, copy asynchronously to and from pinned memory, and wait "
            "for events of a stream rather than for the device."
        )
    return (
        f"Leave values on the device: {'log loss.detach() and ' if facts.trains else ''}call .item() "
        f"{'every so many steps' if facts.trains else 'once, after the last launch'}, use torch.where and masks in "
        "place of nonzero() and boolean indexing, copy with non_blocking=True to and from pinned memory, take "
        "torch.cuda.synchronize() out of the step."
    )


def _calls(count: float) -> str:
    number = mean_count_text(count)
    return f"{number} synchronising {plural(number, 'call')}"


def _blamed(calls: dict[str, Array], start: Array, end: Array, lost_ns: Array, steps: int) -> list[Row]:
    """Calls during which a gap starts and that return in it, with their loss per step; a gap counts once."""
    if not len(start):
        return []
    at = np.searchsorted(end, calls["end_ns"], side="right")
    gap_start = start[np.minimum(at, len(start) - 1)]
    inside = (at < len(start)) & (gap_start <= calls["end_ns"]) & (gap_start >= calls["start_ns"])
    rows, seen = [], set()
    for position in np.flatnonzero(inside).tolist():
        gap = int(at[position])
        call, caller = str(calls["call"][position]), str(calls["caller"][position])
        if gap in seen or (call in _OF_PROFILER and not calls["in_operator"][position]):
            continue
        seen.add(gap)
        idle_ns = int(lost_ns[gap]) / steps
        rows.append(
            {
                "start_ns": int(start[gap]),
                "caller": caller,
                "call": call,
                "calls_per_step": 1 / steps,
                "idle_ns": idle_ns,
            }
        )
    return rows
