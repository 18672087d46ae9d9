"""Handles standard streams closed before the command started (`>&-`), or by a script that ran inside it."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from stepscope.base.errors import StepScopeError
from stepscope.cli.terminal.printing import print_err

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


_python_has = ""


def accept_any_text() -> None:
    """Makes a terminal show `?` for characters that it cannot show, instead of raising."""
    global _python_has
    _python_has = _change_errors(sys.stdout, "replace")


def as_python_has_them() -> None:
    """Gives a script the streams that it has in plain Python: None for a stream that was closed before the start, and
    for what cannot be encoded an exception, or the bytes of a file's name.
    """
    if isinstance(sys.stdout, _Closed):
        sys.stdout = None
    else:
        _change_errors(sys.stdout, _python_has)


def _change_errors(stream: TextIO | None, errors: str) -> str:
    """Sets how a stream writes what it cannot encode; returns the previous way, empty if it cannot be changed."""
    before = getattr(stream, "errors", None)
    reconfigure = getattr(stream, "reconfigure", None)
    if not errors or not isinstance(before, str) or reconfigure is None:
        return ""
    with contextlib.suppress(Exception):  # a stream of the script's own
        reconfigure(errors=errors)
    return before


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
    sys.stdout = ours = _first_open(sys.stdout, sys.__stdout__) or sys.stderr
    scripts = _change_errors(ours, "replace")
    try:
        yield
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        with contextlib.suppress(Exception):
            if not isinstance(error, BrokenPipeError):
                print_err(f"stepscope: the report ended early: {type(error).__name__}: {error}")
        write_no_more(sys.stdout, sys.stderr)
    finally:
        _change_errors(ours, scripts)
        sys.stdout, sys.stderr = before


def flush(stream: TextIO | None) -> None:
    """Flushes a stream if it still exists."""
    if (open_one := _first_open(stream)) is not None:
        open_one.flush()


def _first_open(*streams: TextIO | None) -> TextIO | None:
    return next((stream for stream in streams if stream is not None and not getattr(stream, "closed", False)), None)


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
