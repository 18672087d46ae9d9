"""Decides how often a step is measured, by the cost of measuring it, and sums the time of the steps in between.

One step in each block of k, a power of two, is measured. Its place is drawn, or what a job does every 64th step would
always be measured, or never. It is drawn from the job's step numbers and from the steps that a smaller k measures, so
that ranks with different k measure steps in common without communicating.
"""

from __future__ import annotations

from collections import deque
from functools import lru_cache

from stepscope.base.statistics import median_interval, quantile

MAX_SHARE = 0.005
"""The part of the time of all steps that recording may take in total."""
OF_STEPS, OF_STACKS, OF_MACHINE = 0.7, 0.2, 0.1
"""Parts of that for measuring in steps, for sampling stacks and for reading the machine."""
_JUDGED = 32  # measured steps before their cost is first judged
_JUDGED_AGAIN = 8  # the same after k has changed: rarer work has colder caches, and takes longer each time
_REMEMBERED = 2 * _JUDGED
_MAX_INTERVAL = 256
"""A run of a minute has some hundred timed steps, however short they are. The limit above still holds if measuring a
step takes no longer than the step."""
_BESIDES = 2
"""The cost of measuring as a multiple of what is timed: its code is cold, and so is the job's code in the steps after
it, in which it stops and rests. 1.5 to 2.6 were measured for phases and events."""
_IN_A_ROW, _TOO_SELDOM = 3, 4
"""This many measured steps in a row that would allow a k this many times smaller get it at once: if steps have become
long, the next judgement is minutes away."""
_WORD = (1 << 64) - 1


def next_timed(step: int, interval: int) -> int:
    """The first step from this one on that is measured if one in `interval`, a power of two, is: the measured step of a
    block of 2 ** j steps is that of one of its halves, chosen by a hash of j and the block's number.
    """
    if interval == 1:
        return step
    level = interval.bit_length() - 1
    block = step >> level
    chosen = _chosen(level, block)
    return chosen if chosen >= step else _chosen(level, block + 1)


@lru_cache(maxsize=64)
def _chosen(level: int, block: int) -> int:
    for of in range(level, 0, -1):
        # SplitMix64's finalizer: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
        word = (block * 64 + of) * 0x9E3779B97F4A7C15 & _WORD
        word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & _WORD
        word = (word ^ word >> 27) * 0x94D049BB133111EB & _WORD
        block = 2 * block + (word >> 63)
    return block


class Budget:
    """The cost of one measured thing: the phases, or an event of a plan. Its first 32 turns are always measured."""

    def __init__(self, *, share: float = OF_STEPS) -> None:
        self.share = share
        self.interval = 1
        """It is measured in one of this many steps."""
        self.cost_ns: int | None = None
        """Its last judged cost to the job, the median."""
        self._steps: deque[tuple[int, int, int]] = deque(maxlen=_REMEMBERED)
        self._certain_ns = 0.0  # the certain part of how much longer measured steps take than their neighbours
        self._judge_in = _JUDGED
        self._cheap: list[int] = []  # the k that the last measured steps would allow, where that is far below k

    def due(self, step: int) -> bool:
        return not self.left_out(step)

    def left_out(self, step: int) -> int:
        """How many steps, from this one on, do not measure it."""
        return next_timed(step, self.interval) - step

    @property
    def judged(self) -> bool:
        return self.cost_ns is not None

    def spent(self, overhead_ns: int, step_ns: int, slowdown_ns: int = 0) -> None:
        """Records the cost of a measured step.

        Args:
            slowdown_ns: how much longer it was than its neighbours. Only its certain part counts, because it scatters.
        """
        self._steps.append((overhead_ns, slowdown_ns, step_ns))
        cost_ns = _BESIDES * max(overhead_ns, self._certain_ns)
        enough = self._enough(cost_ns, step_ns)
        self._cheap = [*self._cheap, enough] if _TOO_SELDOM * enough <= self.interval else []
        if len(self._cheap) == _IN_A_ROW:
            self.cost_ns = round(cost_ns)
            self._change(max(self._cheap))
            return
        self._judge_in -= 1
        if self._judge_in:
            return
        self._judge_in = _JUDGED
        overheads, longer, times = (sorted(column) for column in zip(*self._steps, strict=True))
        self._certain_ns, _ = median_interval(longer) or (0.0, 0.0)
        cost_ns = _BESIDES * max(quantile(overheads, 0.5), self._certain_ns)
        self.cost_ns = round(cost_ns)
        interval = self._enough(cost_ns, quantile(times, 0.5))
        # Avoids switching back and forth between two values.
        if interval > self.interval or 2 * interval < self.interval:
            self._change(interval)

    def _change(self, interval: int) -> None:
        self.interval = interval
        self._judge_in = _JUDGED_AGAIN
        self._steps.clear()
        self._cheap = []

    def _enough(self, cost_ns: float, step_ns: float) -> int:
        part = cost_ns / max(step_ns, 1)
        interval = 1
        while part > self.share * MAX_SHARE * interval and interval < _MAX_INTERVAL:
            interval *= 2
        return interval


class UntimedBlock:
    """Counts steps and sums their time (`ns`) until `take`; untimed ones only in a block, from `pause` to `resume`."""

    __slots__ = ("_running", "_since_ns", "ns", "steps")

    def __init__(self) -> None:
        self.steps = self.ns = 0
        self._running = 0
        self._since_ns: int | None = None

    def timed(self, time_ns: int) -> None:
        self.steps += 1
        self.ns += time_ns

    def pause(self, now_ns: int) -> None:
        """Starts a block, unless one runs: an untimed step starts."""
        if self._since_ns is None:
            self._running, self._since_ns = 0, now_ns

    def skipped(self, steps: int) -> None:
        self._running += steps

    def exclude(self, time_ns: int) -> None:
        """Subtracts time in the block that belongs to no step."""
        if self._since_ns is not None:
            self._since_ns += time_ns

    def resume(self, now_ns: int | None) -> None:
        """Ends the block; None if the time is unknown, or the block does not count."""
        if self._since_ns is not None and now_ns is not None and self._running:
            self.steps += self._running
            self.ns += now_ns - self._since_ns
        self._running, self._since_ns = 0, None

    def take(self) -> tuple[int, int]:
        steps, ns = self.steps, self.ns
        self.steps = self.ns = 0
        return steps, ns
