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
"""What recording may take of the time of all steps, everything together."""
OF_STEPS, OF_STACKS, OF_MACHINE = 0.7, 0.2, 0.1
"""What of that is for measuring in steps, for looking at stacks and for looking at the machine."""
_JUDGED = 32
"""Measured steps after which it is looked at what measuring them took."""
_JUDGED_AGAIN = 8
"""The same after k has changed: what is done more seldom takes longer each time."""
_REMEMBERED = 2 * _JUDGED
_MOST_EVERY = 256
"""A run of a minute has some hundreds of timed steps, however short they are. The part above holds all the same,
where measuring a step takes no longer than the step."""
_BESIDES = 2
"""What measuring takes, as a multiple of what is known of it: its code is cold, and so is the job's in the steps after it, in
which it leaves and rests. 1.5 to 2.6 were measured, of phases and of events."""
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
        share: of what recording may take.
    """

    def __init__(self, *, share: float = OF_STEPS) -> None:
        self.share = share
        self.every = 1
        """Every how many-th step measures it."""
        self.cost_ns: int | None = None
        """What that takes of the job, when it was looked at last; the median."""
        self._steps: deque[tuple[int, int, int]] = deque(maxlen=_REMEMBERED)
        self._certain_ns = 0.0
        """What is certain of how much longer measured steps take than those beside them."""
        self._judge_in = _JUDGED
        self._cheap: list[int] = []
        """What k the last measured steps would do with, where that is far below k."""

    def due(self, step: int) -> bool:
        """Whether a step, by its number in the job, is one that measures."""
        return not self.left_out(step)

    def left_out(self, step: int) -> int:
        """How many steps, this one and those that follow, do not measure it."""
        return next_timed(step, self.every) - step

    @property
    def judged(self) -> bool:
        """Whether it was looked at what measuring took."""
        return self.cost_ns is not None

    def spent(self, own_ns: int, step_ns: int, longer_ns: int = 0) -> None:
        """A step that took so long was measured.

        Args:
            own_ns: what was timed as our own.
            step_ns: of the step.
            longer_ns: how much longer it took than those beside it, which scatters as steps do: what is certain of it counts.
        """
        self._steps.append((own_ns, longer_ns, step_ns))
        cost_ns = _BESIDES * max(own_ns, self._certain_ns)
        enough = self._enough(cost_ns, step_ns)
        self._cheap = [*self._cheap, enough] if _TOO_SELDOM * enough <= self.every else []
        if len(self._cheap) == _IN_A_ROW:
            self.cost_ns = round(cost_ns)
            self._change(max(self._cheap))
            return
        self._judge_in -= 1
        if self._judge_in:
            return
        self._judge_in = _JUDGED
        own, longer, times = (sorted(column) for column in zip(*self._steps, strict=True))
        self._certain_ns, _ = median_interval(longer) or (0.0, 0.0)
        cost_ns = _BESIDES * max(quantile(own, 0.5), self._certain_ns)
        self.cost_ns = round(cost_ns)
        every = self._enough(cost_ns, quantile(times, 0.5))
        # Not back and forth between two of them.
        if every > self.every or 2 * every < self.every:
            self._change(every)

    def _change(self, every: int) -> None:
        self.every = every
        self._judge_in = _JUDGED_AGAIN
        self._steps.clear()
        self._cheap = []

    def _enough(self, cost_ns: float, step_ns: float) -> int:
        part = cost_ns / max(step_ns, 1)
        every = 1
        while part > self.share * MOST_PART * every and every < _MOST_EVERY:
            every *= 2
        return every
