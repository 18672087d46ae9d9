"""The timeline of an open recording: loads lanes when they are needed and answers questions about them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from stepscope.base.errors import UsageError
from stepscope.base.known_names import check_name
from stepscope.base.units import bytes_text
from stepscope.link.device import KINDS as WORK_KINDS
from stepscope.link.intervals import union
from stepscope.query.scope import Scope
from stepscope.schema.arrays import Int64s
from stepscope.store.write import SPAN_IDS
from stepscope.timeline.derived import module_lanes, overlap_lanes
from stepscope.timeline.lanes import Columns, Lanes, laid_out
from stepscope.timeline.search import expression
from stepscope.timeline.sides import KINDS, ROLES, TABLES, Side, Words
from stepscope.timeline.tiles import BINS, MAX_LEVEL, Curve, Names, curve_tile, shortened, tile
from stepscope.timeline.tracks import Track, drawn_rows, missing_words, tracks_of, typical_steps

if TYPE_CHECKING:
    from stepscope.store.open import Store

ERRORS = {"bad-tile": "The timeline was asked for a zoom, tile or interval that does not exist."}

MAX_ROWS = 60_000_000
"""Rows of lanes kept in memory: some 1.7 GB."""
MAX_WARM_UPS = 200
MAX_SUMS = 500
"""Names for which a measured range has sums of their own; the others share one."""

_TRACK_FIELDS = ("id", "kind", "title", "lanes", "events", "dull", "unit")
Loaded = dict[str, Lanes | Curve]
EventFilter = str
"""The unit of loading: `host`, `device`, or another track's id."""
_WARM_UP = """
    SELECT start_ns, end_ns FROM step WHERE is_warmup
    UNION ALL SELECT start_ns, start_ns + dur_ns FROM host_event WHERE role = 'compile'
"""
_SPAN = """
    SELECT coalesce(min(start_ns) FILTER (timed), min(start_ns)) AS start_ns,
        coalesce(max(end_ns) FILTER (timed), max(end_ns)) AS end_ns FROM (
        SELECT min(start_ns) AS start_ns, max(end_ns) AS end_ns, true AS timed FROM ({host})
        UNION ALL SELECT min(start_ns), max(end_ns), true FROM ({device})
        UNION ALL SELECT min(start_ns), max(end_ns), true FROM step
        UNION ALL SELECT min(time_ns), max(time_ns), false FROM counter
        UNION ALL SELECT min(time_ns), max(time_ns), true FROM memory_event
    )
"""
_STEPS = f"""
    SELECT span * {SPAN_IDS} + step AS id, start_ns,
        CASE WHEN contains(name, step::VARCHAR) THEN name ELSE concat_ws(', ', 'step ' || step, name) END AS name,
        least(end_ns, coalesce(lead(start_ns) OVER (ORDER BY start_ns, end_ns), end_ns)) AS end_ns
    FROM step WHERE rank = $rank ORDER BY start_ns, end_ns
"""
_COLLECTIVES = """
    SELECT coalesce(id, host_id) AS id, coalesce(operation, 'communication') AS name, bytes, start_ns, end_ns
    FROM collective WHERE rank = $rank ORDER BY start_ns, end_ns
"""
_NAMES = "SELECT name FROM host_event UNION SELECT name FROM device_event"
_NAMED = """
    WITH wanted AS (SELECT unnest($names::VARCHAR[]) AS name)
    SELECT rank, id, start_ns FROM host_event SEMI JOIN wanted USING (name)
    UNION ALL SELECT rank, id, start_ns FROM device_event SEMI JOIN wanted USING (name)
    ORDER BY start_ns, rank, id
"""
_COUNTER = """
    SELECT time_ns, value FROM counter
    WHERE rank = $rank AND isfinite(value) AND (track, series, coalesce(pid, '')) = ($1, $2, $3)
    ORDER BY time_ns
"""
_LATER = """
    SELECT rank, [track, series, coalesce(pid, '')] FROM counter WHERE isfinite(value)
    GROUP BY ALL HAVING min(time_ns) > {end}
"""
"""Counters without values on the timeline: they belong to another recording, of a longer time."""
_MEMORY = """
    SELECT time_ns, total_allocated_bytes AS value FROM memory_event
    WHERE rank = $rank AND total_allocated_bytes IS NOT NULL AND device_kind = $1
        AND device IS NOT DISTINCT FROM $2
    ORDER BY time_ns
"""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an event is drawn."""

    track: str
    lane: int
    start_ns: int
    end_ns: int
    id: int
    name: str
    kind: str

    def as_json(self) -> dict[str, Any]:
        """As JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


