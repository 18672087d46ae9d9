"""Drives two recordings of one job by one loop: measurements in every step, and a trace of a few.

A step in which the trace's profiler runs, or its file is written, is not like the others and stays out of the
statistics.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.record.recording import Recording
from stepscope.record.trouble import Guard

if TYPE_CHECKING:
    from stepscope.record.inline.session import Session
    from stepscope.record.on_demand.listener import OnDemand
    from stepscope.record.traces.tracing import Tracer


class Together(Recording):
    """Drives a session and a tracer.

    Args:
        session: measures phases or a plan's events in every step.
        tracer: traces some steps.
    """

    def __init__(self, session: Session, tracer: Tracer | OnDemand) -> None:
        # Each has its own guard, so that an error in one does not stop the other.
        self.guard = Guard("the recording")
        self._own = session
        self._tracer = tracer

    @property
    def _session(self) -> Session:
        """The session to drive: the script's own if it has started one, unless its own loop drives that."""
        session = self._own
        while session.successor is not None and session.successor.driver is None:
            session = session.successor
        return session

    @property
    def _both(self) -> tuple[Recording, Recording]:
        return self._session, self._tracer

    @property
    def driver(self) -> str | None:
        """How the script drives both."""
        return self._own.driver

    @driver.setter
    def driver(self, driver: str | None) -> None:
        self._own.driver = driver

    @property
    def rests(self) -> int:
        """The session's, once nothing is traced any more."""
        return self._session.rests if self._tracer.over and not self._tracer.disturbs else 0

    @rests.setter
    def rests(self, iterations: int) -> None:
        self._session.rests = iterations

    def passes(self) -> None:
        """Starts an iteration that needs no calls."""
        self._session.passes()

    @property
    def over(self) -> bool:
        """Whether neither has anything left to record."""
        return all(one.over for one in self._both)

    @property
    def done(self) -> bool:
        """Whether the plan is complete and the trace recorded."""
        return all(one.done for one in self._both)

    @property
    def keeps_numbers(self) -> bool:
        """Whether either keeps them."""
        return any(one.keeps_numbers for one in self._both)

    def start(self, *, lead_in: bool = False) -> None:
        """Starts both; without a lead-in the first iteration starts now."""
        self._tracer.start(lead_in=lead_in)
        self._session.start(lead_in=lead_in)
        self._set_apart()

    def begin(self, *, fresh: bool = False, number: int | None = None) -> int:
        """Starts an iteration. Starting and stopping a profiler happens between two of them."""
        self._session.end()
        self._tracer.begin(fresh=fresh, number=number)
        iteration = self._session.begin(fresh=fresh, number=number)
        self._set_apart()
        return iteration

    def end(self) -> None:
        """Ends the iteration."""
        for one in self._both:
            one.end()

    def abandon(self, iteration: int | None = None, *, began: bool = True) -> None:
        """Drops a broken-off iteration; its number is the session's."""
        self._session.abandon(iteration, began=began)
        self._tracer.abandon(began=began)

    def not_this_one(self) -> None:
        """Excludes the running iteration."""
        for one in self._both:
            one.not_this_one()

    def missed(self, iterations: int) -> None:
        """Reports iterations that ran before the loop was found."""
        for one in self._both:
            one.missed(iterations)

    def input_begins(self) -> tuple[Any, Any]:
        """The wait for a batch starts."""
        return self._session.input_begins()

    def input_ends(self, token: tuple[Any, Any]) -> None:
        """The wait for a batch ends."""
        self._session.input_ends(token)

    def takes(self, name: str, number: float) -> None:
        """Adds a number to the running iteration."""
        for one in self._both:
            one.takes(name, number)

    def stops_now(self) -> bool:
        """Whether the plan ends the loop before another iteration."""
        return self._session.stops_now()

    def recapture(self) -> bool:
        """Whether the job must capture its CUDA graph again (see `Recorder.recapture`)."""
        return self._session.recapture()

    def forget_in_child(self) -> None:
        """Disables both in a forked child."""
        super().forget_in_child()
        for one in self._both:
            one.forget_in_child()

    def stop(self) -> list[Path]:
        """Ends both and writes everything; may be called again."""
        self.stopped = True
        # The session first, because the tracer may wait for a slow file.
        return list(chain.from_iterable([one.stop() for one in (self._own, self._tracer)]))

    def _set_apart(self) -> None:
        if self._tracer.disturbs:
            self._session.disturbed()
