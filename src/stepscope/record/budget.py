"""How often a step is measured, by what measuring one takes of it.

Every k-th step is, and k is a power of two that counts the job's steps. So ranks whose k differ measure steps in common
without talking to each other, and a job whose ranks wait for one another pays for the same steps.
"""

from __future__ import annotations

from collections import deque

from stepscope.floor.statistics import median_interval, quantile

MOST_PART = 0.005
"""What measuring may take of the time of all steps."""
_JUDGED = 32
"""Measured steps after which it is looked at what measuring them took."""
_JUDGED_AGAIN = 8
"""The same after k has changed: what is done more seldom takes longer each time."""
_REMEMBERED = 2 * _JUDGED
_MOST_EVERY = 1024


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

    def due(self, step: int) -> bool:
        """Whether a step, by its number in the job, is one that measures."""
        return not self.left_out(step)

    def left_out(self, step: int) -> int:
        """How many steps, this one and those that follow, do not measure it."""
        return -step % self.every

    def spent(self, cost_ns: int, step_ns: int) -> None:
        """A step that took so long was measured, at this cost."""
        self._steps.append((cost_ns, step_ns))
        self._judge_in -= 1
        if self._judge_in:
            return
        self._judge_in = _JUDGED
        costs, times = (sorted(column) for column in zip(*self._steps, strict=True))
        cost = quantile(costs, 0.5)
        self.cost_ns = round(cost)
        if self._scatters:  # what is certain of it
            cost, _ = median_interval(costs) or (0, 0)
        part = cost / max(quantile(times, 0.5), 1)
        every = 1
        while part > MOST_PART * every and every < _MOST_EVERY:
            every *= 2
        # Not back and forth between two of them, nor back because of a few.
        if every > self.every or (2 * every < self.every and len(costs) >= _JUDGED):
            self.every = every
            self._judge_in = _JUDGED_AGAIN
            self._steps.clear()
