"""Children that a job forks after torch's profiler has run in it.

torch's profiler keeps threads, and at the end of a process it waits for them. A forked child has none of
its parent's threads, so it would wait for ever when it ends by `sys.exit`, also where the profiler ran long
before the fork. (Children of `multiprocessing` leave without that end.) A child that is forked after a
trace of ours therefore leaves as soon as Python has ended and C's files are written.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from functools import cache


@cache
def let_children_end() -> None:
    """From now on; of no effect where the C library cannot tell an exit's code to who asks for it (musl)."""
    os.register_at_fork(after_in_child=_leave_early)


def _leave_early() -> None:
    with suppress(Exception):
        c = ctypes.CDLL(None)
        # The last that is named here is called first. Both are C's own: Python is gone by then.
        for name in ("_exit", "fcloseall"):
            c.on_exit(ctypes.cast(getattr(c, name), ctypes.c_void_p), None)
