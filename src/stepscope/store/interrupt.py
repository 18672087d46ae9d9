"""Runs queries so that Ctrl-C ends them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import duckdb

Result = TypeVar("Result")


def interruptible(connection: duckdb.DuckDBPyConnection, work: Callable[[], Result]) -> Result:
    """Does some work on a connection, and stops it when the process is interrupted meanwhile.

    Python notices Ctrl-C only between its own instructions, so a query that runs for minutes inside
    DuckDB would go on for minutes. The work is done in another thread while the main one waits,
    which a signal does end. Outside the main thread, where no signal arrives, it is simply done.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    results: list[Result] = []
    errors: list[BaseException] = []
    done = threading.Event()  # not Thread.join: in Python 3.10 and 3.11 that cannot be resumed

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)
        finally:
            done.set()

    threading.Thread(target=run, name="stepscope-query", daemon=True).start()
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
