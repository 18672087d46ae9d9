"""SIGTERM and SIGHUP end a command as Ctrl-C does: what a batch system, `timeout` or a closed ssh session stops must not
leave a temporary folder as large as the recording.
"""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import NoReturn

_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class ToldToEnd(KeyboardInterrupt):
    """The signal came."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def unwind_when_told_to_end() -> None:
    """Raises `ToldToEnd` in the main thread when a signal comes, once; what is ignored stays so (nohup)."""
    for number in _SIGNALS:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _raise)


def _raise(number: int, _frame: FrameType | None) -> NoReturn:
    for each in _SIGNALS:  # a second one ends the process at once
        if signal.getsignal(each) is _raise:
            signal.signal(each, signal.SIG_DFL)
    raise ToldToEnd(number)


def end_by(error: BaseException) -> None:
    """Ends the process by the signal that was `error`, as whoever sent it expects; anything else is left alone."""
    if isinstance(error, ToldToEnd):
        os.kill(os.getpid(), error.number)
