"""Standard streams that were closed before the command started (`>&-`)."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import TextIO

from stepscope.floor.errors import StepScopeError

_LAST_STANDARD = 2


def open_closed_streams() -> None:
    """Puts something in the place of closed standard streams: a file that is opened later would take
    the number of one, and what is printed would go into it.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= _LAST_STANDARD:
        pass
    os.close(number)
    # Python has None for a stream that was closed.
    if sys.stdout is None:
        sys.stdout = _Closed()
    if sys.stderr is None:
        sys.stderr = io.StringIO()


def write_no_more(*streams: TextIO) -> None:
    """Nobody reads these any more: what is left in their buffers must not raise again at exit."""
    for stream in streams:
        # One without a file descriptor has nothing to close.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class _Closed(io.TextIOBase):
    """A standard output that nobody can read."""

    def write(self, _: str, /) -> int:
        """Refuses the text.

        Raises:
            StepScopeError: always.
        """
        raise StepScopeError(
            "the standard output is closed",
            hint="give the answer a place, as in: > FILE, or --parquet FILE",
            slug="system",
        )
