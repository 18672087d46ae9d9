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

MAX_EVENTS = 80_000
"""Events in a report's timeline: some 3 MB with their details."""

Scrub = Callable[[Any], Any]
_STEP_COLUMNS = ("step", "start_ns", "end_ns", "device_events", "complete", "rule")


@dataclass(frozen=True)
class Part:
    """What a report holds: a time interval (ns) of some ranks, and which part of the recording that is, in words."""

    start: int
    end: int
    ranks: tuple[int, ...]
    words: str


def timeline_data(
    timeline: Timeline, scrub: Scrub, max_events: int = MAX_EVENTS
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Makes a report's data for a recording's timeline.

    Args:
        scrub: removes from texts what tells where the job ran.

    Returns:
        The layout, with `held` and `left_out`; and the events, which the page unpacks when the timeline is shown:
        `names`, `tracks` (the lanes of each, or a curve's values), `tables` (details of events, by rank and table, as
        columns), `described` (those columns).
    """
    layout = timeline.layout()
    if layout["missing"]:
        return scrub(layout), {}
    part = _chosen(timeline, layout, max_events)
    layout["ranks"] = [entry for entry in layout["ranks"] if entry["rank"] in part.ranks]
    layout |= {"held": [part.start, part.end], "left_out": part.words}
    names: dict[str, int] = {}
    tracks = {
        track.id: _track(timeline, track, part, names) for track in timeline.tracks.values() if track.rank in part.ranks
    }
    with timeline.scope() as scope:
        details = {table: _rows(scope, table, part) for table in ("host_event", "device_event", "step")}
        tables = {
            str(rank): {
                table: _columns(rows.filter(pc.equal(rows[f"{table}.rank"], rank)), scrub)
                for table, rows in details.items()
            }
            for rank in part.ranks
        }
    return scrub(layout), {
        "names": [scrub(name) for name in names],
        "tracks": tracks,
        "tables": tables,
        "described": {table: described(table) for table in ("host_event", "device_event")},
    }


def _chosen(timeline: Timeline, layout: Mapping[str, Any], limit: int) -> Part:
    """Two typical steps, or one, of as many ranks as fit; else as long an interval as fits."""
    ranks = [item["rank"] for item in layout["ranks"]]
    total = sum(item.events for item in timeline.tracks.values() if item.kind in _OF_EVENTS)
    everything = (layout["start_ns"], layout["end_ns"])
    windows = [everything]
    if total > limit:
        with timeline.scope() as scope:
            windows = [item for steps in (2, 1) if (item := typical_steps(scope, steps))] or windows
    for start, end in windows:
        count = timeline.count(ranks[0], start, end)
        if count <= limit:
            break
    else:
        end = _until(timeline, start, end, ranks[0], limit)
        count = timeline.count(ranks[0], start, end)
    chosen_ranks = ranks[:1]
    for rank in ranks[1:]:
        more = timeline.count(rank, start, end)
        if count + more > limit:
            break
        chosen_ranks.append(rank)
        count += more
    if (start, end) == everything and chosen_ranks == ranks:
        return Part(start, end, tuple(chosen_ranks), "")
    of = f"ranks {chosen_ranks[0]} to {chosen_ranks[-1]}" if len(chosen_ranks) > 1 else f"rank {chosen_ranks[0]}"
    some = "" if chosen_ranks == ranks else f" of {of}"
    words = (
        f"This report has {time_text(end - start)}{some} with {count_text(count)} of "
        f"{count_text(total)} events. `stepscope view` shows all of them."
    )
    return Part(start, end, tuple(chosen_ranks), words)


_OF_EVENTS = ("thread", "stream", "marks")
"""Tracks that together have each event once."""


def _until(timeline: Timeline, start: int, end: int, rank: int, limit: int) -> int:
    """The end of the longest interval with at most `limit` events of a rank."""
    while end - start > 1 and timeline.count(rank, start, end) > limit:
        end = start + (end - start) // 2
    return end


def _track(timeline: Timeline, track: Track, part: Part, names: dict[str, int]) -> dict[str, Any]:
    drawn = timeline.lanes(track, part.start, part.end)
    if isinstance(drawn, Curve):
        first, last = np.searchsorted(drawn.time, [part.start, part.end], "right").tolist()
        first = max(0, first - 1)
        time, value = drawn.time[first:last], drawn.value[first:last]
        return {"start": _differences(time), "value": value.tolist()}
    lanes = []
    for lane in drawn.lanes:
        events = lane.events.at(lane.touching(part.start, part.end))
        lanes.append(_lane(events, drawn.names, names))
    return {"lanes": lanes}


def _lane(events: Columns, words: pa.StringArray, names: dict[str, int]) -> dict[str, list[int]]:
    distinct, which = np.unique(events.name, return_inverse=True)
    texts = words.take(pa.array(distinct)).to_pylist()
    numbers = [names.setdefault(shortened(text or ""), len(names)) for text in texts]
    return {
        "start": _differences(events.start),
        "length": (events.end - events.start).tolist(),
        "name": np.array(numbers, np.int64)[which.reshape(-1)].tolist() if numbers else [],
        "kind": events.kind.tolist(),
        "id": _differences(events.id),
    }


def _differences(values: Any) -> list[int]:
    """Differences between successive numbers: these are small."""
    return np.diff(values, prepend=0).tolist()


_STEPS = f"""
    SELECT rank AS "step.rank", span * {SPAN_IDS} + step AS id, {", ".join(_STEP_COLUMNS)} FROM step AS e
    WHERE start_ns < $2 AND end_ns > $1
"""


def _rows(scope: Scope, table: str, part: Part) -> pa.Table:
    """The details of a table's events on the held ranks, from `TABLE.rank`."""
    query = _STEPS
    if table != "step":
        query = f"{details_query(table)} WHERE e.start_ns < $2 AND (e.start_ns + e.dur_ns > $1 OR e.start_ns >= $1)"
    ranks = ", ".join(map(str, part.ranks))
    return scope.rows(f"{query} AND e.rank IN ({ranks})", [part.start, part.end])


def _columns(rows: pa.Table, scrub: Scrub) -> dict[str, Any]:
    """Rows by column: numbers, or distinct texts and their indices."""
    columns: dict[str, Any] = {}
    for name in rows.column_names:
        column = rows.column(name)
        if column.null_count == len(column) or name.endswith(".rank"):
            continue
        if pa.types.is_string(column.type):
            coded = column.combine_chunks().dictionary_encode()
            coded = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
            columns[name] = {
                "texts": [scrub(text) for text in coded.dictionary.to_pylist()],
                "codes": coded.indices.to_pylist(),
            }
        else:
            columns[name] = column.to_pylist()
    return columns
