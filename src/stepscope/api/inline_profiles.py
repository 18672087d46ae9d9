"""Inline profiles in memory, for notebooks: read, print and ask, as HugeCTR's users did.

result = stepscope.parse_result("runs/a")
stepscope.print_result(result)
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa

from stepscope.api.trace import Trace
from stepscope.base.errors import SourceError, UsageError
from stepscope.formats.container import members
from stepscope.formats.file_names import place_of
from stepscope.formats.inline.document import load, replace_surrogates
from stepscope.formats.inline.reader import label_of, results_in, tables_of
from stepscope.schema.tables import TABLES
from stepscope.store.open import Store

_HOST_FIELDS = ("host_name", "avg_iter_time_ms")
_EVENT_FIELDS = ("label", "start_index", "end_index", "avg_measured_time_ms", "avg_iter_start_to_event_start_time_ms")

ERRORS = {
    "no-inline-profile": (
        "The given path has no inline measurement. Give a `.prof.json` file, or the directory into which the "
        "measurement was written."
    ),
    "profiles-of-one-rank": (
        "Charts of a result of `parse_result` show one run, in which each rank has one profile. Move the "
        "recordings of several runs into separate folders."
    ),
}


def parse_result(path: str | Path) -> list[dict[str, Any]]:
    """Returns the inline profiles of a run, one per process, by rank.

    Files of HugeCTR's own inline profiler come back in the same shape: averages by `device_N` and
    `stream_N`, with their measured times beside them.

    Args:
        path: a directory with `<host>.<rank>.prof.json` files (HugeCTR: `<host>.prof.json`, or one `prof.json`
            with a list of hosts), or one such file.

    Raises:
        SourceError: there are none, or one cannot be read.
    """
    path = Path(path)
    files = [path]
    if path.is_dir():
        files = sorted([*path.glob("*.prof.json"), *path.glob("prof.json")])
    if not files:
        raise SourceError(
            f"{path} has no .prof.json files",
            hint="record with a plan, or name the directory given as out",
            slug="no-inline-profile",
        )
    profiles = []
    for file in files:
        of_names = {place_of(member): member for member in members(file)}  # the last of each, as after unpacking
        for member in of_names.values():
            loaded = load(member)
            for document in results_in(loaded) or [loaded]:
                profile = _by_device(document, file)
                if profile is None:
                    raise SourceError(
                        f"{file} is not an inline profile",
                        hint="give a .prof.json file of `stepscope record --inline`",
                        slug="no-inline-profile",
                    )
                profiles.append(profile)
    return sorted(profiles, key=_place)


def print_result(result: Sequence[Mapping[str, Any]], file: TextIO | None = None) -> None:
    """Prints profiles as JSON with only the averages, the events of each stream in order."""
    averages = [
        {
            **{field: host.get(field) for field in _HOST_FIELDS},
            "timeline": {
                device: {
                    stream: [
                        {field: event.get(field) for field in _EVENT_FIELDS}
                        for event in sorted(events, key=lambda event: int(event["start_index"]))
                    ]
                    for stream, events in streams.items()
                }
                for device, streams in host["timeline"].items()
            },
        }
        for host in result
    ]
    (file or sys.stdout).write(json.dumps(averages, indent=2) + "\n")


def trace_of_profiles(profiles: Sequence[Mapping[str, Any]]) -> Trace:
    """Returns an in-memory trace of a run's inline profiles, one per process.

    Args:
        profiles: what `stepscope.parse_result` returned. A profile that does not state its rank gets its position.

    Raises:
        SourceError: a profile holds no measurements.
        UsageError: two profiles have the same rank.
    """
    rows: dict[str, list[dict[str, Any]]] = {"inline_timing": [], "rank": [], "source": []}
    seen: set[int] = set()
    for place, profile in enumerate(profiles):
        tables = tables_of(replace_surrogates(profile), f"profile {place}")
        rank = place if tables.facts.rank is None else tables.facts.rank
        if rank in seen:
            raise UsageError(
                f"two inline profiles of rank {rank}",
                hint="give the profiles of one run at a time",
                slug="profiles-of-one-rank",
            )
        seen.add(rank)
        read = {"events_read": 0, "events_repaired": 0, "events_dropped": 0, "truncated": False}
        origin = {"rank": rank, "span": 0, "path": f"profile {place}", "format": "inline", "bytes": 0, **read}
        rows["inline_timing"] += [{"rank": rank, "span": 0, **row} for row in tables.inline_timing.to_pylist()]
        rows["source"].append({**origin, "metadata": json.dumps(tables.facts.metadata)})
        host = {"host": tables.facts.host, "world_size": tables.facts.world_size}
        rows["rank"].append({"rank": rank, "resolution_ns": 1, "rank_rule": "single", **host})
    return Trace(
        Store.from_tables({name: pa.Table.from_pylist(some, TABLES[name].arrow()) for name, some in rows.items()})
    )


def _place(profile: Mapping[str, Any]) -> tuple[int, str]:
    rank = profile["rank"]
    return rank if isinstance(rank, int) else 0, str(profile["host_name"])


def _by_device(document: Any, file: Path) -> dict[str, Any] | None:
    """A profile by device and stream; None if the document is not a profile."""
    if isinstance(document, list):  # HugeCTR's first version wrote only the events
        document = {"events": document}
    if not isinstance(document, dict):
        return None
    named = {"host_name": file.name.split(".")[0], "rank": None, **document}
    if isinstance(document.get("timeline"), dict):
        return named
    events = document.get("events")
    if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
        return None
    timeline: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for event in events:
        streams = timeline.setdefault(f"device_{event.get('device_id', 0)}", {})
        stream = streams.setdefault(f"stream_{event.get('stream', 0)}", [])
        stream.append(_hugectr_event(event))
    return {
        "avg_iter_time_ms": _mean(named.pop("iter_time_ms", None)),
        **{key: value for key, value in named.items() if key != "events"},
        "timeline": timeline,
    }


def _hugectr_event(event: Mapping[str, Any]) -> dict[str, Any]:
    offsets = event.get("iter_start_to_event_start_times_ms")
    return {
        "label": label_of(event),
        "start_index": event.get("start_index", 0),
        "end_index": event.get("end_index", 0),
        "avg_measured_time_ms": _mean(event.get("measured_times_ms")),
        "avg_iter_start_to_event_start_time_ms": _mean(offsets),
        "occurrence": event.get("met_times_within_this_stream", 0),
        "measured_times_ms": event.get("measured_times_ms"),
        "iter_start_to_event_start_times_ms": offsets,
    }


def _mean(values: Any) -> float | None:
    if not isinstance(values, list):
        return None
    numbers = [value for value in values if isinstance(value, int | float)]
    return sum(numbers) / len(numbers) if numbers else None
