"""Writes a recording as a Trace Event file, which Perfetto and chrome://tracing show.

Events are written as Kineto writes them, so that the file can be read again as a trace. DuckDB makes their text, some
hundred thousand events at a time; this module decides the order. Viewers need nested slices on a track: an event that
crosses the end of another goes to a further track.

The tracks that StepScope adds all have the category `EXPORTED_TRACKS`, which the trace reader skips.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from isal import igzip

from stepscope.base.complete_file import complete_output
from stepscope.base.errors import SourceError
from stepscope.formats.kineto.metadata import DEVICE_KEYS
from stepscope.report.added_tracks import ADDED_COUNTERS, ADDED_SLICES, critical_path
from stepscope.report.event_places import Processes, RankPlaces
from stepscope.report.trace_event_text import (
    BACKWARD_ARROWS,
    COUNTERS,
    DEVICE_EVENTS,
    HOST_EVENTS,
    INSTANTS,
    LAUNCH_ARROWS,
    MEMORY,
    OURS,
    added_counter,
    added_slice,
)
from stepscope.store.progress import SILENT, Progress

if TYPE_CHECKING:
    import pyarrow as pa

    from stepscope.query.scope import Scope

ERRORS = {
    "no-timeline": (
        "The recording, or the part of it that `stepscope export` should write, has no events on a time line: "
        "phases and measurements of single events are sums and durations. Record a trace, or choose other "
        "ranks, steps or another window."
    )
}

CHUNK = 200_000  # events whose text is in memory at once: some 100 MB
_FIRST_NS = 1000  # the time of the first event, because a trace reader takes the time 0 for a missing one
_TIMES = {
    "host_event": "start_ns",
    "device_event": "least(start_ns, launch_ns)",
    "step": "start_ns",
    "memory_event": "time_ns",
    "instant": "time_ns",
    "counter": "time_ns",
}
"""The tables that are written, and the column with the start of their rows."""


def write_trace_events(scope: Scope, target: Path, progress: Progress = SILENT) -> int:
    """Writes a scope's events, all ranks on one time line, compressed if the name ends in `.gz`; returns how many.

    Raises:
        SourceError: the scope has no events.
        StepScopeError: the file cannot be written.
    """
    total = sum(scope.value(f"SELECT count(*) FROM {table}") for table in ("host_event", "device_event"))
    if not total:
        raise SourceError(
            "no events on a time line to export",
            hint="ask for other ranks, steps or another window, or record a trace",
            slug="no-timeline",
        )
    progress.start(f"Writing {target.name}", total=total)
    first = " UNION ALL ".join(f"SELECT min({start}) AS at_ns FROM {table}" for table, start in _TIMES.items())
    shift = _FIRST_NS - scope.value(f"SELECT min(at_ns) FROM ({first})")
    with complete_output(target) as unfinished, _opened(unfinished, target) as out:
        head = json.dumps(_metadata(scope, shift))
        out.write(f'{head[:-1]}, "traceEvents": [\n'.encode())
        processes, arrows, path = Processes(), 1, critical_path(scope)
        for at, rank in enumerate(scope.ranks):
            arrows = _write_rank(scope, rank, path, shift, processes, out, progress, arrows, first=at == 0)
        out.write(b"]}\n")
    progress.finish()
    return int(total)


@contextmanager
def _opened(unfinished: Path, target: Path) -> Iterator[IO[bytes]]:
    with unfinished.open("wb") as file:
        if target.suffix != ".gz":
            yield file
            return
        with igzip.IGzipFile(fileobj=file, mode="wb", compresslevel=2, mtime=0) as packed:
            yield packed


def _metadata(scope: Scope, shift: int) -> dict[str, Any]:
    """The ranks in the file and, if it is one, the metadata of its trace."""
    (rank, *further) = scope.ranks
    metadata: dict[str, Any] = {}
    devices: list[dict[str, Any]] = []
    if not further:
        (about,) = scope.sql(f"FROM rank WHERE rank = {rank}").to_pylist()
        (source, *_) = scope.sql(
            f"SELECT format, metadata FROM source WHERE rank = {rank} ORDER BY span LIMIT 1"
        ).to_pylist()
        if source["format"] == "kineto":
            metadata = json.loads(source["metadata"] or "{}")
        job = {name: about[name] for name in ("world_size", "local_rank", "backend")}
        recorded = metadata.get("distributedInfo")
        metadata["distributedInfo"] = {
            "rank": rank,
            **{name: value for name, value in job.items() if value is not None},
            **(recorded if isinstance(recorded, dict) else {}),
        }
        metadata |= {name: about[name] for name in ("host", "pid") if about[name] is not None}
        devices = scope.sql(f"FROM device WHERE rank = {rank} ORDER BY device").to_pylist()
    if devices and "deviceProperties" not in metadata:
        metadata["deviceProperties"] = [
            {"id": device["device"]} | {key: device[name] for name, key in _DEVICE.items() if device[name] is not None}
            for device in devices
        ]
    for key in ("traceEvents", "baseTimeNanoseconds", "displayTimeUnit", "schemaVersion"):
        metadata.pop(key, None)
    epoch = scope.store.start_epoch_ns
    ours = metadata.pop(OURS, None)
    return {
        "schemaVersion": 1,
        "displayTimeUnit": "ms",
        **({} if epoch is None else {"baseTimeNanoseconds": epoch - shift}),
        **metadata,
        OURS: {**(ours if isinstance(ours, dict) else {}), "exported_ranks": [rank, *further]},
    }


_DEVICE = {
    "name": "name",
    "memory_bytes": "totalGlobalMem",
    "shared_memory_per_sm_bytes": "sharedMemPerMultiprocessor",
    **DEVICE_KEYS,
}


def _write_rank(
    scope: Scope,
    rank: int,
    path: pa.Table,
    shift: int,
    processes: Processes,
    out: IO[bytes],
    progress: Progress,
    arrows: int,
    *,
    first: bool,
) -> int:
    """Writes one rank; returns the number of the next arrow."""

    def write(query: str, **further: Any) -> None:
        values = {"rank": rank, "shift": shift, **further}
        params = {name: value for name, value in values.items() if f"${name}" in query}
        rows = scope.sql(query, params).column("text")
        out.write("".join(rows.to_pylist()).encode())

    places = RankPlaces(scope, rank, processes)
    added = places.added
    names = "".join(process.names() for process in places.processes)
    out.write((names[1:] if first else names).encode())
    with scope.with_temp_tables("export", {**places.tables, "critical_path": path}):
        for side, events, arrows_of in (
            ("host", HOST_EVENTS, BACKWARD_ARROWS),
            ("device", DEVICE_EVENTS, LAUNCH_ARROWS),
        ):
            rows = places.counts[side]
            for low in range(0, rows, CHUNK):
                chunk = {"first": low, "last": low + CHUNK}
                write(events, **chunk)
                write(arrows_of, **chunk, number=arrows)
                progress.advance(min(CHUNK, rows - low))
            arrows += rows
        for query in (MEMORY, INSTANTS, COUNTERS):
            write(query)
        for query in ADDED_SLICES:
            tracks = scope.sql(f"SELECT DISTINCT track FROM ({query}) ORDER BY 1", {"rank": rank})
            for track in tracks.column("track").to_pylist():
                tid = added.add(track)
                out.write(added.names().encode())
                write(added_slice(query, added.pid, tid), track=track)
        for query in ADDED_COUNTERS:
            write(added_counter(query, added.pid))
    return arrows