class Timeline:
    """A recording drawn against time. Threads may share it."""

    def __init__(self, store: Store, ranks: Sequence[int] | None = None) -> None:
        self.store = store
        self._ranks = ranks
        self._lock = threading.RLock()
        self._loading: dict[tuple[int, EventFilter], threading.Lock] = {}
        self._in_memory: OrderedDict[tuple[int, EventFilter], Side | Loaded] = OrderedDict()
        self._tracks: dict[str, Track] | None = None
        self._matched: tuple[str, Int64s, Int64s] | None = None

    def scope(self) -> Scope:
        """All events, including those of steps that the store was narrowed away from. Close it."""
        return Scope(self.store, self._ranks, all_times=True)

    @property
    def tracks(self) -> dict[str, Track]:
        """The tracks by id, from the top, the tracks of a rank together."""
        with self._lock:
            if self._tracks is None:
                with self.scope() as scope:
                    self._tracks = {track.id: track for track in tracks_of(scope)}
            return self._tracks

    def layout(self) -> dict[str, Any]:
        """What there is to draw.

        Returns:
            `start_ns` and `end_ns` of the recording, `kinds`, the `ranks` with their `tracks` from the top, `first`,
            the interval to show first (two typical steps; None without steps), `warm_up`, intervals of compilation
            and warm-up, and `missing`, words for a recording without events.
        """
        tracks = self.tracks
        with self.scope() as scope:
            hosts = dict(_pairs(scope, "SELECT rank, host FROM rank"))
            ((start, end),) = _pairs(
                scope, _SPAN.format(host=drawn_rows(scope, "host"), device=drawn_rows(scope, "device"))
            )
            warm = _pairs(scope, _WARM_UP)
            ranks = scope.ranks
            first = typical_steps(scope)
            later = _pairs(scope, _LATER.format(end=end)) if end is not None else []
            missing = "" if tracks else missing_words(scope)
        warm_up = union([start for start, _ in warm], [end for _, end in warm])
        longest = np.sort(np.argsort(warm_up.start - warm_up.end)[:MAX_WARM_UPS])
        return {
            "start_ns": start or 0,
            "end_ns": end or 0,
            "bins": BINS,
            "kinds": list(KINDS),
            "first": first,
            "missing": missing,
            "warm_up": np.stack((warm_up.start, warm_up.end), axis=1)[longest].tolist(),
            "ranks": [
                {
                    "rank": rank,
                    "title": f"rank {rank}" + (f" on {hosts[rank]}" if hosts.get(rank) else ""),
                    "tracks": [
                        {name: getattr(track, name) for name in _TRACK_FIELDS}
                        for track in tracks.values()
                        if track.rank == rank and not (track.kind == "counter" and (rank, list(track.keys[0])) in later)
                    ],
                }
                for rank in ranks
            ],
        }  # fmt: skip

    def tile(self, level: int, index: int, tracks: Sequence[str]) -> dict[str, Any]:
        """One tile of some tracks, of `BINS` bins of 2^level ns, counted from the run's start.

        Returns:
            `names`, and for each of the `tracks` the result of `tile` or `curve_tile` and the number of its lanes,
            `rows`.

        Raises:
            UsageError: the track, zoom or tile does not exist.
        """
        if not 0 <= level <= MAX_LEVEL or abs(index) > 1 << (62 - 9 - level):
            raise UsageError(
                f"there is no tile {index} of level {level}", hint=f"levels go from 0 to {MAX_LEVEL}", slug="bad-tile"
            )
        names = Names()
        drawn_tracks = {}
        start = index * BINS << level
        requested = [self.track(track_id) for track_id in tracks]
        for (rank, part), of_part in _by_part(requested).items():
            side = self._loaded(rank, part)
            if isinstance(side, Side):
                close = level <= side.level
                seen_there = side.lanes(start, start + (BINS << level)) if close else side.coarse()
                drawn: Loaded = dict(seen_there)
            else:
                drawn = side
            for track in of_part:
                seen = drawn[track.id]
                if isinstance(seen, Curve):
                    drawn_tracks[track.id] = {"rows": 1, **curve_tile(seen, level, index)}
                else:
                    drawn_tracks[track.id] = {"rows": len(seen.lanes), **tile(seen, level, index, names)}
        return {"names": names.texts, "tracks": drawn_tracks}

    def measure(self, start: int, end: int, tracks: Sequence[str]) -> dict[str, Any]:
        """Sums a time interval (ns) by name on some tracks: events that overlap it, and their time in it, calls
        included.

        Returns:
            `rows` of `track`, `name`, `kind`, `count`, `total_ns` and `max_ns`, largest total first, and the number
            of all `names`.

        Raises:
            UsageError: a track does not exist, or the interval ends before it starts.
        """
        if end < start:
            raise UsageError("the range ends before it starts", hint="name its start first", slug="bad-tile")
        rows: list[dict[str, Any]] = []
        requested = [self.track(track_id) for track_id in tracks]
        with self.scope() as scope:
            for (rank, part), of_part in _by_part(requested).items():
                if part in TABLES:
                    rows += _sums(scope, rank, part, of_part, start, end)
                    continue
                for track in of_part:
                    drawn = self.lanes(track, start, end)
                    if isinstance(drawn, Lanes):
                        rows += _few_sums(track.id, drawn, start, end)
        rows.sort(key=lambda row: (-row["total_ns"], row["track"], row["name"], row["kind"]))
        return {"rows": rows[:MAX_SUMS], "names": len(rows)}

    def find(self, pattern: str, *, number: int | None = None, at: int = 0, rank: int | None = None) -> dict[str, Any]:
        """Finds one of the events whose name matches, in order of time.

        Args:
            pattern: as `search.expression` takes it.
            number: which match, from 0; after the last one the first follows.
            at, rank: without a number: the first match that starts at this time (ns) or later, of this rank.

        Returns:
            `total`, the number of matches, `number` of this match, and its `place`; None without a match.

        Raises:
            UsageError: the regular expression is invalid.
        """
        starts, where = self._hits(pattern)
        total = len(starts)
        if not total:
            return {"total": 0, "number": 0, "place": None}
        if number is None:
            number = int(np.searchsorted(starts, at))
            if rank is not None:
                number = int(np.flatnonzero(np.append(where[number:, 0] == rank, True))[0]) + number
        number %= total
        (place,) = self.locate(int(where[number, 0]), [int(where[number, 1])])
        return {"total": total, "number": number, "place": place.as_json()}

    def locate(self, rank: int, events: Sequence[int]) -> list[Place]:
        """Where host or device events are drawn, in the given order, without events that the recording does not have."""
        places: dict[int, Place] = {}
        for part, first, second, works, start, event in self._rows(rank, events):
            for track in self.tracks.values():
                if track.rank != rank or _part(track) != part or (first, second) not in track.keys:
                    continue
                if part == "device" and works != (track.kind == "stream"):
                    continue
                places[event] = self._place_of(track, start, event)
        return [places[event] for event in events if event in places]

    def place(self, track: Track, event: int) -> Place | None:
        """Where an event of a track is drawn, by its number in tiles; None if the track does not have it."""
        if _part(track) in TABLES:
            return next((place for place in self.locate(track.rank, [event]) if place.track == track.id), None)
        drawn = self.lanes(track, 0, 0)
        for lane in drawn.lanes if isinstance(drawn, Lanes) else ():
            rows = np.flatnonzero(lane.events.id == event)
            if len(rows):
                return self._place_of(track, int(lane.events.start[rows[0]]), event)
        return None

    def track(self, name: str) -> Track:
        """A track by id; raises UsageError if it does not exist."""
        return self.tracks[check_name(name, self.tracks, "track", of="the timeline")]

    def lanes(self, track: Track, start: int, end: int) -> Lanes | Curve:
        """What a track shows in a time interval, with single events; may contain more."""
        side = self._loaded(track.rank, _part(track))
        return side.lanes(start, end)[track.id] if isinstance(side, Side) else side[track.id]

    def count(self, rank: int, start: int, end: int) -> int:
        """An upper bound of the number of a rank's host and device events that overlap a time interval."""
        total = 0
        for part in ("host", "device"):
            side = self._loaded(rank, part)
            for drawn in side.coarse().values() if isinstance(side, Side) else ():
                for lane in drawn.lanes:
                    total += int(lane.pieces(lane.touching(start, end)).events.sum())
        return total

    def _place_of(self, track: Track, start: int, event: int) -> Place:
        drawn = self.lanes(track, start, start + 1)
        assert isinstance(drawn, Lanes)  # noqa: S101  # curves have no places
        for number, lane in enumerate(drawn.lanes):
            events = lane.events
            first, last = np.searchsorted(events.start, [start, start + 1]).tolist()
            for row in (first + np.flatnonzero(events.id[first:last] == event)).tolist():
                name = drawn.names[int(events.name[row])].as_py() or ""
                return Place(
                    track.id, number, start, int(events.end[row]), event, shortened(name),
                    KINDS[events.kind[row]],
                )  # fmt: skip
        raise AssertionError(f"event {event} is on no lane of {track.id}")

    def _rows(self, rank: int, events: Sequence[int]) -> list[tuple[EventFilter, int, int, bool, int, int]]:
        """EventFilter, the two numbers that identify its track, whether it is device work, start and number of each event."""
        listed = ", ".join(str(int(event)) for event in events) or "NULL"
        with self.scope() as scope:
            return [
                (part, *row.values())
                for part, table in TABLES.items()
                for row in scope.sql(
                    f"SELECT {', '.join(table.keys)}, kind IN {tuple(WORK_KINDS)} AS works, start_ns, id "
                    f"FROM {table.name} WHERE rank = $1 AND id IN ({listed})",
                    [rank],
                ).to_pylist()
            ]

    def _hits(self, pattern: str) -> tuple[Int64s, Int64s]:
        """Starts of matches in order, and the rank and number of each."""
        with self._lock:
            if self._matched is not None and self._matched[0] == pattern:
                return self._matched[1:]
        matches = expression(pattern)
        with self.scope() as scope:
            names = scope.sql(_NAMES)["name"].combine_chunks()
            matching = names.filter(pa.array(matches(names))).to_pylist()
            hits = scope.numpy(_NAMED, {"names": matching})
        result = hits["start_ns"], np.stack((hits["rank"], hits["id"]), axis=1)
        with self._lock:
            self._matched = (pattern, *result)
        return result

    def _loaded(self, rank: int, part: EventFilter) -> Side | Loaded:
        key = (rank, part)
        with self._lock:
            loading = self._loading.setdefault(key, threading.Lock())
        with loading:
            with self._lock:
                if key in self._in_memory:
                    self._in_memory.move_to_end(key)
                    return self._in_memory[key]
            loaded = self._load(rank, part)
            with self._lock:
                self._in_memory[key] = loaded
                while len(self._in_memory) > 1 and sum(map(_weight, self._in_memory.values())) > MAX_ROWS:
                    self._in_memory.popitem(last=False)
            return loaded

    def _load(self, rank: int, part: EventFilter) -> Side | Loaded:
        if part in TABLES:
            of_part = [track for track in self.tracks.values() if (track.rank, _part(track)) == (rank, part)]
            return Side(self.store, rank, TABLES[part], of_part)
        with self.scope() as scope:
            return {part: _other(scope, self.tracks[part])}


