"""The tracks of a recording: which exist, in which order, and how their rows are found."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from stepscope.schema.device_work import WORK

if TYPE_CHECKING:
    from stepscope.query.scope import Scope

Kind = Literal["steps", "communication", "overlap", "stream", "marks", "modules", "thread", "counter", "memory"]
Row = dict[str, Any]

_DULL_SHARE = 0.01
"""Threads with less time than this share of the busiest one's are folded at first."""


@dataclass(frozen=True, slots=True)
class Track:
    """A track of one rank.

    Args:
        id: its id in addresses: the same each time the recording is opened.
        kind: what it shows; `marks` is what the recorder draws besides a stream's work.
        lanes: the fewest lanes.
        events: the number of its events or values.
        dull: folded at first.
        unit: of a counter's values.
        keys: values of the columns that identify its rows.
    """

    id: str
    rank: int
    kind: Kind
    title: str
    lanes: int
    events: int
    dull: bool = False
    unit: str = ""
    keys: tuple[tuple[Any, ...], ...] = ()


_STEPS = "SELECT rank, count(*) AS events FROM step GROUP BY rank"
_COLLECTIVES = "SELECT rank, count(*) AS events FROM collective GROUP BY rank"
_OVERLAPS = """
    SELECT rank, device, count(*) AS events FROM device_event
    WHERE kind = 'communication' GROUP BY rank, device ORDER BY rank, device
"""
_MODULES = f"""
    SELECT rank, device, stream, count(*) AS events FROM device_event
    WHERE module_id IS NOT NULL AND {WORK}
    GROUP BY ALL ORDER BY ALL
"""
_STREAMS = f"""
    SELECT work.*, stream.name, device.name AS model FROM (
        SELECT rank, device, stream, {WORK} AS works, sum(events)::BIGINT AS events
        FROM ({{rows}}) GROUP BY ALL
    ) AS work
    LEFT JOIN device ON (device.rank, device.device) = (work.rank, work.device)
    LEFT JOIN stream ON (stream.rank, stream.device, stream.stream) = (work.rank, work.device, work.stream)
    ORDER BY work.rank, work.device, work.stream, works DESC
"""
_THREADS = """
    WITH busy AS (
        SELECT rank, span, thread, sum(events)::BIGINT AS events, max(depth) + 1 AS lanes,
            sum(CASE WHEN depth = 0 THEN busy_ns ELSE 0 END)::BIGINT AS busy_ns
        FROM ({rows}) GROUP BY rank, span, thread
    )
    SELECT rank, pid, tid, any_value(process_name) AS process_name, any_value(thread_name) AS name,
        any_value(thread.kind) AS kind, sum(events)::BIGINT AS events, max(lanes) AS lanes,
        sum(busy_ns)::BIGINT AS busy_ns, list((span, thread) ORDER BY span) AS places
    FROM busy JOIN thread USING (rank, span, thread)
    GROUP BY rank, pid, tid ORDER BY rank, max(thread.kind <> 'track') DESC, sum(events) DESC, pid, tid
"""
_COUNTERS = """
    SELECT rank, track, series, coalesce(pid, '') AS pid, any_value(unit) AS unit, count(*) AS events
    FROM counter WHERE isfinite(value) GROUP BY ALL ORDER BY ALL
"""
_MEMORY = """
    SELECT rank, device_kind, device, count(*) AS events FROM memory_event
    WHERE total_allocated_bytes IS NOT NULL GROUP BY ALL ORDER BY rank, device_kind DESC, device
"""


def tracks_of(scope: Scope) -> list[Track]:
    """Returns the tracks of all ranks from the top, the tracks of a rank together."""
    tracks: list[Track] = []
    plain: tuple[tuple[str, str, Kind], ...] = ((_STEPS, "steps", "steps"), (_COLLECTIVES, "comm", "communication"))
    for query, name, kind in plain:
        tracks += [
            Track(f"{row['rank']}.{name}", row["rank"], kind, kind, 1, row["events"]) for row in _rows(scope, query)
        ]
    for row in _rows(scope, _OVERLAPS):
        name, title = f"{row['rank']}.o{row['device']}", f"overlap: device {row['device']}"
        tracks.append(Track(name, row["rank"], "overlap", title, 3, row["events"], keys=((row["device"],),)))
    tracks += _streams(scope)
    for row in _rows(scope, _MEMORY):
        place, device = row["device_kind"], "" if row["device"] is None else row["device"]
        name, title = f"{row['rank']}.mem.{place}{device}", f"memory in use: {place} {device}".strip()
        keys = ((place, row["device"]),)
        tracks.append(Track(name, row["rank"], "memory", title, 1, row["events"], row["device"] is None, "bytes", keys))
    tracks += _threads(scope)
    numbers: Counter[int] = Counter()
    for row in _rows(scope, _COUNTERS):
        name = f"{row['rank']}.c{numbers[row['rank']]}"
        numbers[row["rank"]] += 1
        title = ": ".join(dict.fromkeys(text for text in (row["pid"], row["track"], row["series"]) if text))
        series = (row["track"], row["series"], row["pid"])
        tracks.append(
            Track(name, row["rank"], "counter", title, 1, row["events"], unit=row["unit"] or "", keys=(series,))
        )
    return sorted(tracks, key=lambda track: track.rank)


