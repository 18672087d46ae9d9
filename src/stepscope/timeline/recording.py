"""The timeline of an open recording: its lanes, loaded as they are asked for, and what is told of them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stepscope.answers.scope import Scope
from stepscope.floor.errors import UsageError
from stepscope.floor.known_names import check_name
from stepscope.floor.units import bytes_text
from stepscope.link.intervals import union
from stepscope.store.columns import read_columns
from stepscope.store.write import SPAN_IDS
from stepscope.timeline.lanes import Columns, Int64s, Lanes, laid_out
from stepscope.timeline.search import expression
from stepscope.timeline.tiles import BINS, MOST_LEVEL, Curve, Names, curve_tile, shortened, tile
from stepscope.timeline.tracks import Track, missing_words, tracks_of, typical_steps

if TYPE_CHECKING:
    from stepscope.store.open import Store

ERRORS = {
    "bad-tile": "The timeline was asked for a zoom, a tile or a stretch of time that there cannot be.",
}

KINDS = (
    "computation", "communication", "copy", "fill", "sync", "operator", "annotation", "runtime",
    "python", "dataloader", "overhead", "step", "other",
)  # fmt: skip
"""What an event is, by number: the kinds of the tables, and the roles that a step's parts are made of."""

MOST_KEPT = 60_000_000
"""Events whose lanes are kept at a time: some 1.7 GB."""
MOST_WARM_UPS = 200
MOST_SUMS = 500
"""Names of which a measured range tells sums; of the others it tells one together."""

Side = Literal["host", "device", "other"]
Loaded = dict[str, Lanes | Curve]
_ROLES = {"dataloader": "dataloader", "communication": "communication"}
_WARM_UP = """
    SELECT start_ns, end_ns FROM step WHERE slow_first
    UNION ALL SELECT start_ns, start_ns + dur_ns FROM host_event WHERE role = 'compile'
"""
_SPAN = """
    SELECT min(start_ns) AS start_ns, max(end_ns) AS end_ns FROM (
        SELECT min(start_ns) AS start_ns, max(start_ns + dur_ns) AS end_ns FROM host_event
        UNION ALL SELECT min(start_ns), max(start_ns + dur_ns) FROM device_event
        UNION ALL SELECT min(start_ns), max(end_ns) FROM step
        UNION ALL SELECT min(time_ns), max(time_ns) FROM counter
        UNION ALL SELECT min(time_ns), max(time_ns) FROM memory_event
    )
"""
_STEPS = f"""
    SELECT span * {SPAN_IDS} + step AS id, coalesce(name, 'step ' || step) AS name, start_ns,
        least(end_ns, coalesce(lead(start_ns) OVER (ORDER BY start_ns, end_ns), end_ns)) AS end_ns
    FROM step WHERE rank = $rank ORDER BY start_ns, end_ns
"""
_COLLECTIVES = """
    SELECT coalesce(id, host_id) AS id, coalesce(operation, 'communication') AS name, bytes, start_ns, end_ns
    FROM collective WHERE rank = $rank ORDER BY start_ns, end_ns
"""
_COUNTER = """
    SELECT time_ns, value FROM counter
    WHERE rank = $rank AND isfinite(value) AND (track, series, coalesce(pid, '')) = ($1, $2, $3)
    ORDER BY time_ns
"""
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

    def shown(self) -> dict[str, Any]:
        """As JSON has it."""
        return {name: getattr(self, name) for name in self.__slots__}


