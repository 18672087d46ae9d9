"""Standard streams that are closed: before the command started (`>&-`), or by the script that ran within it."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from stepscope.cli.terminal.say import say
from stepscope.floor.errors import StepScopeError

_LAST_STANDARD = 2


def open_closed_streams() -> None:
    """Puts something in the place of closed standard streams: a file that is opened later would take
    the number of one, and what is printed would go into it.
    """
    _occupy_numbers()
    # Python has None for a stream that was closed.
    if sys.stdout is None:
        sys.stdout = _Closed()
    if sys.stderr is None:
        sys.stderr = io.StringIO()


def as_python_has_them() -> None:
    """A script gets None for a stream that was closed before the start, as it does without us."""
    if isinstance(sys.stdout, _Closed):
        sys.stdout = None


@contextmanager
def reporting() -> Iterator[None]:
    """Within this a job that has ended is reported, which never fails it.

    What stdout is to get goes to Python's own stdout where the script has closed or cleared the one it had, else
    to stderr; what cannot be written is left out.
    """
    before = sys.stdout, sys.stderr
    with contextlib.suppress(OSError):  # the script may have used up all numbers
        _occupy_numbers()
    sys.stderr = _first_open(sys.stderr, sys.__stderr__) or io.StringIO()
    sys.stdout = _first_open(sys.stdout, sys.__stdout__) or sys.stderr
    try:
        yield
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        with contextlib.suppress(Exception):
            if not isinstance(error, BrokenPipeError):
                say(f"stepscope: the report ended early: {type(error).__name__}: {error}")
        write_no_more(sys.stdout, sys.stderr)
    finally:
        sys.stdout, sys.stderr = before


def flush(stream: TextIO | None) -> None:
    """Flushes a stream that is still there."""
    if (open_one := _first_open(stream)) is not None:
        open_one.flush()


def _first_open(*streams: TextIO | None) -> TextIO | None:
    return next((one for one in streams if one is not None and not getattr(one, "closed", False)), None)


def _occupy_numbers() -> None:
    while (number := os.open(os.devnull, os.O_RDWR)) <= _LAST_STANDARD:
        pass
    os.close(number)


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
