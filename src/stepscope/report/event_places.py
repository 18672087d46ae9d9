"""Assigns each event of a rank a process and track in a trace file, so that slices nest.

Ids of processes and threads are kept as recorded unless the file has them already; then the later rank gets others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from stepscope.formats.vocabulary import DEVICE_TYPES, EXPORTED_PART

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.query.scope import Scope

    Ints = NDArray[np.int64]
    Columns = Mapping[str, NDArray[Any]]

NESTED_TRACKS = 8
"""Tracks of a thread on which slices may nest. Slices that would cross on all of them go to further tracks, side by
side."""

_PLACE = pa.schema(
    [("id", pa.int64()), ("seq", pa.int64()), ("pid", pa.string()), ("tid", pa.string()),
     ("start_ns", pa.int64())]
)  # fmt: skip


class _Ids:
    """Unique ids, as JSON."""

    def __init__(self, first: int) -> None:
        self.taken: set[str] = set()
        self._free = count(first)

    def take(self, spelled: str) -> str:
        """Returns the id `spelled` if it is free, else another."""
        while not spelled or _as_id(spelled) in self.taken:
            spelled = str(next(self._free))
        self.taken.add(_as_id(spelled))
        return _as_id(spelled)


class Processes:
    """The processes of a file."""

    def __init__(self) -> None:
        self._ids = _Ids(1_000_000)
        self._places = count(1)

    def add(self, name: str, spelled: str = "") -> Process:
        """Adds a process below the others, with the id `spelled` if that is free."""
        return Process(self._ids.take(spelled), name, next(self._places))


class Process:
    """A process of a file: `pid` is its id as JSON."""

    def __init__(self, pid: str, name: str, place: int) -> None:
        self.pid = pid
        self._ids = _Ids(1)
        self._named = [
            self._row("process_name", "0", name=name),
            self._row("process_sort_index", "0", sort_index=place),
        ]

    def add_part(self, of: _Track) -> str:
        """Adds a track for slices that cross others of a track; returns its id as JSON."""
        tid = self.add(f"{of.name} (overlapping)")
        self._named.append(self._row(EXPORTED_PART, tid, name=str(json.loads(of.tid))))
        return tid

    def add(self, name: str, spelled: str = "") -> str:
        """Adds a track below the others, with the id `spelled` if that is free; returns its id as JSON."""
        tid = self._ids.take(spelled)
        self._named.append(self._row("thread_name", tid, name=name))
        self._named.append(self._row("thread_sort_index", tid, sort_index=len(self._ids.taken)))
        return tid

    def names(self) -> str:
        """The events that name it and its tracks, except names already written."""
        rows, self._named = self._named, []
        return "".join(rows)

    def _row(self, what: str, tid: str, **args: object) -> str:
        return f',{{"ph":"M","name":"{what}","pid":{self.pid},"tid":{tid},"ts":0,"args":{json.dumps(args)}}}\n'


def _as_id(spelled: str) -> str:
    """An id as JSON: a number if viewers can represent it."""
    plain = spelled.isascii() and spelled.isdecimal() and len(spelled) < 10
    return str(int(spelled)) if plain else json.dumps(spelled)


_THREADLESS = "SELECT DISTINCT span FROM memory_event WHERE rank = $rank AND thread IS NULL"
_INSTANTS = "SELECT DISTINCT pid, tid FROM instant WHERE rank = $rank ORDER BY ALL"
_COUNTERS = "SELECT DISTINCT coalesce(pid, '') FROM counter WHERE rank = $rank ORDER BY 1"


@dataclass(frozen=True, slots=True)
class _Track:
    process: Process
    name: str
    tid: str


class RankPlaces:
    """The processes and tracks of a rank's events.

    Attributes:
        processes: those of the rank, in order.
        added: the process of the tracks that StepScope adds.
        tables: tables for the queries of `trace_event_text`, by name.
        counts: the number of host and of device events.
    """

    def __init__(self, scope: Scope, rank: int, processes: Processes) -> None:
        """Places all of the rank's events in the scope."""
        self._scope, self._rank, self._processes = scope, rank, processes
        (about,) = scope.sql(f"SELECT host FROM rank WHERE rank = {rank}").to_pylist()
        self._title = f"rank {rank}" + (f" on {about['host']}" if about["host"] else "")
        self.added = processes.add(f"{self._title}: StepScope")
        self.processes = [self.added]
        self._of_host: dict[str, Process] = {}
        self._spelled: dict[tuple[str, str], int] = {}
        self._tracks: list[_Track] = []
        host, threads = self._host()
        device, of_device = self._device()
        self.counts = {"host": host.num_rows, "device": device.num_rows}
        self.tables = {
            "host": host,
            "device": device,
            "thread": _table(
                {"span": pa.int16(), "thread": pa.int32()},
                [(span, thread, *self._ids(at)) for (span, thread), at in threads.items()]
                + [(span, None, *self._ids(self._track("", ""))) for (span,) in self._query(_THREADLESS)],
            ),
            "spelled": _table(
                {"spelled_pid": pa.string(), "spelled_tid": pa.string()},
                [(pid, tid, *self._ids(self._track(pid, tid))) for pid, tid in self._query(_INSTANTS)],
            ),
            "process": _table(
                {"spelled": pa.string()},
                [(pid, self._counted(pid, of_device).pid, "") for (pid,) in self._query(_COUNTERS)],
            ),
            "kind": pa.table(
                {"name": list(DEVICE_TYPES.values()), "code": list(DEVICE_TYPES)}
            ),
        }  # fmt: skip

    def _add(self, name: str, spelled: str) -> Process:
        self.processes.append(self._processes.add(f"{self._title}: {name}", spelled))
        return self.processes[-1]

    def _query(self, text: str) -> list[tuple[Any, ...]]:
        rows = self._scope.sql(text.replace("$rank", str(self._rank))).to_pylist()
        return [tuple(row.values()) for row in rows]

    def _ids(self, at: int) -> tuple[str, str]:
        return self._tracks[at].process.pid, self._tracks[at].tid

    def _track(self, pid: str, tid: str, process_name: str = "", name: str = "") -> int:
        """The index in `_tracks` of the host track with these ids; adds it if it is missing."""
        if (pid, tid) not in self._spelled:
            if pid not in self._of_host:
                of = f"process {pid}" if pid else "process not recorded"
                words = f"{of} ({process_name})" if process_name else of
                self._of_host[pid] = self._add(words, pid)
            process = self._of_host[pid]
            name = name or (f"thread {tid}" if tid else "thread not recorded")
            self._spelled[pid, tid] = len(self._tracks)
            self._tracks.append(_Track(process, name, process.add(name, tid)))
        return self._spelled[pid, tid]

    def _host(self) -> tuple[pa.Table, dict[tuple[int, int], int]]:
        threads = {
            (span, thread): self._track(pid, tid, process_name or "", name or "")
            for span, thread, pid, tid, process_name, name in self._query(
                "SELECT span, thread, pid, tid, process_name, thread_name FROM thread "
                "WHERE rank = $rank ORDER BY span, thread"
            )
        }
        events = self._scope.numpy(
            "SELECT id, span, thread, start_ns, start_ns + dur_ns AS end_ns, depth FROM host_event "
            f"WHERE rank = {self._rank}"
        )
        track = _mapped(events["span"], events["thread"], threads)
        return _placed(events, track, self._tracks), threads

    def _device(self) -> tuple[pa.Table, dict[str, Process]]:
        of_device: dict[str, Process] = {}
        tracks: list[_Track] = []
        streams: dict[tuple[int, int], int] = {}
        for device, stream, model, name in self._query(
            "SELECT work.device, work.stream, device.name AS model, stream.name FROM "
            "(SELECT DISTINCT device, stream FROM device_event WHERE rank = $rank) AS work "
            "LEFT JOIN device ON (device.rank, device.device) = ($rank, work.device) "
            "LEFT JOIN stream ON (stream.rank, stream.device, stream.stream) "
            "= ($rank, work.device, work.stream) ORDER BY work.device, work.stream"
        ):
            if str(device) not in of_device:
                words = f"device {device}" + (f" ({model})" if model else "")
                of_device[str(device)] = self._add(words, str(device))
            process = of_device[str(device)]
            words = (name or "").strip() or (f"stream {stream}" if stream >= 0 else "stream not recorded")
            streams[device, stream] = len(tracks)
            tracks.append(_Track(process, words, process.add(words, str(stream))))
        events = self._scope.numpy(
            "SELECT id, device, stream, start_ns, start_ns + dur_ns AS end_ns, 0 AS depth "
            f"FROM device_event WHERE rank = {self._rank}"
        )
        return _placed(events, _mapped(events["device"], events["stream"], streams), tracks), of_device

    def _counted(self, pid: str, of_device: Mapping[str, Process]) -> Process:
        """The process to which counters of this id belong: a host process, or the device with this number."""
        process = self._of_host.get(pid) or of_device.get(pid)
        return process or self._add(f"counters of {pid}" if pid else "counters", pid)