def _part(track: Track) -> EventFilter:
    return {"thread": "host", "stream": "device", "marks": "device"}.get(track.kind, track.id)


def _by_part(tracks: Sequence[Track]) -> dict[tuple[int, EventFilter], list[Track]]:
    parts: dict[tuple[int, EventFilter], list[Track]] = {}
    for track in tracks:
        parts.setdefault((track.rank, _part(track)), []).append(track)
    return parts


def _weight(loaded: Side | Loaded) -> int:
    return loaded.rows if isinstance(loaded, Side) else sum(part.rows for part in loaded.values())


def _pairs(scope: Scope, query: str) -> list[tuple[Any, Any]]:
    rows = scope.sql(query)
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def _other(scope: Scope, track: Track) -> Lanes | Curve:
    if track.kind in ("counter", "memory"):
        query = _COUNTER if track.kind == "counter" else _MEMORY
        values = scope.numpy(query.replace("$rank", str(track.rank)), list(track.keys[0]))
        return Curve(values["time_ns"], values["value"].astype(np.float64))
    if track.kind == "modules":
        return module_lanes(scope, track)
    if track.kind == "overlap":
        return overlap_lanes(scope, track)
    if track.kind == "steps":
        rows = scope.sql(_STEPS.replace("$rank", str(track.rank)))
        kind, names = "step", rows["name"].to_pylist()
    else:
        rows = scope.sql(_COLLECTIVES.replace("$rank", str(track.rank)))
        kind = "communication"
        sizes = ("" if size is None else f" {bytes_text(size)}" for size in rows["bytes"].to_pylist())
        names = [f"{name}{size}" for name, size in zip(rows["name"].to_pylist(), sizes, strict=True)]
    words = Words()
    count = rows.num_rows
    events = Columns(
        rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy(),
        words.codes(pa.chunked_array([pa.array(names, pa.string())])),
        np.full(count, KINDS.index(kind), np.int8), rows["id"].to_numpy(),
    )  # fmt: skip
    (lanes,) = laid_out(events, np.zeros(count, np.uint8), np.zeros(count, np.uint8), 1)
    return Lanes(lanes, words.array)


