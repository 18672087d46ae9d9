"""Lets children end that a job forks after torch's profiler has run in it.

torch's profiler keeps threads, and waits for them at the end of a process. A forked child has none of its parent's
threads, so it would wait forever when it ends by `sys.exit`, even if the profiler ran long before the fork. (Children
of `multiprocessing` skip that end.) A child forked after a trace of ours therefore exits as soon as Python has ended
and C's files are flushed.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from functools import cache


@cache
def let_children_end() -> None:
    """Enables this; ineffective if the C library does not pass the exit code to exit handlers (musl)."""
    os.register_at_fork(after_in_child=_leave_early)


def _leave_early() -> None:
    with suppress(Exception):
        c = ctypes.CDLL(None)
        # The handler registered last is called first. Both are in C, because Python has ended by then.
        for name in ("_exit", "fcloseall"):
            c.on_exit(ctypes.cast(getattr(c, name), ctypes.c_void_p), None)
