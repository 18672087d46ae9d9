"""The parts of a step's time: one declaration for questions, findings, comparisons and charts."""

from __future__ import annotations

from typing import NamedTuple


class Part(NamedTuple):
    """A part of a step's time.

    Args:
        name: its column is `{name}_ns`.
        title: on the page and in charts.
        words: in a sentence.
        meaning: of its column; a moment belongs to the first part that applies.
    """

    name: str
    title: str
    words: str
    meaning: str


STEP_PARTS = (
    Part("kernel", "Kernel", "computation on the device", "at least one kernel that computes was running"),
    Part("copy", "Memcpy", "time in copies", "the device copied and no kernel computed"),
    Part("memset", "Memset", "time in fills", "the device filled memory and did nothing of the above"),
    Part("communication", "Communication", "communication",
         "ranks communicated or waited for each other, none of the above (exposed)"),
    Part("runtime", "Runtime", "time in runtime calls", "the host was in runtime calls and the device was idle"),
    Part("dataloader", "DataLoader", "waiting for the DataLoader",
         "the host waited for a batch of the DataLoader, none of the above"),
    Part("cpu_exec", "CPU Exec", "time in operators and Python on the host",
         "the host ran operators, annotated ranges or Python, none of the above"),
    Part("other", "Other", "time with nothing recorded", "nothing was recorded"),
)  # fmt: skip
"""In order of precedence; the names on screen are those of PyTorch's TensorBoard plugin."""
PARTS = tuple(part.name for part in STEP_PARTS)
DEVICE_PARTS = ("kernel", "copy", "memset")
"""The parts in which the device itself works."""

WAITING = {
    "cpu_exec": "operators and Python",
    "runtime": "runtime calls",
    "range": "ranges with nothing recorded in them",
    "other": "nothing recorded",
}
"""What the host does while the device is idle for a reason that no other part names; `range` is a range in which nothing
else was recorded, elsewhere part of `cpu_exec`."""
IDLE_PARTS = ("communication", "runtime", "dataloader", "cpu_exec", "range", "other")
"""What may run while all devices are idle."""
