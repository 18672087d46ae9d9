"""How much longer iterations are in which something of ours runs than those beside them, in which nothing does.

What is timed from inside leaves out that our code is cold, and that the job's is when it goes on. Where a
recording rests for many iterations, two looks at the clock tell what one of them takes, and two more what those between took:
in processor time of the thread that trains, for that scatters little, also on a machine that others use.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from stepscope.floor.statistics import quantile

_REMEMBERED = 16


class Beside:
    """Is told when a recording starts to rest and when it wakes, each with how many iterations are over.

    Args:
        now: processor time of the thread (ns); tests give their own.
    """

    def __init__(self, now: Callable[[], int] = time.thread_time_ns) -> None:
        self._now = now
        self._rested: tuple[int, int] | None = None
        self._woke: tuple[int, int] | None = None
        self._usual: deque[float] = deque(maxlen=_REMEMBERED)

    def wakes(self, iterations: int) -> None:
        """Nothing of ours ran since it began to rest."""
        now_ns = self._now()
        if self._rested is not None and iterations > self._rested[0]:
            before, then_ns = self._rested
            self._usual.append((now_ns - then_ns) / (iterations - before))
        self._rested, self._woke = None, (iterations, now_ns)

    def rests(self, iterations: int) -> int | None:
        """From now on nothing of ours runs; how much more than as many others those took that were awake (ns), if that is known."""
        woke, self._woke = self._woke, None
        longer = None
        if woke is not None and self._usual and iterations > woke[0]:
            usual = quantile(sorted(self._usual), 0.5)
            longer = round(self._now() - woke[1] - (iterations - woke[0]) * usual)
        self._rested = iterations, self._now()
        return longer

    def broke_off(self) -> None:
        """What runs now is no iteration."""
        self._rested = self._woke = None
