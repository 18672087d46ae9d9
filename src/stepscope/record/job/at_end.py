"""Calls functions when the process ends, by Python's exit, SIGTERM, `os._exit` or `os.exec`.

| how it ends                               | what is called                                                    |
| ----------------------------------------- | ----------------------------------------------------------------- |
| last line, exception, `sys.exit`, SIGINT  | `stop`, as an exit handler                                        |
| SIGTERM (`scancel`, a preemption, `kill`) | `leave` in the main thread if the job has no handler, then `save` |
| `os._exit`, `os.execv`, `os.execve`       | `leave` in the calling thread, then `save`                        |
| SIGKILL, a crash                          | nothing                                                           |

The process still ends as it would have: by the signal, or through the job's own handler. If the job wraps our handler
in its own, as frameworks do, it decides whether to continue, and ours only saves.

Python runs signal handlers between two instructions, so a job that waits in a collective would handle the signal only
after that. A thread notices it at once: it saves if the job has replaced our handler, and ends a process that has not
reached our handler after `PATIENCE_SECONDS`.

A forked child has our handler and the thread's socket until it has left the recording. So SIGTERM is blocked around a
fork, and the thread only accepts signals from its own process.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import fcntl
import functools
import os
import resource
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing import util
from types import FrameType
from typing import Any

from stepscope.record.job.exit_reason import set_exit_reason
from stepscope.record.targets.patches import Patch

PATIENCE_SECONDS = 5.0
_PASS_SECONDS = 0.02
_MAX_FILES = 8192  # in a process that may open more files, its file table does not grow beyond this many
_CREDENTIALS = struct.Struct("3i")  # process, user, group: unix(7)

Call = Callable[[], object]


class AtEnd:
    """What to call when the process ends, until it is cancelled.

    Only the main thread can handle signals; created elsewhere, this does not cover SIGTERM.

    Args:
        stop: called by Python's exit handlers.
        save: called without them, in its own thread; it has `PATIENCE_SECONDS`.
        leave: called before that, in the thread that ends the process.
        report: called after everything is saved, if the process really ends; it alone handles no signal.
    """

    def __init__(
        self,
        *,
        stop: Call | None = None,
        save: Call | None = None,
        leave: Call | None = None,
        report: Call | None = None,
    ) -> None:
        self.stop, self.save, self.leave, self.report = stop, save, leave, report
        self._finalizer: util.Finalize | None = None
        _pass_at_end()
        if stop is not None:
            atexit.register(stop)
            # Processes of multiprocessing exit without atexit, but run their own finalizers.
            self._finalizer = util.Finalize(None, stop, exitpriority=10)
        if save is not None or report is not None:
            _TERMINATION.add(self)

    def cancel(self) -> None:
        if self.stop is not None:
            atexit.unregister(self.stop)
        if self._finalizer is not None:
            self._finalizer.cancel()
        _TERMINATION.remove(self)


@functools.cache
def _pass_at_end() -> None:
    """Lets the job's threads out of torch after our own exit handlers, which run before this one.

    Where Python ends, a daemon thread that returns from an operator aborts the process. Threads that wait for the
    interpreter inside torch, because we work, would be more of those than without us.
    """

    def let_pass() -> None:
        main = threading.main_thread()
        if any(thread is not main and not thread.name.startswith("stepscope-") for thread in threading.enumerate()):
            time.sleep(_PASS_SECONDS)

    atexit.register(let_pass)


class _Socket:
    """A socket with a high descriptor, because the job's files get the lowest free ones.

    A job may close all descriptors, as daemons do, and reuse them: Python would write into its files at a signal.

    Raises:
        OSError: no such descriptor is available.
    """

    def __init__(self, low: socket.socket) -> None:
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        files = _MAX_FILES if soft == resource.RLIM_INFINITY else min(soft, _MAX_FILES)
        with low:
            self.socket = socket.socket(fileno=fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, files // 2))
        self._status = os.fstat(self.socket.fileno())

    @property
    def is_ours(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self.socket.fileno()), self._status)
        except OSError:
            return False

    def close(self) -> None:
        if self.is_ours:
            self.socket.close()
        else:
            self.socket.detach()


class _Termination:
    """The handler of this process, which can have only one per signal."""

    def __init__(self) -> None:
        self._ends: list[AtEnd] = []
        self._previous: Any = None
        self._installed = False
        self._sockets: tuple[_Socket, _Socket] | None = None
        self._handled = threading.Event()
        self._knows_forks = self._forked = False
        self._masks = threading.local()
        # All other functions of `os` that are called exec call one of these two. A job that executes a program in its
        # own place goes on; after `os._exit` it has ended.
        exits = {"_exit": True, "execv": False, "execve": False}
        self._exits = [Patch(os, name, functools.partial(self._exiting, ends=ends)) for name, ends in exits.items()]

    def add(self, end: AtEnd) -> None:
        self._ends.append(end)
        for patch in self._exits:
            patch.install()
        if not self._knows_forks:
            self._knows_forks = True
            os.register_at_fork(before=self._block, after_in_parent=self._unblock, after_in_child=self._leave_child)
        if end.save is None or self._installed or threading.current_thread() is not threading.main_thread():
            return
        previous = signal.getsignal(signal.SIGTERM)
        if previous in (None, signal.SIG_IGN):
            return  # not set by Python, or ineffective
        self._previous = previous
        signal.signal(signal.SIGTERM, self.handle)
        self._installed = True
        self._listen()

    def remove(self, end: AtEnd) -> None:
        if end in self._ends:
            self._ends.remove(end)
        if not self._ends:
            self._restore_exits()
        if not any(end.save for end in self._ends) and threading.current_thread() is threading.main_thread():
            self._uninstall()

    def handle(self, number: int, frame: FrameType | None) -> None:
        self._handled.set()
        ends = self._ends_process()
        # If no thread can be started, nothing is saved, because the signal may have interrupted anything.
        with contextlib.suppress(Exception):
            if ends:
                set_exit_reason(signal="SIGTERM")
                self._leave_in_time()
            self._save_in_time(report=ends)
        if callable(self._previous):
            self._previous(number, frame)
        elif ends:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    def _exiting(self, function: Callable[..., Any], *, ends: bool) -> Callable[..., Any]:
        @functools.wraps(function)
        def exiting(*args: Any, **kwargs: Any) -> Any:
            with contextlib.suppress(Exception):
                if ends:
                    set_exit_reason(exit_code=int(*args, *kwargs.values()))
                self._leave()
            with contextlib.suppress(Exception):
                # Python starts no more threads once exit handlers run.
                self._save_in_time(report=ends, or_here=True)
            return function(*args, **kwargs)

        return exiting

    def _restore_exits(self) -> None:
        for patch in self._exits:
            patch.remove()

    def _leave(self) -> None:
        for end in tuple(self._ends):
            if end.leave is not None:
                end.leave()

    def _leave_in_time(self) -> None:
        if not any(end.leave for end in self._ends):
            return
        done = threading.Event()
        threading.Thread(target=self._end_unless, args=(done,), name="stepscope-patience", daemon=True).start()
        with contextlib.suppress(Exception):
            self._leave()
        done.set()

    def _end_unless(self, done: threading.Event) -> None:
        """Ends the process if the main thread, which the signal may have interrupted anywhere, does not go on."""
        if not done.wait(PATIENCE_SECONDS) and self._ends_process():
            set_exit_reason(signal="SIGTERM")
            self._save()
            # Python restores a signal's default action only in the main thread; C can in each.
            ctypes.CDLL(None).signal(int(signal.SIGTERM), None)
            os.kill(os.getpid(), signal.SIGTERM)

    def _save_in_time(self, *, report: bool, or_here: bool = False) -> None:
        # In a thread, because the training thread may hold a lock that saving needs.
        saving = threading.Thread(target=self._save, args=(report,), name="stepscope-ending", daemon=True)
        try:
            saving.start()
        except RuntimeError:
            if or_here:
                self._save(report)
        else:
            saving.join(PATIENCE_SECONDS)

    def _save(self, report: bool = False) -> None:
        ends = tuple(self._ends)
        for call in (*(end.save for end in ends), *(end.report for end in ends if report)):
            if call is not None:
                with contextlib.suppress(Exception):
                    call()

    def _is_outermost(self) -> bool:
        return signal.getsignal(signal.SIGTERM) == self.handle

    def _ends_process(self) -> bool:
        return self._previous is signal.SIG_DFL and self._is_outermost()

    def _listen(self) -> None:
        """Starts a thread that notices the signal, unless the job already has something that does."""
        if sys.platform != "linux":
            return  # nothing else states the sender
        before = signal.set_wakeup_fd(-1)
        if before != -1:
            signal.set_wakeup_fd(before)
            return
        try:
            reading, writing = map(_Socket, socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        except OSError:
            return
        self._sockets = reading, writing
        reading.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        writing.socket.setblocking(False)
        thread = threading.Thread(target=self._notice, args=(reading,), name="stepscope-signals", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # there are too many threads
            self._sockets = None
            reading.close()
            writing.close()
            return
        signal.set_wakeup_fd(writing.socket.fileno(), warn_on_full_buffer=False)

    def _notice(self, reading: _Socket) -> None:
        while reading.is_ours:
            try:
                numbers, senders, _, _ = reading.socket.recvmsg(64, socket.CMSG_SPACE(_CREDENTIALS.size))
            except OSError:
                break
            if not numbers:
                break
            # The sender according to Linux: a child has the same socket until it has left.
            from_us = [_CREDENTIALS.unpack(data)[0] == os.getpid() for _, _, data in senders]
            if signal.SIGTERM not in numbers or from_us != [True]:
                continue
            if self._is_outermost():
                self._end_unless(self._handled)
            else:
                self._save()
        reading.close()

    def _uninstall(self) -> None:
        if not self._installed:
            return
        # If the job wraps our handler, it stays and only passes on.
        if self._is_outermost():
            signal.signal(signal.SIGTERM, self._previous)
            self._installed = False
        if self._sockets is None:
            return
        reading, writing = self._sockets
        self._sockets = None
        wakeup = signal.set_wakeup_fd(-1)
        if wakeup not in (-1, writing.socket.fileno()):
            signal.set_wakeup_fd(wakeup)
        if self._forked:
            reading.close()  # the thread belongs to the parent
        elif writing.is_ours:
            writing.socket.shutdown(socket.SHUT_RDWR)  # ends the thread
        writing.close()

    def _block(self) -> None:
        """Blocks SIGTERM for a child until it has left the recording and has the default action again."""
        self._masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM}) if self._installed else None

    def _unblock(self) -> None:
        before, self._masks.before = getattr(self._masks, "before", None), None
        if before is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _leave_child(self) -> None:
        """A forked child records nothing, and ends as it would without us."""
        self._ends.clear()
        self._restore_exits()
        self._forked = True
        with contextlib.suppress(Exception):
            self._uninstall()
        self._unblock()


_TERMINATION = _Termination()