class Timeline:
    """What a recording looks like against time. Several threads may ask it.

    Args:
        store: its tables.
        ranks: the ranks that are shown; all by default.
    """

    def __init__(self, store: Store, ranks: Sequence[int] | None = None) -> None:
        self.store = store
        self._ranks = ranks
        self._lock = threading.RLock()
        self._loading: dict[tuple[int, Side], threading.Lock] = {}
        self._kept: OrderedDict[tuple[int, Side], Loaded] = OrderedDict()
        self._tracks: dict[str, Track] | None = None
        self._found: tuple[str, list[Place], Any] | None = None

    def scope(self) -> Scope:
        """All of its events, of other steps than the store was narrowed to as well. Close it."""
        return Scope(self.store, self._ranks, all_times=True)

    @property
    def tracks(self) -> dict[str, Track]:
        """Its tracks by id, each rank's together, from the top."""
        with self._lock:
            if self._tracks is None:
                with self.scope() as scope:
                    self._tracks = {one.id: one for one in tracks_of(scope)}
            return self._tracks

    def layout(self) -> dict[str, Any]:
        """What there is to draw.

        Returns:
            `start_ns` and `end_ns` of the recording, `kinds`, the `ranks` with their `tracks` from the top,
            `first`, the stretch to show first (two typical steps; None where there are no steps),
            `warm_up`, the stretches in which the job compiled or warmed up, and `missing`, what the
            recording has in the place of events, in words, where it has none.
        """
        tracks = self.tracks
        with self.scope() as scope:
            hosts = dict(_pairs(scope, "SELECT rank, host FROM rank"))
            ((start, end),) = _pairs(scope, _SPAN)
            warm = _pairs(scope, _WARM_UP)
            ranks = scope.ranks
            first = typical_steps(scope)
            missing = "" if tracks else missing_words(scope)
        warm_up = union([one for one, _ in warm], [one for _, one in warm])
        if len(warm_up) > MOST_WARM_UPS:
            longest = np.sort(np.argsort(warm_up.start - warm_up.end)[:MOST_WARM_UPS])
            starts, ends = warm_up.start[longest], warm_up.end[longest]
        else:
            starts, ends = warm_up.start, warm_up.end
        return {
            "start_ns": start or 0,
            "end_ns": end or 0,
            "bins": BINS,
            "kinds": list(KINDS),
            "first": first,
            "missing": missing,
            "warm_up": np.stack((starts, ends), axis=1).tolist(),
            "ranks": [
                {
                    "rank": rank,
                    "title": f"rank {rank}" + (f" on {hosts[rank]}" if hosts.get(rank) else ""),
                    "tracks": [
                        {
                            "id": one.id, "kind": one.kind, "title": one.title, "lanes": one.lanes,
                            "events": one.events, "dull": one.dull, "unit": one.unit,
                        }
                        for one in tracks.values()
                        if one.rank == rank
                    ],
                }
                for rank in ranks
            ],
        }  # fmt: skip

    def tile(self, level: int, index: int, tracks: Sequence[str]) -> dict[str, Any]:
        """Some tracks in a tile.

        Args:
            level: the zoom: the tile has `BINS` bins of 2^level ns.
            index: which tile, counted from the start of the run.
            tracks: their ids.

        Returns:
            `names`, and for each of the `tracks` what `tile` or `curve_tile` makes, and how many `rows`
            (lanes) the track has.

        Raises:
            UsageError: there is no such track, zoom or tile.
        """
        if not 0 <= level <= MOST_LEVEL or abs(index) > 1 << (62 - 9 - level):
            raise UsageError(
                f"there is no tile {index} of level {level}",
                hint=f"levels go from 0 to {MOST_LEVEL}",
                slug="bad-tile",
            )
        names = Names()
        shown = {}
        for track in map(self.track, tracks):
            drawn = self.lanes(track)
            if isinstance(drawn, Curve):
                shown[track.id] = {"rows": 1, **curve_tile(drawn, level, index)}
            else:
                shown[track.id] = {"rows": len(drawn.lanes), **tile(drawn, level, index, names)}
        return {"names": names.texts, "tracks": shown}

    def measure(self, start: int, end: int, tracks: Sequence[str]) -> dict[str, Any]:
        """What a stretch of time holds: for each name on some tracks how many events touch it, and their
        summed time within it. A call's time contains that of the calls it makes.

        Args:
            start, end: the stretch (ns).
            tracks: ids of tracks of events.

        Returns:
            `rows` of `track`, `name`, `kind`, `count`, `total_ns` and `longest_ns`, longest total first,
            and how many `names` there are in all.

        Raises:
            UsageError: there is no such track, or the stretch ends before it starts.
        """
        if end < start:
            raise UsageError(
                "the range ends before it starts", hint="name its start first", slug="bad-tile"
            )
        rows: list[dict[str, Any]] = []
        for track in map(self.track, tracks):
            drawn = self.lanes(track)
            if isinstance(drawn, Lanes):
                rows += _sums(track.id, drawn, start, end)
        rows.sort(key=lambda row: (-row["total_ns"], row["track"], row["name"]))
        return {"rows": rows[:MOST_SUMS], "names": len(rows)}

    def find(self, pattern: str, *, number: int | None = None, at: int = 0) -> dict[str, Any]:
        """An event whose name matches, of all in order of time.

        Args:
            pattern: a part of a name, a GLOB of all of it, or `/a regular expression/`, in any case.
            number: which of them, from 0; beyond the last one the first again.
            at: without a number, the first one that starts then or later (ns).

        Returns:
            `total`, how many match, `number`, which one this is, and its `place`; None where none does.

        Raises:
            UsageError: it is no expression.
        """
        starts, where = self._hits(pattern)
        total = len(starts)
        if not total:
            return {"total": 0, "number": 0, "place": None}
        number = int(np.searchsorted(starts, at)) if number is None else number
        number %= total
        track, lane, row = where[number].tolist()
        ids = self._searched()
        place = self._placed(self.track(ids[track]), lane, row)
        return {"total": total, "number": number, "place": place.shown()}

    def locate(self, rank: int, events: Sequence[int]) -> list[Place]:
        """Where events of the host or of a device are drawn, in the given order, without those that the
        recording does not have.
        """
        found: dict[int, Place] = {}
        for side, first, second, start, event in self._rows(rank, events):
            for track in self.tracks.values():
                if track.rank != rank or _side(track) != side or (first, second) not in track.keys:
                    continue
                drawn = self.lanes(track)
                if isinstance(drawn, Lanes) and (at := _found(drawn, start, event)) is not None:
                    found[event] = self._placed(track, *at)
        return [found[one] for one in events if one in found]

    def place(self, track: Track, event: int) -> Place | None:
        """Where an event of a track is drawn, by the number that tiles have; None where it has none such."""
        drawn = self.lanes(track)
        for number, lane in enumerate(drawn.lanes if isinstance(drawn, Lanes) else ()):
            rows = np.flatnonzero(lane.events.id == event)
            if len(rows):
                return self._placed(track, number, int(rows[0]))
        return None

    def track(self, name: str) -> Track:
        """A track by its id.

        Raises:
            UsageError: there is none.
        """
        return self.tracks[check_name(name, self.tracks, "track", of="the timeline")]

    def lanes(self, track: Track) -> Lanes | Curve:
        """What a track shows."""
        return self._loaded(track.rank, _side(track))[track.id]

    def _placed(self, track: Track, lane: int, row: int) -> Place:
        drawn = self.lanes(track)
        assert isinstance(drawn, Lanes)  # noqa: S101  # curves have no places
        events = drawn.lanes[lane].events
        name = drawn.names[int(events.name[row])].as_py() or ""
        return Place(
            track.id, lane, int(events.start[row]), int(events.end[row]), int(events.id[row]),
            shortened(name), KINDS[events.kind[row]],
        )  # fmt: skip

    def _rows(self, rank: int, events: Sequence[int]) -> list[tuple[Side, int, int, int, int]]:
        """Side, the two numbers that tell its track, start and number of each event."""
        listed = ", ".join(str(int(one)) for one in events) or "NULL"
        query = "SELECT {keys}, start_ns, id FROM {table} WHERE rank = $1 AND id IN ({listed})"
        sides: dict[Side, tuple[str, str]] = {
            "host": ("host_event", "span, thread"),
            "device": ("device_event", "device, stream"),
        }
        with self.scope() as scope:
            return [
                (side, *row.values())
                for side, (table, keys) in sides.items()
                for row in scope.sql(
                    query.format(table=table, keys=keys, listed=listed), [rank]
                ).to_pylist()
            ]

    def _searched(self) -> list[str]:
        return [one.id for one in self.tracks.values() if one.kind in ("thread", "stream", "marks")]

    def _hits(self, pattern: str) -> tuple[Int64s, NDArray[np.int64]]:
        """Starts of what matches, in order, and track (of those searched), lane and row of each."""
        with self._lock:
            if self._found is not None and self._found[0] == pattern:
                return self._found[1], self._found[2]  # type: ignore[return-value]
        wanted = expression(pattern)
        starts, where = [np.zeros(0, np.int64)], [np.zeros((0, 3), np.int64)]
        known: dict[int, NDArray[np.bool_]] = {}
        for number, name in enumerate(self._searched()):
            drawn = self.lanes(self.track(name))
            if not isinstance(drawn, Lanes):
                continue
            matches = known.get(id(drawn.names))
            if matches is None:
                matches = known[id(drawn.names)] = wanted(drawn.names)
            for lane_number, lane in enumerate(drawn.lanes):
                rows = np.flatnonzero(matches[lane.events.name])
                starts.append(lane.events.start[rows])
                columns = (np.full(len(rows), number), np.full(len(rows), lane_number), rows)
                where.append(np.stack(columns, axis=1))
        start = np.concatenate(starts)
        order = np.argsort(start, kind="stable")
        found = start[order], np.concatenate(where)[order]
        with self._lock:
            self._found = (pattern, *found)  # type: ignore[assignment]
        return found

    def _loaded(self, rank: int, side: Side) -> Loaded:
        key = (rank, side)
        with self._lock:
            own = self._loading.setdefault(key, threading.Lock())
        with own:
            with self._lock:
                if key in self._kept:
                    self._kept.move_to_end(key)
                    return self._kept[key]
            made = self._load(rank, side)
            with self._lock:
                self._kept[key] = made
                while len(self._kept) > 1 and _weight(self._kept) > MOST_KEPT:
                    self._kept.popitem(last=False)
            return made

    def _load(self, rank: int, side: Side) -> Loaded:
        own = [one for one in self.tracks.values() if one.rank == rank and _side(one) == side]
        if side == "host":
            return _host_lanes(self.store, rank, own)
        if side == "device":
            return _device_lanes(self.store, rank, own)
        with self.scope() as scope:
            return {one.id: _other(scope, one) for one in own}


