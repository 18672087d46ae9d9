"""How the process ends, as far as it is known; recordings state it.

`at_end` reports an exit code and SIGTERM, which the process passes on its way out. An exception is known if it is being
raised while a recording is closed, or if Python has printed it. After SIGKILL or a crash in C no recording is closed.
"""

from __future__ import annotations

import sys
from typing import Any

ExitReason = dict[str, str | int]
"""One of `exception`, `exit_code` and `signal`, with its type, number or name; empty for a normal end."""

_reason: ExitReason = {}
_END_LOOPS = (StopIteration, StopAsyncIteration, GeneratorExit)
_NO_EXCEPTION = id(None)


def set_exit_reason(**reason: str | int) -> None:
    """Sets how the process ends."""
    _reason.update(reason)


def exit_reason() -> ExitReason | None:
    """How the process ends; None while it is not known to end."""
    return _without_zero(_reason) if _reason else None


def handled_exception() -> int:
    """The id of the exception being handled; queried when a step starts, because the job continues after it."""
    return id(sys.exc_info()[1])


def closing_reason(survived: int = _NO_EXCEPTION) -> ExitReason:
    """Why the recording of this thread is closed now: not by `survived`, with which the last step started."""
    reason = exit_reason()
    if reason is not None:
        return reason
    error = sys.exc_info()[1]
    if error is None or id(error) == survived:
        error = _uncaught()
    if error is None or isinstance(error, _END_LOOPS):
        return {}
    if isinstance(error, SystemExit):
        code = error.code
        return _without_zero({"exit_code": code if isinstance(code, int) else int(code is not None)})
    return {"exception": type(error).__name__}


def _without_zero(reason: ExitReason) -> ExitReason:
    if "exit_code" in reason:  # the system keeps its low eight bits
        reason = {"exit_code": int(reason["exit_code"]) & 0xFF}
    return {} if reason == {"exit_code": 0} else dict(reason)


def _uncaught() -> BaseException | None:
    """The exception that ended the program: Python has printed it, and not in a session or from a callback of C."""
    error: Any = getattr(sys, "last_value", None)
    place = getattr(error, "__traceback__", None)
    if place is None or hasattr(sys, "ps1"):
        return None
    return error if place.tb_frame.f_code.co_name in ("<module>", "_run_module_as_main") else None
