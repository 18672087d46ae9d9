"""How the process ends, as far as it knows: recordings state it, and thereby how far they go.

`at_term` reports an exit code and SIGTERM, which the process passes on its way out. An exception is known if it is
being raised while a recording is closed, or if Python has printed it. What kills a process at once (SIGKILL, a crash in
C) is never known here: then the recording is not closed.
"""

from __future__ import annotations

import sys
from typing import Any

Ending = dict[str, str | int]
"""One of `exception`, `exit_code` and `signal`, with its type, number or name; empty for a normal end."""

_told: Ending = {}
_IN_ORDER = (StopIteration, StopAsyncIteration, GeneratorExit)
"""Exceptions that end loops, not programs."""


def tell(**how: str | int) -> None:
    """Sets how the process ends."""
    _told.update(how)


def told() -> Ending | None:
    """What `tell` was given; None while the process is not known to end."""
    return _without_zero(_told) if _told else None


def handled() -> int:
    """The exception being handled. Asked when a step starts, since the job continues from it, as in a fallback."""
    return id(sys.exc_info()[1])


_NONE_HANDLED = id(None)


def ending(survived: int = _NONE_HANDLED) -> Ending:
    """Why the recording of this thread is closed now, apart from an exception that the last step started with
    (`handled`)."""
    known = told()
    if known is not None:
        return known
    error = sys.exc_info()[1]
    if error is None or id(error) == survived:
        error = _uncaught()
    if error is None or isinstance(error, _IN_ORDER):
        return {}
    if isinstance(error, SystemExit):
        code = error.code
        return _without_zero({"exit_code": code if isinstance(code, int) else int(code is not None)})
    return {"exception": type(error).__name__}


def _without_zero(how: Ending) -> Ending:
    # The system keeps its low eight bits.
    code = how.get("exit_code")
    known = how if code is None else {"exit_code": int(code) & 0xFF}
    return {} if known == {"exit_code": 0} else dict(known)


def _uncaught() -> BaseException | None:
    """The exception that ended the program: Python has printed it and runs exit handlers.

    Python also prints exceptions that end nothing: an interactive session continues, and so does a program whose
    callback raised within C.
    """
    error: Any = getattr(sys, "last_value", None)
    place = getattr(error, "__traceback__", None)
    if place is None or hasattr(sys, "ps1"):
        return None
    return error if place.tb_frame.f_code.co_name in ("<module>", "_run_module_as_main") else None
