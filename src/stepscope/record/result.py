"""Reading the inline profiles of a run back, in a notebook as in HugeCTR's time.

result = parse_result("runs/a")
print_result(result)
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from stepscope.errors import SourceError

_HOST_FIELDS = ("host_name", "avg_iter_time_ms")
_EVENT_FIELDS = (
    "label",
    "start_index",
    "end_index",
    "avg_measured_time_ms",
    "avg_iter_start_to_event_start_time_ms",
)


def parse_result(path: str | Path) -> list[dict[str, Any]]:
    """The inline profiles of a run, one per process, in the order of their ranks.

    Args:
        path: a directory with `<host>.<rank>.prof.json` files, or one such file.

    Raises:
        SourceError: there are none, or one cannot be read.
    """
    path = Path(path)
    files = sorted(path.glob("*.prof.json")) if path.is_dir() else [path]
    if not files:
        raise SourceError(
            f"{path} has no .prof.json files",
            hint="record with a plan, or name the directory given as out",
            slug="no-inline-profile",
        )
    profiles = []
    for file in files:
        try:
            profile = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise SourceError(
                f"{file} cannot be read: {error}", hint="record again", slug="no-inline-profile"
            ) from None
        if not isinstance(profile, dict) or "timeline" not in profile:
            raise SourceError(
                f"{file} is no inline profile",
                hint="give a .prof.json file of `stepscope record --inline`",
                slug="no-inline-profile",
            )
        profiles.append(profile)
    return sorted(profiles, key=lambda profile: (profile.get("rank", 0), profile["host_name"]))


def print_result(result: Sequence[Mapping[str, Any]], file: TextIO | None = None) -> None:
    """Prints profiles as JSON with the averages only, the events of each stream in their order.

    Args:
        result: as `parse_result` gives it.
        file: where to; None for standard output.
    """
    shown = [
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
    (file or sys.stdout).write(json.dumps(shown, indent=2) + "\n")
