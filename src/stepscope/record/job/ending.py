"""How the process ends, as far as it knows that itself: its recordings say so, and up to where they go.

An exit code and SIGTERM are told by `at_term`, which the process passes on its way out. An exception is seen
where a recording is closed while it is on its way, or has been printed by Python. What kills a process without a word
(SIGKILL, a crash in C) is never known here: its recording has then not been closed.
"""

from __future__ import annotations

import sys
from typing import Any

Ending = dict[str, str | int]
"""One of `exception`, `exit_code` and `signal`, with its type, number or name; empty where it ends in order."""

_told: Ending = {}
_IN_ORDER = (StopIteration, StopAsyncIteration, GeneratorExit)
"""What ends loops, and no program."""


def tell(**how: str | int) -> None:
    """The process ends so."""
    _told.update(how)


def told() -> Ending | None:
    """What `tell` was told; None while the process goes on, as far as is known."""
    return _without_zero(_told) if _told else None


def handled() -> int:
    """Which exception is being handled; asked where a step starts: the job goes on from it, as in a fallback."""
    return id(sys.exc_info()[1])


_NONE_HANDLED = id(None)


def ending(survived: int = _NONE_HANDLED) -> Ending:
    """Why what the thread records is closed now; by no exception that was `handled` when the last step started."""
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
    # The system keeps eight bits of it.
    code = how.get("exit_code")
    known = how if code is None else {"exit_code": int(code) & 0xFF}
    return {} if known == {"exit_code": 0} else dict(known)


def _uncaught() -> BaseException | None:
    """The exception that ended the program: Python has printed it, and runs exit handlers.

    Not every exception that Python has printed is one: a session of an interpreter goes on after it, and so does a
    program whose callback raised within C.
    """
    error: Any = getattr(sys, "last_value", None)
    place = getattr(error, "__traceback__", None)
    if place is None or hasattr(sys, "ps1"):
        return None
    return error if place.tb_frame.f_code.co_name in ("<module>", "_run_module_as_main") else None
