"""Makes SIGTERM and SIGHUP end a command as Ctrl-C does, so that a stop by a batch system, `timeout` or a closed ssh
session does not leave a temporary folder as large as the recording.
"""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import NoReturn

_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class TerminationSignal(KeyboardInterrupt):
    """Raised by the signal."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def unwind_on_termination() -> None:
    """Raises `TerminationSignal` in the main thread for the first signal; ignored signals stay ignored (nohup)."""
    for number in _SIGNALS:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _raise)


def _raise(number: int, _frame: FrameType | None) -> NoReturn:
    for each in _SIGNALS:  # a second one ends the process at once
        if signal.getsignal(each) is _raise:
            signal.signal(each, signal.SIG_DFL)
    raise TerminationSignal(number)


def end_by(error: BaseException) -> None:
    """Ends the process with the signal behind `error`, as its sender expects; ignores other errors."""
    if isinstance(error, TerminationSignal):
        os.kill(os.getpid(), error.number)
