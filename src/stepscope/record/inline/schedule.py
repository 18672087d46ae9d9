"""Which iteration measures what: one event at a time, so that the measured job is the real job.

After the warm-up, one iteration is observed: everything the plan names is watched without a clock,
to learn what really runs, how often and in what order. Then each event is alone for R + 1
iterations, of which the first is thrown away (new hooks, a captured graph made again, caches). Every
few armed iterations one runs without any hook, so that the cost of measuring is measured too.

Nothing here knows torch, clocks or hooks: an iteration goes in, what to do in it comes out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Role = Literal["warmup", "observe", "armed", "unarmed", "done"]


@dataclass(frozen=True, slots=True)
class Turn:
    """What an iteration is for.

    Args:
        role: `warmup` and `unarmed` run untouched, `observe` watches all, `armed` measures.
        event: the event that is armed; None for all of them (one-shot mode) and where nothing is.
        counted: whether the measurement is kept.
    """

    role: Role
    event: int | None = None
    counted: bool = False


_WARMUP = Turn("warmup")
_DONE = Turn("done")


class Schedule:
    """The order of turns.

    Args:
        warmup: untouched iterations before the observed one.
        repetitions: kept measurements of each event (one-shot mode: measured iterations).
        unarmed_every: after this many armed iterations one runs unarmed; 0 for never.
        one_shot: all events in every iteration, instead of one at a time.

    An event that an iteration did not run is tried again, `repetitions + 1` times at most: a model
    whose control flow changes must not hold the schedule up.

    >>> schedule = Schedule(warmup=1, repetitions=2, unarmed_every=0)
    >>> roles = []
    >>> while schedule.turn.role != "done":
    ...     roles.append(schedule.turn.role)
    ...     if schedule.turn.role == "observe":
    ...         schedule.observed(1)
    ...     _ = schedule.advance(measured=True)
    >>> roles
    ['warmup', 'observe', 'armed', 'armed', 'armed']
    """

    def __init__(
        self, *, warmup: int, repetitions: int, unarmed_every: int, one_shot: bool = False
    ) -> None:
        self._warmup_left = warmup
        self._repetitions = repetitions
        self._unarmed_every = unarmed_every
        self._one_shot = one_shot
        self._events: int | None = None
        self._event = 0
        self._kept = -1  # the first measurement of an event is thrown away
        self._missed = 0
        self._since_unarmed = 0
        self.turn = _WARMUP
        self.turn = self._decide()

    def observed(self, events: int) -> None:
        """Takes how many events the observed iteration ran, before `advance` leaves it."""
        self._events = min(events, 1) if self._one_shot else events

    def advance(self, *, measured: bool) -> Turn:
        """Leaves the current iteration and returns the next one's turn.

        Args:
            measured: whether an armed iteration ran what it was to measure; else ignored.
        """
        role = self.turn.role
        if role == "warmup":
            self._warmup_left -= 1
        elif role == "unarmed":
            self._since_unarmed = 0
        elif role == "armed":
            self._since_unarmed += 1
            if measured:
                self._kept += 1
            else:
                self._missed += 1
            if self._kept >= self._repetitions or self._missed > self._repetitions:
                self._event += 1
                self._kept = -1
                self._missed = 0
        self.turn = self._decide()
        return self.turn

    @property
    def has_observed(self) -> bool:
        """Whether it is known how many events the job runs."""
        return self._events is not None

    def _decide(self) -> Turn:
        if self._warmup_left > 0:
            return _WARMUP
        if self._events is None:
            return Turn("observe")
        if self._event >= self._events:
            return _DONE
        if self._unarmed_every and self._since_unarmed >= self._unarmed_every:
            return Turn("unarmed")
        event = None if self._one_shot else self._event
        turn, counted = self.turn, self._kept >= 0
        if turn.role == "armed" and turn.event == event and turn.counted == counted:
            return turn
        return Turn("armed", event, counted)
