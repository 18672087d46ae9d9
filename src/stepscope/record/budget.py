"""How often a step is measured, by what measuring one takes of it.

One step of each block of k is, k being a power of two. Which one is drawn, for what a job does every 64th step would
else always be measured, or never. It is drawn from the numbers of the job's steps alone, and out of the steps that a
smaller k measures: so ranks whose k differ measure steps in common without talking to each other, and a job whose ranks
wait for one another pays for the same steps.
"""

from __future__ import annotations

from collections import deque
from functools import lru_cache

from stepscope.floor.statistics import median_interval, quantile

MOST_PART = 0.005
"""What measuring may take of the time of all steps."""
_JUDGED = 32
"""Measured steps after which it is looked at what measuring them took."""
_JUDGED_AGAIN = 8
"""The same after k has changed: what is done more seldom takes longer each time."""
_REMEMBERED = 2 * _JUDGED
_MOST_EVERY = 1024
_IN_A_ROW, _TOO_SELDOM = 3, 4
"""So many measured steps in a row that would do with a k so many times smaller get it at once: where steps have become
long, those until the next judgement are minutes."""
_WORD = (1 << 64) - 1


def next_timed(step: int, every: int) -> int:
    """The first step from this one on that is measured where one of `every`, a power of two, is.

    The one of a block of 2 ** j steps is that of one of its halves, by a hash of j and the block's number.
    """
    if every == 1:
        return step
    level = every.bit_length() - 1
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
    """What one thing costs that is measured in steps: the phases, or an event of a plan.

    The first 32 times it is measured whenever its turn is: a short run would else have nothing.

    Args:
        scatters: whether costs are differences between steps, and scatter as these do.
    """

    def __init__(self, *, scatters: bool = False) -> None:
        self._scatters = scatters
        self.every = 1
        """Every how many-th step measures it."""
        self.cost_ns: int | None = None
        """What that took of a step when it was looked at last; the median."""
        self._steps: deque[tuple[int, int]] = deque(maxlen=_REMEMBERED)
        self._judge_in = _JUDGED
        self._cheap: list[int] = []
        """What k the last measured steps would do with, where that is far below k."""

    def due(self, step: int) -> bool:
        """Whether a step, by its number in the job, is one that measures."""
        return not self.left_out(step)

    def left_out(self, step: int) -> int:
        """How many steps, this one and those that follow, do not measure it."""
        return next_timed(step, self.every) - step

    def spent(self, cost_ns: int, step_ns: int) -> None:
        """A step that took so long was measured, at this cost."""
        self._steps.append((cost_ns, step_ns))
        # One that scatters says nothing alone: what is known of it is taken.
        known_ns = max(cost_ns, self.cost_ns or 0) if self._scatters else cost_ns
        enough = _every(known_ns, step_ns)
        self._cheap = [*self._cheap, enough] if _TOO_SELDOM * enough <= self.every else []
        if len(self._cheap) == _IN_A_ROW:
            self.cost_ns = known_ns
            self._change(max(self._cheap))
            return
        self._judge_in -= 1
        if self._judge_in:
            return
        self._judge_in = _JUDGED
        costs, times = (sorted(column) for column in zip(*self._steps, strict=True))
        cost = quantile(costs, 0.5)
        self.cost_ns = round(cost)
        if self._scatters:  # what is certain of it
            cost, _ = median_interval(costs) or (0, 0)
        every = _every(cost, quantile(times, 0.5))
        # Not back and forth between two of them.
        if every > self.every or 2 * every < self.every:
            self._change(every)

    def _change(self, every: int) -> None:
        self.every = every
        self._judge_in = _JUDGED_AGAIN
        self._steps.clear()
        self._cheap = []


def _every(cost_ns: float, step_ns: float) -> int:
    part = cost_ns / max(step_ns, 1)
    every = 1
    while part > MOST_PART * every and every < _MOST_EVERY:
        every *= 2
    return every
