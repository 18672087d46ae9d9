"""Dependency graph of a job's host threads, streams, waits and collectives: its critical path, and replays with
changes."""

from stepscope.formats.evidence import Evidence

RESTS_ON: tuple[Evidence, ...] = (
    "host-times", "device-work", "device-times", "launches", "own-launches", "clocks", "steps", "across-ranks",
)  # fmt: skip
FILLS = "Record host and device: activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]."
"""The evidence behind questions that follow a graph, and what fills an empty answer."""
