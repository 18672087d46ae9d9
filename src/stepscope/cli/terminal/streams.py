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


_python_has = ""


def accept_any_text() -> None:
    """A terminal that cannot show a character gets a question mark instead of a traceback."""
    global _python_has
    _python_has = _change_errors(sys.stdout, "replace")


def as_python_has_them() -> None:
    """A script gets what it gets without us: None for a stream that was closed before the start, and an exception, or the
    bytes of a file's name, for what is no text.
    """
    if isinstance(sys.stdout, _Closed):
        sys.stdout = None
    else:
        _change_errors(sys.stdout, _python_has)


def _change_errors(stream: TextIO | None, errors: str) -> str:
    """How a stream writes what its encoding has no character for; returns how it did until now, empty where it cannot change."""
    before = getattr(stream, "errors", None)
    reconfigure = getattr(stream, "reconfigure", None)
    if not errors or not isinstance(before, str) or reconfigure is None:
        return ""
    with contextlib.suppress(Exception):  # a stream of the script's own
        reconfigure(errors=errors)
    return before


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
    sys.stdout = ours = _first_open(sys.stdout, sys.__stdout__) or sys.stderr
    scripts = _change_errors(ours, "replace")
    try:
        yield
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        with contextlib.suppress(Exception):
            if not isinstance(error, BrokenPipeError):
                say(f"stepscope: the report ended early: {type(error).__name__}: {error}")
        write_no_more(sys.stdout, sys.stderr)
    finally:
        _change_errors(ours, scripts)
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