def _found(drawn: Lanes, start: int, event: int) -> tuple[int, int] | None:
    """Lane and row of an event that starts then."""
    for number, lane in enumerate(drawn.lanes):
        first, last = np.searchsorted(lane.events.start, [start, start + 1]).tolist()
        rows = np.flatnonzero(lane.events.id[first:last] == event)
        if len(rows):
            return number, first + int(rows[0])
    return None


def _side(track: Track) -> Side:
    return {"thread": "host", "stream": "device", "marks": "device"}.get(track.kind, "other")  # type: ignore[return-value]


def _weight(kept: OrderedDict[tuple[int, Side], Loaded]) -> int:
    return sum(one.events for loaded in kept.values() for one in loaded.values())


def _pairs(scope: Scope, query: str) -> list[tuple[Any, Any]]:
    rows = scope.sql(query)
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def _host_lanes(store: Store, rank: int, tracks: Sequence[Track]) -> Loaded:
    rows = read_columns(
        store, "host_event", rank,
        ["id", "kind", "role", "name", "span", "thread", "depth", "start_ns", "dur_ns"],
    )  # fmt: skip
    kind = _kinds(rows["kind"])
    for role, own in _ROLES.items():
        kind[_is(rows["role"], role)] = KINDS.index(own)
    number = _numbers(rows["span"], rows["thread"], tracks)
    return _lanes(rows, kind, number, rows["depth"].to_numpy(), tracks)


