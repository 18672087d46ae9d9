"""How a script that ran inside a command ended: its exit code and its traceback."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
from pathlib import Path
from types import TracebackType

import click


def exit_code(left: SystemExit) -> int:
    """The code with which Python would exit; prints a text as Python does."""
    if left.code is None:
        return 0
    if isinstance(left.code, int):
        return left.code
    # Python also drops what a closed stderr does not accept.
    with contextlib.suppress(OSError, ValueError):
        click.echo(str(left.code), err=True)
    return 1


def show_traceback(error: BaseException) -> None:
    """Shows the script's traceback as Python, or the script's own hook, would.

    Frames that run the script are left out.
    """
    ours = (str(Path(__file__).parents[2]), "<frozen runpy>")
    place: TracebackType | None = error.__traceback__
    while place is not None and place.tb_next is not None:
        name = place.tb_frame.f_code.co_filename
        if not name.startswith(ours) and Path(name).name != "runpy.py":
            break
        place = place.tb_next
    if isinstance(error, SyntaxError) and place is not None and place.tb_frame.f_code.co_filename.startswith(ours):
        place = None  # the script itself could not be read
    error = error.with_traceback(place)
    try:
        sys.excepthook(type(error), error, place)
    except Exception as of_hook:
        # As Python says it.
        for words, shown_error in (("Error in sys.excepthook:", of_hook), ("\nOriginal exception was:", error)):
            with contextlib.suppress(Exception):
                click.echo(words, err=True)
                sys.__excepthook__(type(shown_error), shown_error, shown_error.__traceback__)


class Interrupted:
    """Ends the process with SIGINT after everything else, as Python does after an unhandled Ctrl-C.

    A shell or launcher then sees that the script was interrupted. Created before the script runs, so that the script's
    exit handlers run first.
    """

    CODE = 130

    def __init__(self) -> None:
        self._happened = False
        atexit.register(self._end)

    def end_so(self) -> None:
        """Makes the process end like this."""
        self._happened = True

    def _end(self) -> None:
        if not self._happened:
            return
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
