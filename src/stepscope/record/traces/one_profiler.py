"""Ensures that one profiler runs at a time, with priority for the job's own.

torch has one profiling session per process; a second one empties or crashes the first. So while a trace of ours may
run, the functions with which torch starts a session are replaced: when the job starts its own, ours ends first.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from stepscope.record.targets.patches import Make, Patches

JOB_PROFILER_RUNS = "the job already runs a profiler of its own, and only one can record"


class OneProfiler:
    """Notices when the job starts and ends profilers of its own; `give_way` then ends our recording at once."""

    _holder: OneProfiler | None = None
    _our_thread: int | None = None

    def __init__(self, give_way: Callable[[], None]) -> None:
        self._give_way = give_way
        self._theirs = False
        self._patches = Patches()

    def install(self) -> None:
        from torch.autograd import profiler

        makes = {
            "_prepare_profiler": self._before(self._prepares),
            "_enable_profiler": self._before(self._enables),
            "_disable_profiler": self._before(self._disables),
        }
        self._patches.install(profiler, makes)

    def remove(self) -> None:
        self._patches.remove()
        self.release()

    def take(self) -> None:
        """Claims the process's session for a recording of ours; RuntimeError if another profiler is recording."""
        if self.theirs_runs:
            raise RuntimeError(JOB_PROFILER_RUNS)
        if self.waits:
            raise RuntimeError("another trace is being recorded, and only one can be at a time")
        OneProfiler._holder = self
        let_children_end()

    @property
    def waits(self) -> bool:
        """Whether another trace of ours has the session."""
        return OneProfiler._holder not in (None, self)

    @property
    def theirs_runs(self) -> bool:
        return self._theirs or _enabled()

    def release(self) -> None:
        if OneProfiler._holder is self:
            OneProfiler._holder = None

    @contextmanager
    def ours(self) -> Iterator[None]:
        """Inside this context, preparing, enabling and disabling are ours."""
        before, OneProfiler._our_thread = OneProfiler._our_thread, threading.get_ident()
        try:
            yield
        finally:
            OneProfiler._our_thread = before

    def _before(self, action: Callable[[tuple[Any, ...]], None]) -> Make:
        """Makes replacements of torch's functions that first take `action`, unless the call is ours."""

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def call(*args: Any, **kwargs: Any) -> Any:
                if OneProfiler._our_thread != threading.get_ident():
                    action(args)
                return original(*args, **kwargs)

            return call

        return make

    def _prepares(self, _args: tuple[Any, ...]) -> None:
        self._theirs = True
        self._give_way()

    def _enables(self, args: tuple[Any, ...]) -> None:
        # One that was prepared before we observed: preparing ours has undone that.
        if not self._theirs:
            self._theirs = True
            if OneProfiler._holder is self:
                self._give_way()
                _prepare_again(args)

    def _disables(self, _args: tuple[Any, ...]) -> None:
        self._theirs = False


def _enabled() -> bool:
    from torch.autograd import profiler

    return bool(getattr(profiler, "_is_profiler_enabled", False))


def _prepare_again(args: tuple[Any, ...]) -> None:
    from torch.autograd import profiler

    # Ending ours has marked the profiler as off, but the job's had marked it as on.
    set_enabled: Any = getattr(profiler, "_set_is_profiler_enabled", None)
    if set_enabled is not None:
        set_enabled(True)
    # Older versions refuse if the job's own is still prepared, which is all it then needs.
    with contextlib.suppress(RuntimeError):
        profiler._prepare_profiler(*args[:2])


@cache
def let_children_end() -> None:
    """Lets children exit that are forked after torch's profiler has run: it keeps threads, for which they would wait.

    Such a child exits as soon as Python has ended and C's files are flushed. Not with musl, whose exit handlers do not
    get the exit code.
    """
    os.register_at_fork(after_in_child=_leave_early)


def _leave_early() -> None:
    with contextlib.suppress(Exception):
        c = ctypes.CDLL(None)
        # The handler registered last is called first. Both are in C, because Python has ended by then.
        for name in ("_exit", "fcloseall"):
            c.on_exit(ctypes.cast(getattr(c, name), ctypes.c_void_p), None)