def _device_lanes(store: Store, rank: int, tracks: Sequence[Track]) -> Loaded:
    rows = read_columns(
        store, "device_event", rank,
        ["id", "kind", "name", "device", "stream", "start_ns", "dur_ns"],
    )  # fmt: skip
    kind = _kinds(rows["kind"])
    works = kind <= KINDS.index("fill")
    number = np.zeros(rows.num_rows, np.int16)
    for of_work, wanted in ((works, "stream"), (~works, "marks")):
        own = [one if one.kind == wanted else None for one in tracks]
        number[of_work] = _numbers(rows["device"], rows["stream"], own)[of_work]
    return _lanes(rows, kind, number, np.zeros(rows.num_rows, np.uint8), tracks)


def _lanes(
    rows: pa.Table,
    kind: NDArray[np.int8],
    number: NDArray[np.integer],
    depth: NDArray[np.integer],
    tracks: Sequence[Track],
) -> Loaded:
    names, codes = _coded(rows["name"])
    start = rows["start_ns"].to_numpy()
    events = Columns(start, start + rows["dur_ns"].to_numpy(), codes, kind, rows["id"].to_numpy())
    made = laid_out(events, number, depth, len(tracks))
    return {one.id: Lanes(lanes, names) for one, lanes in zip(tracks, made, strict=True)}


