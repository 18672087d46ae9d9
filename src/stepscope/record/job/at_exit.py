"""Calls a function when the process ends, whichever way Python ends it."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from multiprocessing import util


class AtExit:
    """Calls a function when the process ends, until it is cancelled.

    Args:
        function: the function; may be called more than once.
    """

    def __init__(self, function: Callable[[], object]) -> None:
        self._function = function
        atexit.register(function)
        # Processes of multiprocessing exit without atexit, but run their own finalizers.
        self._finalizer = util.Finalize(None, function, exitpriority=10)

    def cancel(self) -> None:
        """Cancels the call."""
        atexit.unregister(self._function)
        self._finalizer.cancel()
