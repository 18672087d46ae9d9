"""Reads the settings of recordings, and finds those in which two differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from stepscope.query.scope import Scope

UNSET = "not set"
_OF_TRACES = (
    "cuda_runtime_version", "cuda_driver_version", "hip_runtime_version", "record_shapes", "profile_memory",
    "with_stack", "with_flops", "with_modules",
)  # fmt: skip
"""What torch's profiler writes about versions and its own options, each of which makes a step slower."""
_METADATA = "SELECT DISTINCT metadata FROM source WHERE metadata IS NOT NULL ORDER BY metadata"
_ELSEWHERE = """
    SELECT DISTINCT 'device' AS name, "name" AS value FROM device WHERE used AND "name" IS NOT NULL
    UNION ALL SELECT DISTINCT 'ranks of the job', world_size::VARCHAR FROM rank WHERE world_size IS NOT NULL
    UNION ALL SELECT DISTINCT 'backend', backend FROM rank WHERE backend IS NOT NULL
    UNION ALL SELECT DISTINCT tool, tool_version FROM source
        WHERE tool IS NOT NULL AND tool_version IS NOT NULL
    ORDER BY ALL
"""


def settings_of(scope: Scope) -> dict[str, str]:
    """The settings that a recording states, by name, as text; values that differ between ranks are joined."""
    settings: dict[str, list[str]] = {}

    def add(name: str, value: Any) -> None:
        text = _text(value)
        if text not in settings.setdefault(name, []):
            settings[name].append(text)

    for row in scope.sql(_METADATA).to_pylist():
        metadata = json.loads(row["metadata"])
        if not isinstance(metadata, dict):
            continue
        for name, value in _stated(metadata):
            add(name, value)
    for row in scope.sql(_ELSEWHERE).to_pylist():
        add(row["name"], row["value"])
    return {name: ", ".join(sorted(values)) for name, values in sorted(settings.items())}


def _stated(metadata: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name in _OF_TRACES:
        if name in metadata:
            flag = metadata[name] in (0, 1)  # torch writes options as numbers
            yield name, bool(metadata[name]) if flag else metadata[name]
    distributed = metadata.get("distributedInfo")
    if isinstance(distributed, dict) and "nccl_version" in distributed:
        yield "nccl", distributed["nccl_version"]
    ours = metadata.get("stepscope")
    for holder in (metadata, ours if isinstance(ours, dict) else {}):
        settings = holder.get("settings")
        for name, value in settings.items() if isinstance(settings, dict) else ():
            if name != "environment":
                yield name, value
            elif isinstance(value, dict):
                yield from value.items()


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def differing(before: Mapping[str, str], after: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Settings that differ, with both values; `UNSET` for a side without it.

    Settings that only one side could state are left out: environment variables count if both list theirs.
    """
    both = before.keys() & after.keys()
    listed = "torch" in both  # StepScope's own settings, which name every variable that is set
    names = sorted(name for name in before.keys() | after.keys() if name in both or (listed and name == name.upper()))
    pairs = ((name, before.get(name, UNSET), after.get(name, UNSET)) for name in names)
    return [pair for pair in pairs if pair[1] != pair[2]]
