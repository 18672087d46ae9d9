"""Runs queries so that Ctrl-C or another thread can stop them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeVar

from stepscope.base.errors import StepScopeError

if TYPE_CHECKING:
    import duckdb

Result = TypeVar("Result")

ERRORS = {"question-stopped": "Before the answer was complete, the client disconnected or the server was stopped."}


class StoppedError(StepScopeError):
    """The request was stopped from outside."""

    def __init__(self) -> None:
        super().__init__("the question was stopped", hint="ask it again", slug="question-stopped")


class Stop:
    """Lets another thread stop everything that one thread asks: the running query and all later ones."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requested = False
        self._running: duckdb.DuckDBPyConnection | None = None

    def now(self) -> None:
        """Stops it. DuckDB ignores a call that comes just before a query starts, so a caller that wants
        to be sure calls again until the thread is done.
        """
        with self._lock:
            self._requested = True
            if self._running is not None:
                self._running.interrupt()

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Within it, `now` stops whatever this thread asks."""
        reset = _STOP.set(self)
        try:
            yield
        finally:
            _STOP.reset(reset)

    def run(self, connection: duckdb.DuckDBPyConnection, work: Callable[[], Result]) -> Result:
        """Does some work on a connection.

        Raises:
            StoppedError: `now` was called, before or meanwhile.
        """
        with self._lock:
            if self._requested:
                raise StoppedError
            self._running = connection
        try:
            return work()
        except Exception:
            if self._requested:
                raise StoppedError from None
            raise
        finally:
            with self._lock:
                self._running = None


_STOP: ContextVar[Stop | None] = ContextVar("stepscope_stop", default=None)


def _work(tasks: SimpleQueue[Callable[[], None]]) -> None:
    while True:
        tasks.get()()


@cache
def _worker() -> SimpleQueue[Callable[[], None]]:
    """The tasks of one thread that lasts as long as the process: an answer runs dozens of queries, and starting a
    thread for each took a tenth of the time of a report."""
    tasks: SimpleQueue[Callable[[], None]] = SimpleQueue()
    threading.Thread(target=_work, args=[tasks], name="stepscope-query", daemon=True).start()
    return tasks


os.register_at_fork(after_in_child=_worker.cache_clear)  # a child has none of its parent's threads


def interruptible(connection: duckdb.DuckDBPyConnection, work: Callable[[], Result]) -> Result:
    """Does some work on a connection, and stops it if the process is interrupted meanwhile.

    Python notices Ctrl-C only between its own instructions, so a query that runs for minutes inside DuckDB would go on
    for minutes. So another thread does the work while the main one waits, which a signal does end. Outside the main
    thread, where no signal arrives, the work is done directly, or stopped by a `Stop`.
    """
    if (stop := _STOP.get()) is not None:
        return stop.run(connection, work)
    if threading.current_thread() is not threading.main_thread():
        return work()
    results: list[Result] = []
    errors: list[BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)
        finally:
            done.set()

    _worker().put(run)
    try:
        done.wait()
    except BaseException:
        connection.interrupt()
        done.wait()
        errors.clear()
        raise
    if errors:
        raise errors.pop()
    return results.pop()
