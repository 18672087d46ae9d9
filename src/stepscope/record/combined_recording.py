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


class CombinedRecording(Recording):
    """Drives a session, which measures every step, and a tracer."""

    def __init__(self, session: Session, tracer: Tracer | OnDemand) -> None:
        # Each has its own guard, so that an error in one does not stop the other.
        self.guard = Guard("the recording")
        self._first_session = session
        self._tracer = tracer

    @property
    def _session(self) -> Session:
        """The session to drive: the script's own if it has started one, unless its own loop drives that."""
        session = self._first_session
        while session.successor is not None and session.successor.driver is None:
            session = session.successor
        return session

    @property
    def _both(self) -> tuple[Recording, Recording]:
        return self._session, self._tracer

    @property
    def driver(self) -> str | None:
        return self._first_session.driver

    @driver.setter
    def driver(self, driver: str | None) -> None:
        self._first_session.driver = driver

    @property
    def to_skip(self) -> int:
        return self._session.to_skip if self._tracer.over and not self._tracer.disturbs else 0

    @to_skip.setter
    def to_skip(self, iterations: int) -> None:
        self._session.to_skip = iterations

    def skip(self) -> None:
        self._session.skip()

    @property
    def over(self) -> bool:
        return all(recording.over for recording in self._both)

    @property
    def done(self) -> bool:
        return all(recording.done for recording in self._both)

    @property
    def records_values(self) -> bool:
        return any(recording.records_values for recording in self._both)

    def start(self, *, lead_in: bool = False) -> None:
        self._tracer.start(lead_in=lead_in)
        self._session.start(lead_in=lead_in)
        self._exclude_disturbed()

    def start_iteration(self, *, first_of_epoch: bool = False, number: int | None = None) -> int:
        # The profiler starts and stops between two iterations of the session.
        self._session.end_iteration()
        self._tracer.start_iteration(first_of_epoch=first_of_epoch, number=number)
        iteration = self._session.start_iteration(first_of_epoch=first_of_epoch, number=number)
        self._exclude_disturbed()
        return iteration

    def end_iteration(self) -> None:
        for recording in self._both:
            recording.end_iteration()

    def abandon(self, iteration: int | None = None, *, began: bool = True) -> None:
        self._session.abandon(iteration, began=began)
        self._tracer.abandon(began=began)

    def exclude_current(self) -> None:
        for recording in self._both:
            recording.exclude_current()

    def add_missed(self, iterations: int) -> None:
        for recording in self._both:
            recording.add_missed(iterations)

    def data_wait_start(self) -> tuple[Any, Any]:
        return self._session.data_wait_start()

    def data_wait_end(self, token: tuple[Any, Any]) -> None:
        self._session.data_wait_end(token)

    def add_value(self, name: str, number: float) -> None:
        for recording in self._both:
            recording.add_value(name, number)

    def stops_now(self) -> bool:
        return self._session.stops_now()

    def recapture(self) -> bool:
        return self._session.recapture()

    def stop(self) -> list[Path]:
        self.stopped = True
        # The session first, because the tracer may wait for a slow file.
        return list(chain.from_iterable([self._first_session.stop(), self._tracer.stop()]))

    def _exclude_disturbed(self) -> None:
        if self._tracer.disturbs:
            self._session.disturbed()
