"""Decides which steps a trace records: wait, warm up, record a few, and perhaps repeat.

The profiler warms up before it records, because the first kernels after its start are lost, and its start-up would look
like the job's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Action = Literal["off", "warmup", "record"]

MAX_ACTIVE = 5
"""Largest default number of recorded steps: a trace of an entire run is too large to work with."""


@dataclass(frozen=True, slots=True)
class Cycles:
    """The schedule of a trace.

    Args:
        wait: steps before the warm-up, in every cycle.
        warmup: steps in which the profiler runs and its data is discarded.
        active: recorded steps.
        repeat: number of cycles.

    Raises:
        ValueError: a number is too small.

    >>> cycles = Cycles(wait=1, warmup=1, active=2)
    >>> [cycles.action(index) for index in range(5)]
    ['off', 'warmup', 'record', 'record', 'off']
    """

    wait: int = 1
    warmup: int = 1
    active: int = MAX_ACTIVE
    repeat: int = 1

    def __post_init__(self) -> None:
        if min(self.wait, self.warmup) < 0 or min(self.active, self.repeat) < 1:
            raise ValueError("wait and warmup are 0 or more, active and repeat 1 or more")

    @property
    def length(self) -> int:
        return self.wait + self.warmup + self.active

    def cycle(self, index: int) -> int:
        """The cycle that a step belongs to, from 0."""
        return index // self.length

    def action(self, index: int) -> Action:
        """What to do in a step, counted from the recording's first."""
        if index < 0 or self.cycle(index) >= self.repeat:
            return "off"
        within = index % self.length
        if within < self.wait:
            return "off"
        return "warmup" if within < self.wait + self.warmup else "record"

    def over(self, index: int) -> bool:
        """Whether nothing is recorded from this step on."""
        return self.cycle(index) >= self.repeat