def _coded(column: pa.ChunkedArray) -> tuple[pa.StringArray, NDArray[np.int32]]:
    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = (
            whole.chunk(0) if whole.num_chunks else pa.array([], pa.string()).dictionary_encode()
        )
    codes = whole.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int32)
    return whole.dictionary, codes


def _kinds(column: pa.ChunkedArray) -> NDArray[np.int8]:
    words, codes = _coded(column)
    numbers = [
        KINDS.index(one) if one in KINDS else KINDS.index("other") for one in words.to_pylist()
    ]
    return np.array([*numbers, 0], np.int8)[codes]


def _is(column: pa.ChunkedArray, word: str) -> NDArray[np.bool_]:
    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = (
            whole.chunk(0) if whole.num_chunks else pa.array([], pa.string()).dictionary_encode()
        )
    code = pc.index(whole.dictionary, word).as_py()
    found: NDArray[np.bool_] = pc.fill_null(pc.equal(whole.indices, code), False).to_numpy(
        zero_copy_only=False
    )
    return found


def _numbers(
    first: pa.ChunkedArray, second: pa.ChunkedArray, tracks: Sequence[Track | None]
) -> NDArray[np.int16]:
    """Which of the tracks each row is on, by two of its columns; 0 where on none."""
    one, other = first.to_numpy(), second.to_numpy()
    number = np.zeros(len(one), np.int16)
    for place, track in enumerate(tracks):
        for a, b in track.keys if track is not None else ():
            number[(one == a) & (other == b)] = place
    return number


def _other(scope: Scope, track: Track) -> Lanes | Curve:
    if track.kind in ("counter", "memory"):
        query = _COUNTER if track.kind == "counter" else _MEMORY
        values = scope.numpy(query.replace("$rank", str(track.rank)), list(track.keys[0]))
        return Curve(values["time_ns"], values["value"].astype(np.float64))
    if track.kind == "steps":
        rows = scope.sql(_STEPS.replace("$rank", str(track.rank)))
        kind, names = "step", rows["name"].to_pylist()
    else:
        rows = scope.sql(_COLLECTIVES.replace("$rank", str(track.rank)))
        kind = "communication"
        sizes = ("" if one is None else f" {bytes_text(one)}" for one in rows["bytes"].to_pylist())
        names = [
            f"{name}{size}" for name, size in zip(rows["name"].to_pylist(), sizes, strict=True)
        ]
    words, codes = _coded(pa.chunked_array([pa.array(names, pa.string()).dictionary_encode()]))
    count = rows.num_rows
    events = Columns(
        rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy(), codes,
        np.full(count, KINDS.index(kind), np.int8), rows["id"].to_numpy(),
    )  # fmt: skip
    (lanes,) = laid_out(events, np.zeros(count, np.uint8), np.zeros(count, np.uint8), 1)
    return Lanes(lanes, words)


def _sums(track: str, drawn: Lanes, start: int, end: int) -> list[dict[str, Any]]:
    """Count, summed and longest time within a range of each name and kind on a track."""
    parts = []
    for lane in drawn.lanes:
        events = lane.events.at(lane.touching(start, end))
        inside = (events.end > start) | (events.start >= start)
        parts.append(events.at(np.flatnonzero(inside)))
    events = Columns(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    length = np.minimum(events.end, end) - np.maximum(events.start, start)
    key = events.name.astype(np.int64) * len(KINDS) + events.kind
    counts = np.bincount(key)
    # Exact: below 2^53 ns, a hundred days, sums of integers are exact as floats, too.
    totals = np.bincount(key, weights=length).astype(np.int64)
    longest = np.zeros(len(counts), np.int64)
    np.maximum.at(longest, key, length)
    distinct = np.flatnonzero(counts)
    counts, totals, longest = counts[distinct], totals[distinct], longest[distinct]
    names = drawn.names.take(pa.array(distinct // len(KINDS))).to_pylist()
    return [
        {"track": track, "name": shortened(name or ""), "kind": KINDS[code % len(KINDS)], "count": count,
         "total_ns": total, "longest_ns": most}
        for name, code, count, total, most in zip(
            names, distinct.tolist(), counts.tolist(), totals.tolist(), longest.tolist(), strict=True
        )
    ]  # fmt: skip