def _table(keys: Mapping[str, pa.DataType], rows: list[tuple[Any, ...]]) -> pa.Table:
    schema = pa.schema([*keys.items(), ("pid", pa.string()), ("tid", pa.string())])
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)


def _mapped(first: Ints, second: Ints, numbers: Mapping[tuple[int, int], int]) -> Ints:
    if not len(first):
        return np.zeros(0, np.int64)
    pairs, which = np.unique(np.stack((first, second)), axis=1, return_inverse=True)
    tracks = np.array([numbers[a, b] for a, b in pairs.T.tolist()], np.int64)
    return tracks[which.reshape(-1)]


def _placed(events: Columns, track: Ints, tracks: list[_Track]) -> pa.Table:
    """Id, place in the file, process, track and start of each event; adds tracks where slices would cross."""
    start, end = events["start_ns"].astype(np.int64), events["end_ns"].astype(np.int64)
    order = np.lexsort((events["id"], events["depth"], -end, start, track))
    track, start, end = track[order], start[order], end[order]
    layer = layers(track, start, end)
    width = int(layer.max(initial=0)) + 1
    places, which = np.unique(track * width + layer, return_inverse=True)
    ids = []
    for base, level in (divmod(place, width) for place in places.tolist()):
        at = tracks[base]
        tid = at.process.add_part(at) if level else at.tid
        ids.append((at.process.pid, tid))
    columns = [
        pa.DictionaryArray.from_arrays(pa.array(which.reshape(-1), pa.int32()), pa.array(texts, pa.string()))
        for texts in (list(zip(*ids, strict=True)) or [(), ()])
    ]
    return pa.Table.from_arrays(
        [
            pa.array(events["id"][order]),
            pa.array(np.arange(len(order), dtype=np.int64)),
            *(column.cast(pa.string()) for column in columns),
            pa.array(start),
        ],
        schema=_PLACE,
    )


def layers(track: Ints, start: Ints, end: Ints) -> Ints:
    """A layer of its track for each event, from 0, so that slices nest.

    Args:
        track: numbers of the tracks, ascending.
        start, end: times; within a track by start, longest first.
    """
    chosen = []
    before = None
    open_ends: list[list[int]] = []
    busy: list[tuple[int, int]] = []
    for current, opens, closes in zip(track.tolist(), start.tolist(), end.tolist(), strict=True):
        if current != before:
            before, open_ends, busy = current, [[]], []
        for layer, ends in enumerate(open_ends):
            while ends and ends[-1] <= opens:
                ends.pop()
            if not ends or ends[-1] >= closes:
                ends.append(closes)
                chosen.append(layer)
                break
        else:
            layer = len(open_ends)
            if layer < NESTED_TRACKS:
                open_ends.append([closes])
            else:
                free = heappop(busy)[1] if busy and busy[0][0] <= opens else len(busy)
                heappush(busy, (closes, free))
                layer += free
            chosen.append(layer)
    return np.array(chosen, np.int64)
