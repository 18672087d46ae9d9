"""Handles standard streams closed before the command started (`>&-`), or by a script that ran inside it."""

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
    """Replaces closed standard streams. Otherwise a file opened later would get a stream's number, and printed text
    would go into it.
    """
    _occupy_numbers()
    # Python sets closed streams to None.
    if sys.stdout is None:
        sys.stdout = _Closed()
    if sys.stderr is None:
        sys.stderr = io.StringIO()


def as_python_has_them() -> None:
    """Gives a script None for a stream that was closed before the start, as Python does."""
    if isinstance(sys.stdout, _Closed):
        sys.stdout = None


@contextmanager
def reporting() -> Iterator[None]:
    """Reports on a job that has ended, without failing it.

    If the script has closed or cleared stdout, output goes to Python's original stdout, else to stderr; what cannot be
    written is dropped.
    """
    before = sys.stdout, sys.stderr
    with contextlib.suppress(OSError):  # the script may have used up all descriptors
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
    """Flushes a stream if it still exists."""
    if (open_one := _first_open(stream)) is not None:
        open_one.flush()


def _first_open(*streams: TextIO | None) -> TextIO | None:
    return next((one for one in streams if one is not None and not getattr(one, "closed", False)), None)


def _occupy_numbers() -> None:
    while (number := os.open(os.devnull, os.O_RDWR)) <= _LAST_STANDARD:
        pass
    os.close(number)


def write_no_more(*streams: TextIO) -> None:
    """Discards what is left in the buffers of streams that nobody reads, so that it does not raise again at exit."""
    for stream in streams:
        # Without a file descriptor there is nothing to close.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class _Closed(io.TextIOBase):
    """A closed standard output."""

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