_DRAWN = {"host": "span, thread, depth", "device": "device, stream, kind"}


def drawn_rows(scope: Scope, side: Literal["host", "device"]) -> str:
    """SQL: host or device events, or the store's blocks of several `events`, with start, end and summed durations,
    `busy_ns`."""
    blocked = [(row["rank"], row["span"]) for row in _rows(scope, f"SELECT DISTINCT rank, span FROM {side}_block")]
    of_events = f"""
        SELECT rank, {_DRAWN[side]}, 1 AS events, dur_ns AS busy_ns, start_ns, start_ns + dur_ns AS end_ns
        FROM {side}_event
    """
    if not blocked:
        return of_events
    of_blocks = f"SELECT rank, {_DRAWN[side]}, events, busy_ns, start_ns, end_ns FROM {side}_block"
    sources = {(row["rank"], row["span"]) for row in _rows(scope, "SELECT rank, span FROM source")}
    if sources and sources.issubset(blocked):
        return of_blocks
    listed = ", ".join(map(str, blocked))
    return f"{of_blocks} UNION ALL {of_events} WHERE (rank, span) NOT IN ({listed})"


def _rows(scope: Scope, query: str) -> list[Row]:
    return scope.sql(query).to_pylist()


def _streams(scope: Scope) -> list[Track]:
    modules = {(row["rank"], row["device"], row["stream"]): row["events"] for row in _rows(scope, _MODULES)}
    tracks = []
    for row in _rows(scope, _STREAMS.format(rows=drawn_rows(scope, "device"))):
        rank, device, stream = row["rank"], row["device"], row["stream"]
        words = (row["name"] or "").strip() or (f"stream {stream}" if stream >= 0 else "stream not recorded")
        title = f"device {device}: {words}"
        kind: Kind = "stream"
        if not row["works"]:
            kind, title = "marks", f"ranges and waits, {title}"
        keys = ((device, stream),)
        name = f"{rank}.{kind[0]}{device}.{stream}"
        tracks.append(Track(name, rank, kind, title, 1, row["events"], dull=not row["works"], keys=keys))
        if row["works"] and (events := modules.get((rank, device, stream))):
            name = f"{rank}.n{device}.{stream}"
            tracks.append(Track(name, rank, "modules", f"modules, {title}", 1, events, keys=keys))
    return tracks


def _threads(scope: Scope) -> list[Track]:
    rows = _rows(scope, _THREADS.format(rows=drawn_rows(scope, "host")))
    busiest: dict[int, int] = {}
    processes: dict[int, set[str]] = {}
    for row in rows:
        busiest[row["rank"]] = max(busiest.get(row["rank"], 0), row["busy_ns"])
        if row["kind"] != "track":
            processes.setdefault(row["rank"], set()).add(row["pid"])
    tracks = []
    numbers: Counter[int] = Counter()
    for row in rows:
        rank = row["rank"]
        title = row["name"] or (f"thread {row['tid']}" if row["tid"] else "thread not recorded")
        if len(processes.get(rank, ())) > 1:
            title = f"{row['process_name'] or 'process'} {row['pid']}: {title}"
        keys = tuple(tuple(place.values()) if isinstance(place, dict) else place for place in row["places"])
        dull = row["kind"] == "track" or row["busy_ns"] < _DULL_SHARE * busiest[rank]
        tracks.append(
            Track(f"{rank}.h{numbers[rank]}", rank, "thread", title, row["lanes"], row["events"], dull, "", keys)
        )
        numbers[rank] += 1
    return tracks


_COMPLETE_STEPS = """
    SELECT start_ns, end_ns FROM step
    WHERE rank = (SELECT min(rank) FROM step) AND complete AND NOT is_warmup ORDER BY start_ns
"""
_SHOWN_STEPS = 2


def typical_steps(scope: Scope, count: int = _SHOWN_STEPS) -> tuple[int, int] | None:
    """The interval of some adjacent steps that are nearest to the median step (ns); None without steps."""
    steps = [(row["start_ns"], row["end_ns"]) for row in _rows(scope, _COMPLETE_STEPS)]
    if not steps:
        return None
    lengths = sorted(end - start for start, end in steps)
    median = int(lengths[len(lengths) // 2])
    count = min(count, len(steps))
    # From the first start to the last end: there is a pause between steps of two recordings.
    spans = [(steps[first][0], steps[first + count - 1][1]) for first in range(len(steps) - count + 1)]
    return min(spans, key=lambda span: abs(span[1] - span[0] - count * median))


_WITHOUT_MOMENTS = {
    "phase": "the phases of its steps, which are sums (view Inline and phases)",
    "inline_timing": "measurements of labelled events, each from another iteration (view Inline and phases)",
    "stack_sample": "samples of call stacks (view Hotspots)",
    "kernel_metric": "metrics of kernels (view Kernel metrics)",
}


def missing_words(scope: Scope) -> str:
    """Words for what a recording without events has instead."""
    filled = scope.store.filled()
    recorded = [words for table, words in _WITHOUT_MOMENTS.items() if table in filled]
    has = f" It has {' and '.join(recorded)}." if recorded else ""
    return f"This recording has no events that start and end at known times.{has}"
