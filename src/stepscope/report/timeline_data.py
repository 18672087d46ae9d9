"""The timeline in a report: the events of a few typical steps, and a note on what is left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stepscope.base.units import count_text, time_text
from stepscope.store.write import SPAN_IDS
from stepscope.timeline.details import described, details_query
from stepscope.timeline.lanes import Columns
from stepscope.timeline.recording import Timeline
from stepscope.timeline.tiles import Curve, shortened
from stepscope.timeline.tracks import Track, typical_steps

if TYPE_CHECKING:
    from stepscope.query.scope import Scope

MOST_EVENTS = 80_000
"""Events in a report's timeline: some 3 MB with their details."""

Scrub = Callable[[Any], Any]
_STEP_COLUMNS = ("step", "start_ns", "end_ns", "device_events", "complete", "rule")


@dataclass(frozen=True)
class Held:
    """What a report holds: a time interval (ns) of some ranks, and which part of the recording that is, in words."""

    start: int
    end: int
    ranks: tuple[int, ...]
    words: str


def timeline_data(timeline: Timeline, scrub: Scrub, most: int = MOST_EVENTS) -> tuple[dict[str, Any], dict[str, Any]]:
    """Makes a report's data for a recording's timeline.

    Args:
        scrub: removes from texts what tells where the job ran.
        most: the maximum number of events.

    Returns:
        The layout, with `held` and `left_out`; and the events, which the page unpacks when the timeline is shown:
        `names`, `tracks` (the lanes of each, or a curve's values), `tables` (details of events, by rank and table, as
        columns), `described` (those columns).
    """
    layout = timeline.layout()
    if layout["missing"]:
        return scrub(layout), {}
    held = _chosen(timeline, layout, most)
    layout["ranks"] = [one for one in layout["ranks"] if one["rank"] in held.ranks]
    layout |= {"held": [held.start, held.end], "left_out": held.words}
    names: dict[str, int] = {}
    tracks = {
        track.id: _track(timeline, track, held, names) for track in timeline.tracks.values() if track.rank in held.ranks
    }
    with timeline.scope() as scope:
        told = {table: _rows(scope, table, held) for table in ("host_event", "device_event", "step")}
        tables = {
            str(rank): {
                table: _columns(rows.filter(pc.equal(rows[f"{table}.rank"], rank)), scrub)
                for table, rows in told.items()
            }
            for rank in held.ranks
        }
    return scrub(layout), {
        "names": [scrub(name) for name in names],
        "tracks": tracks,
        "tables": tables,
        "described": {table: described(table) for table in ("host_event", "device_event")},
    }


def _chosen(timeline: Timeline, layout: Mapping[str, Any], limit: int) -> Held:
    """Two typical steps, or one, of as many ranks as fit; else as long an interval as fits."""
    ranks = [one["rank"] for one in layout["ranks"]]
    total = sum(one.events for one in timeline.tracks.values() if one.kind in _OF_EVENTS)
    everything = (layout["start_ns"], layout["end_ns"])
    windows = [everything]
    if total > limit:
        with timeline.scope() as scope:
            windows = [one for most in (2, 1) if (one := typical_steps(scope, most))] or windows
    for start, end in windows:
        count = timeline.count(ranks[0], start, end)
        if count <= limit:
            break
    else:
        end = _until(timeline, start, end, ranks[0], limit)
        count = timeline.count(ranks[0], start, end)
    held = ranks[:1]
    for rank in ranks[1:]:
        more = timeline.count(rank, start, end)
        if count + more > limit:
            break
        held.append(rank)
        count += more
    if (start, end) == everything and held == ranks:
        return Held(start, end, tuple(held), "")
    of = f"ranks {held[0]} to {held[-1]}" if len(held) > 1 else f"rank {held[0]}"
    some = "" if held == ranks else f" of {of}"
    words = (
        f"This report has {time_text(end - start)}{some} with {count_text(count)} of "
        f"{count_text(total)} events. `stepscope view` shows all of them."
    )
    return Held(start, end, tuple(held), words)


_OF_EVENTS = ("thread", "stream", "marks")
"""Tracks that together have each event once."""


def _until(timeline: Timeline, start: int, end: int, rank: int, limit: int) -> int:
    """The end of the longest interval with at most `limit` events of a rank."""
    while end - start > 1 and timeline.count(rank, start, end) > limit:
        end = start + (end - start) // 2
    return end


def _track(timeline: Timeline, track: Track, held: Held, names: dict[str, int]) -> dict[str, Any]:
    drawn = timeline.lanes(track, held.start, held.end)
    if isinstance(drawn, Curve):
        first, last = np.searchsorted(drawn.time, [held.start, held.end], "right").tolist()
        first = max(0, first - 1)
        time, value = drawn.time[first:last], drawn.value[first:last]
        return {"start": _differences(time), "value": value.tolist()}
    lanes = []
    for lane in drawn.lanes:
        events = lane.events.at(lane.touching(held.start, held.end))
        lanes.append(_lane(events, drawn.names, names))
    return {"lanes": lanes}


def _lane(events: Columns, words: pa.StringArray, names: dict[str, int]) -> dict[str, list[int]]:
    distinct, which = np.unique(events.name, return_inverse=True)
    texts = words.take(pa.array(distinct)).to_pylist()
    numbers = [names.setdefault(shortened(one or ""), len(names)) for one in texts]
    return {
        "start": _differences(events.start),
        "length": (events.end - events.start).tolist(),
        "name": np.array(numbers, np.int64)[which.reshape(-1)].tolist() if numbers else [],
        "kind": events.kind.tolist(),
        "id": _differences(events.id),
    }


def _differences(values: Any) -> list[int]:
    """Differences between successive numbers: these are small."""
    changes: list[int] = np.diff(values, prepend=0).tolist()
    return changes


_STEPS = f"""
    SELECT rank AS "step.rank", span * {SPAN_IDS} + step AS id, {", ".join(_STEP_COLUMNS)} FROM step AS e
    WHERE start_ns < $2 AND end_ns > $1
"""


def _rows(scope: Scope, table: str, held: Held) -> pa.Table:
    """The details of a table's events on the held ranks, from `TABLE.rank`."""
    query = _STEPS
    if table != "step":
        query = f"{details_query(table)} WHERE e.start_ns < $2 AND (e.start_ns + e.dur_ns > $1 OR e.start_ns >= $1)"
    ranks = ", ".join(map(str, held.ranks))
    return scope.rows(f"{query} AND e.rank IN ({ranks})", [held.start, held.end])


def _columns(rows: pa.Table, scrub: Scrub) -> dict[str, Any]:
    """Rows by column: numbers, or distinct texts and their indices."""
    told: dict[str, Any] = {}
    for name in rows.column_names:
        column = rows.column(name)
        if column.null_count == len(column) or name.endswith(".rank"):
            continue
        if pa.types.is_string(column.type):
            coded = column.combine_chunks().dictionary_encode()
            coded = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
            told[name] = {
                "texts": [scrub(one) for one in coded.dictionary.to_pylist()],
                "codes": coded.indices.to_pylist(),
            }
        else:
            told[name] = column.to_pylist()
    return told
