"""Handles errors of the recording itself: one warning, and the job continues without it.

All that the recorder installs in a job runs through a `Guard`: our first exception stops the recording and never
reaches the job. Hooks are removed at the next boundary between iterations, because torch may be iterating over them.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
import weakref
from collections.abc import Callable
from typing import Any

from stepscope.base.quoting import printable
from stepscope.record.compiling import compiling_check


class RecordingWarning(RuntimeWarning):
    """StepScope could not record, or not everything; the training job continues."""


def warn_once(message: str) -> None:
    """Warns without ever raising, even if warnings are errors (`python -W error`)."""
    message = printable(message)
    try:
        warnings.warn(message, RecordingWarning, stacklevel=3)
    except Exception:
        with contextlib.suppress(Exception):
            sys.stderr.write(f"stepscope: {message}\n")


def described(error: BaseException) -> str:
    """Describes an error by type and message, or only by type if its message raises."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__


_GUARDS: weakref.WeakSet[Guard] = weakref.WeakSet()


class Guard:
    """Keeps the recorder's own exceptions out of the job; `what` is recorded, for the warning: "the trace"."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.error: BaseException | None = None
        self._pid = os.getpid()
        _GUARDS.add(self)

    @property
    def inherited(self) -> bool:
        """Whether this is a forked child, whose parent records; also if C has forked it."""
        return os.getpid() != self._pid

    @property
    def tripped(self) -> bool:
        """Whether an error occurred; then guarded calls do nothing."""
        return self.error is not None

    def trip(self, error: BaseException) -> None:
        """Stops the recording because of `error`, with a warning; later calls do nothing."""
        if self.error is not None:
            return
        self.error = error
        warn_once(
            f"{self.what} stopped, training goes on without it: "
            f"{described(error)}. What was measured until now is written."
        )

    def ask(self, function: Callable[..., Any], *args: Any) -> Any:
        """Returns the result of `function`; None if it raises, or recording has stopped."""
        if self.error is None:
            try:
                return function(*args)
            except Exception as error:
                self.trip(error)
        return None

    def wrap(self, function: Callable[..., Any]) -> Callable[..., None]:
        """Makes a hook that calls `function`, always returns None, and never raises.

        Hooks of torch replace a module's output by their result, so None matters.
        """
        is_compiling = compiling_check()

        def hook(*args: Any, **kwargs: Any) -> None:
            if is_compiling():
                return
            if self.error is None:
                try:
                    function(*args, **kwargs)
                except Exception as error:
                    self.trip(error)

        return hook


def _trip_in_child() -> None:
    # A forked child inherits its parent's hooks, but only the parent records.
    for guard in tuple(_GUARDS):
        guard.error = guard.error or RuntimeError("recorded by the parent process")


os.register_at_fork(after_in_child=_trip_in_child)
