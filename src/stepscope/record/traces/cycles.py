"""Which steps of a run a trace records: wait, warm up, record a few, and perhaps again.

The profiler warms up before it records, because the first kernels of a freshly started one go
missing and its start-up would look like the job's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Action = Literal["off", "warmup", "record"]

MOST_ACTIVE = 5
"""Recorded steps by default at most: a trace of an entire run is too large to work with."""


@dataclass(frozen=True, slots=True)
class Cycles:
    """The schedule of a trace.

    Args:
        wait: steps before the warm-up, in every cycle.
        warmup: steps in which the profiler runs and what it sees is thrown away.
        active: recorded steps.
        repeat: cycles.

    Raises:
        ValueError: a number is below what makes sense.

    >>> cycles = Cycles(wait=1, warmup=1, active=2)
    >>> [cycles.action(index) for index in range(5)]
    ['off', 'warmup', 'record', 'record', 'off']
    """

    wait: int = 1
    warmup: int = 1
    active: int = MOST_ACTIVE
    repeat: int = 1

    def __post_init__(self) -> None:
        if min(self.wait, self.warmup) < 0 or min(self.active, self.repeat) < 1:
            raise ValueError("wait and warmup are 0 or more, active and repeat 1 or more")

    @property
    def length(self) -> int:
        """Steps of one cycle."""
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
        """Whether nothing is recorded in this step or after it."""
        return self.cycle(index) >= self.repeat
