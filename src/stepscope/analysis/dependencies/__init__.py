"""Builds the dependency graph of a job's host threads, streams, waits and collectives.

`events` reads a recording, `host` and `device` find the order in which its threads and streams ran and what they waited
for, `graph` joins the recordings of all ranks and finds the critical path, `parts` names what lies on it, and `change`
runs the graph again with other durations; `paths` is shared by several questions.
"""

from stepscope.formats.evidence import Evidence

RESTS_ON: tuple[Evidence, ...] = (
    "host-times", "device-work", "device-times", "launches", "own-launches", "clocks", "steps", "across-ranks",
)  # fmt: skip
FILLS = "Record host and device: activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]."
"""The evidence behind questions that follow a graph, and what fills an empty answer."""