def _sums(
    scope: Scope, rank: int, part: EventFilter, tracks: Sequence[Track], start: int, end: int
) -> list[dict[str, Any]]:
    """Count, summed and longest time in an interval, by name and kind, on host or device tracks."""
    table = TABLES[part]
    places = ", ".join(
        f"({place}, {a}, {b}, {track.kind != 'marks'})" for place, track in enumerate(tracks) for a, b in track.keys
    )
    first, second = table.keys
    kinds, roles = tuple(KINDS), tuple(ROLES)
    role = f"WHEN role IN {roles} THEN role" if part == "host" else ""
    works = "true" if part == "host" else f"kind IN {tuple(WORK_KINDS)}"
    rows = scope.sql(
        f"""
        SELECT place, coalesce(name, '') AS name, own_kind AS kind, count(*) AS count,
            sum(within)::BIGINT AS total_ns, max(within)::BIGINT AS max_ns
        FROM (
            SELECT *, CASE {role} WHEN kind IN {kinds} THEN kind ELSE 'other' END AS own_kind, {works} AS is_work,
                least(start_ns + dur_ns, $end) - greatest(start_ns, $start) AS within
            FROM {table.name} WHERE rank = $rank AND start_ns < $end
                AND (start_ns + dur_ns > $start OR start_ns >= $start)
        ) AS e JOIN (VALUES {places}) AS t(place, a, b, works)
            ON (e.{first}, e.{second}, e.is_work) = (t.a, t.b, t.works)
        GROUP BY ALL
        """,
        {"rank": rank, "start": start, "end": end},
    )
    return [{"track": tracks[row.pop("place")].id, **row, "name": shortened(row["name"])} for row in rows.to_pylist()]


def _few_sums(track: str, drawn: Lanes, start: int, end: int) -> list[dict[str, Any]]:
    sums: dict[tuple[int, int], list[int]] = {}
    for lane in drawn.lanes:
        events = lane.events.at(lane.touching(start, end))
        for first, last, name, kind in zip(*(column.tolist() for column in events[:4]), strict=True):
            if last > start or first >= start:
                sums.setdefault((name, kind), []).append(min(last, end) - max(first, start))
    return [
        {"track": track, "name": shortened(drawn.names[name].as_py() or ""), "kind": KINDS[kind],
         "count": len(lengths), "total_ns": sum(lengths), "max_ns": max(lengths)}
        for (name, kind), lengths in sums.items()
    ]  # fmt: skip
