"""Finds streams that wait although their next work has been launched, and between which pieces of work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepscope.analysis.steps.gaps import OTHER
from stepscope.base.grouping import merge_rows
from stepscope.base.units import ratio_text
from stepscope.schema.device_work import WORK

if TYPE_CHECKING:
    from stepscope.findings.facts import Facts, Row

_MAX_GAPS = 500
"""The most gaps examined in each recording, the longest first."""
_NAMED = 0.10
"""A place with a smaller share of the waiting is not named in the sentence."""

_WORK = f"""
    SELECT work.start_ns, work.start_ns + work.dur_ns AS end_ns, work.stream, work.kind, work.name,
        work.operator_name, work.launch_id,
        coalesce(work.graph_id IS NOT NULL OR launch.role = 'graph_launch', false) AS replayed
    FROM (
        SELECT * FROM device_event WHERE {WORK} AND rank = $rank AND span = $span
            AND (start_ns IN (SELECT unnest($ends)) OR start_ns + dur_ns IN (SELECT unnest($starts)))
    ) AS work
    LEFT JOIN (SELECT id, role FROM host_event WHERE rank = $rank) AS launch
        ON launch.id = work.launch_id
    ORDER BY work.dur_ns
"""


def stream_waits(facts: Facts) -> list[Row]:
    """Gaps of 30 µs and more before work that was launched in time, by where they are, the longest first.

    A row has `where` in words, the waiting stream, the operator and the name of the work that ends most of them, the
    gaps per step, and their `time_ns` per step and `share_ratio` of all such gaps.
    """
    rows: list[Row] = []
    total_ns = 0
    for (rank, span), gaps in facts.gaps.items():
        waits = np.flatnonzero(gaps.cause == OTHER)
        total_ns += int(gaps.length[waits].sum())
        longest = waits[np.argsort(-gaps.length[waits], kind="stable")][:_MAX_GAPS]
        starts, ends = gaps.start[longest].tolist(), gaps.end[longest].tolist()
        parameters = {"rank": rank, "span": span, "starts": starts, "ends": ends}
        work = facts.scope.sql(_WORK, parameters).to_pylist() if starts else []
        before = {row["end_ns"]: row for row in work}
        after = {row["start_ns"]: row for row in work}
        for start, end in zip(starts, ends, strict=True):
            if end in after:  # the work after a gap that a step's end cuts is in the next step
                rows.append(_row(before.get(start), after[end], (end - start) / facts.steps, facts.steps))
    places = merge_rows(rows, "where", "stream", "operator", adding=("gaps_per_step", "time_ns"))
    for row in places:
        row["share_ratio"] = row["time_ns"] * facts.steps / total_ns
    return sorted(places, key=lambda row: -row["time_ns"])


def in_words(waits: list[Row]) -> str:
    """Says where most of the waiting is, at the end of a sentence; empty if no place has much of it."""
    places = merge_rows(
        ({"where": row["where"], "share_ratio": row["share_ratio"]} for row in waits), "where", adding=("share_ratio",)
    )
    named = sorted(places, key=lambda row: -row["share_ratio"])[:2]
    return ", ".join(
        f"{ratio_text(row['share_ratio'])} of it {row['where']}" for row in named if row["share_ratio"] >= _NAMED
    )


def _row(before: Row | None, after: Row, time_ns: float, steps: int) -> Row:
    return {
        "where": _where(before, after),
        "stream": after["stream"],
        "operator": after["operator_name"],
        "work": after["name"],
        "gaps_per_step": 1 / steps,
        "time_ns": time_ns,
    }


def _where(before: Row | None, after: Row) -> str:
    stream = f"on stream {after['stream']}"
    if after["kind"] == "communication":
        return f"{stream} before a collective"
    if before is None:
        return stream
    if after["replayed"]:
        within = after["launch_id"] == before["launch_id"]
        return f"{stream} {'within' if within else 'before'} replays of CUDA graphs"
    if before["kind"] == "communication":
        return f"{stream} after a collective on stream {before['stream']}"
    if before["stream"] != after["stream"]:
        return f"{stream} after work on stream {before['stream']}"
    return f"{stream} between two pieces of its own work"
