"""What had to happen before what: the graph of a job's host threads, streams, waits and collectives.

`events` reads a recording, `host` and `device` say in which order its threads and streams ran and what they waited for,
`graph` joins the recordings of all ranks and knows the path that decided when the job was done, `parts` names what lies
on it, and `change` runs the graph again with other durations; `followed` has what several questions share.
"""

from stepscope.formats.evidence import Evidence

RESTS_ON: tuple[Evidence, ...] = (
    "host-times", "device-work", "device-times", "launches", "own-launches", "clocks", "steps", "across-ranks",
)  # fmt: skip
FILLS = "Record host and device: activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]."
"""What a question that follows a graph rests on, and what fills it where it is empty."""
