"""Decides which iteration measures what: one event at a time, so that the measured job behaves as the real one.

After the warm-up, one iteration is observed without clocks, to learn which planned events run and in what order. Then
each event is alone for R + 1 iterations, of which the first is discarded (new hooks, a recaptured graph, caches). Once
in several armed iterations, one runs without hooks, to measure the cost of measuring. If that is high, only one in k is
armed (see `Budget`).

In rounds, each event gets a few iterations in a row, the longest events first, then all again, in turns of four. So a
short job measures a little of what matters, and a long one measures all of it over its entire run. If the number of
remaining iterations is known, turns are as long as it allows for all events equally.

If not every iteration is armed, hooks are removed between two armed ones. Then each can be another event's and none is
discarded; measurements in a row would make the interval too narrow for a job whose speed drifts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from stepscope.record.budget import next_timed
from stepscope.record.compiling import never

Role = Literal["warmup", "survey", "observe", "armed", "unarmed", "done"]

_FIRST_TURN = 2  # counted measurements of an event's first turn in rounds: fewer give no interval
_LONGEST_TURN = 4
"""Longer turns measure one part of the run: if a job's speed drifts, an interval from turns of 16 contains the mean
half as often as it should. With 4, one iteration in five is discarded, and intervals are a tenth wider.
"""


@dataclass(frozen=True, slots=True)
class Turn:
    """The purpose of an iteration; `event` is None for all, and `counted` is whether the measurement is recorded."""

    role: Role
    event: int | None = None
    counted: bool = False


_WARMUP = Turn("warmup")
_SURVEY = Turn("survey")
_UNARMED = Turn("unarmed")
_DONE = Turn("done")


@dataclass(slots=True)
class _Measured:
    """How often an event was measured, and how often an iteration that should measure it did not run it."""

    counted: int = 0
    missed: int = 0


class Schedule:
    """The order of turns.

    Args:
        warmup: undisturbed iterations before the observed one.
        repetitions: counted measurements of each event (in one-shot mode: measured iterations).
        unarmed_every: after this many armed iterations one runs unarmed; 0 for never.
        one_shot: all events in every iteration, instead of one at a time.
        in_rounds: a few measurements of each event at a time, without end.
        survey: whether iterations are surveyed after the warm-up, until `surveyed`.
        left: in rounds, asked at the start of each: the number of remaining iterations, if it is known.
        interval_of: returns the k of an event (None in one-shot mode): one in k iterations measures it.
        stays: whether changing the event is costly, because the job recaptures its graph.

    An event that an iteration did not run is tried again, at most `repetitions + 1` times, so that a model with
    changing control flow does not block the schedule.

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
        self,
        *,
        warmup: int,
        repetitions: int,
        unarmed_every: int,
        one_shot: bool = False,
        in_rounds: bool = False,
        survey: bool = False,
        left: Callable[[], float | None] = lambda: None,
        interval_of: Callable[[int | None], int] = lambda _: 1,
        stays: Callable[[], bool] = never,
    ) -> None:
        self._warmup_left = warmup
        self._repetitions = _FIRST_TURN // 2 if in_rounds else repetitions
        self._unarmed_every = unarmed_every
        self._one_shot = one_shot
        self.in_rounds = in_rounds
        self.first_round = True
        """Whether some events have not had a turn yet."""
        self._survey = survey
        self._left = left
        self._interval_of = interval_of
        self._stays = stays
        self._order: Sequence[int] | None = None
        self._place = 0
        self._measured: list[_Measured] = []
        self._new = True  # whether the event was not armed before, so that its first measurement is discarded
        self._since_unarmed = 0
        self._armed_at = -1
        self.turn = _WARMUP
        self.turn = self._decide()

    def surveyed(self) -> None:
        self._survey = False

    def observed(self, events: int, order: Sequence[int] | None = None) -> None:
        """Sets what the observed iteration ran, before `advance` leaves it; `order` has the events' numbers by turn."""
        self._order = range(min(events, 1) if self._one_shot else events)
        if order is not None:
            self._order = order
        self._measured = [_Measured() for _ in self._order]
        if self.in_rounds:
            self._next_round()

    def finish(self) -> None:
        self._order = ()
        self.turn = _DONE

    def advance(self, *, measured: bool, following: int = 0) -> Turn:
        """Leaves the current iteration, which `measured` what it should; returns the turn of number `following`."""
        role = self.turn.role
        if role == "warmup":
            self._warmup_left -= 1
        elif role == "unarmed":
            self._since_unarmed = 0
        elif role == "armed":
            self._since_unarmed += 1
            self._ran(measured=measured)
        self.turn = self._decide(following)
        return self.turn

    def start_again(self) -> None:
        """Forgets the events' missed iterations, which were not caused by them."""
        for event in self._measured:
            event.missed = 0

    @property
    def event(self) -> int | None:
        """The event whose turn it is, or is next; None for all."""
        return None if self._one_shot or not self._order else self._order[self._place]

    @property
    def has_observed(self) -> bool:
        return self._order is not None

    def _changes(self, event: int | None) -> bool:
        return not self._one_shot and self._interval_of(event) > 1 and not self._stays()

    def _ran(self, *, measured: bool) -> None:
        """Counts an armed iteration, and leaves its event after the last one of its turn."""
        place = self._place
        if not measured:
            self._measured[place].missed += 1
        elif self.turn.counted:
            self._measured[place].counted += 1
        self._new = self._new and not measured
        if not (self._ended(place) or self._changes(self.event)):
            return
        others = chain(range(place + 1, len(self._measured)), range(place + 1))
        self._place = next((other for other in others if not self._ended(other)), len(self._measured))
        self._new = self._place != place
        if self.in_rounds and self._place == len(self._measured):
            self.first_round = False
            self._next_round()

    def _ended(self, place: int) -> bool:
        event = self._measured[place]
        return event.counted >= self._repetitions or event.missed > self._repetitions

    def _next_round(self) -> None:
        """Starts turns twice as long as before, or as long as the remaining iterations allow for all events."""
        order = self._order or ()
        longest = min(2 * self._repetitions, _LONGEST_TURN)
        left = self._left()
        if left is not None and order:
            unarmed = 1 / self._unarmed_every if self._unarmed_every else 0
            lasts = [max(self._interval_of(event), 1 + unarmed) for event in order]
            thrown_away = sum(last for last, event in zip(lasts, order, strict=True) if not self._changes(event))
            each = int((left - thrown_away) / sum(lasts))
            if self._place and each < 1:
                self._order = ()
            # A rest too short for a turn of its own is added.
            longest = max(each if each <= longest + 2 else longest, 1 if self._place else _FIRST_TURN)
        self._repetitions = longest
        self._place = 0
        self._measured = [_Measured() for _ in order]

    def _decide(self, number: int = 0) -> Turn:
        if self.turn.role == "done":
            return _DONE
        if self._warmup_left > 0:
            return _WARMUP
        if self._survey:
            return _SURVEY
        if self._order is None:
            return Turn("observe")
        if self._place >= len(self._order):
            return _DONE
        event = self.event
        interval = self._interval_of(event)
        if interval == 1:
            unarmed = 0 < self._unarmed_every <= self._since_unarmed
        else:  # one of a block of the event's own k, whichever event the last was for
            used = number // interval == self._armed_at // interval
            unarmed = used or next_timed(number, interval) != number
        if unarmed:
            return _UNARMED
        self._armed_at = number
        turn, counted = self.turn, not self._new or self._changes(event)
        if turn.role == "armed" and turn.event == event and turn.counted == counted:
            return turn
        return Turn("armed", event, counted)
