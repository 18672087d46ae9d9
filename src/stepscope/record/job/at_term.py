"""Calls a function when the process ends without Python's exit handlers: by SIGTERM (`scancel`, a preemption, `kill`),
`os._exit` or `os.exec`.

Otherwise the last measurements would be lost. The process still ends as it would have: by the signal if the job does
not handle it, or through the job's own handler. A job may wrap our handler in its own, as frameworks do; then the job
decides whether to continue, and ours only saves.

Python runs signal handlers between two of its instructions, so a job that waits in a collective would handle the signal
only after that. A thread notices the signal at once. It saves if the job has replaced our handler; and it restores the
signal's default action in a process that should have ended but has not reached our handler after `PATIENCE_SECONDS`.

Until a forked child has left the recording, it still has our handler and the thread's socket. So SIGTERM is blocked
around a fork, and the thread only accepts signals from its own process.

`os._exit`, with which some jobs exit past hanging threads, runs no exit handler either, nor does `os.exec`, with which a
job starts itself again. While there is something to save or report they are replaced; the original is called when that
is done, or has had its time.
"""

from __future__ import annotations

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
from collections.abc import Callable
from types import FrameType
from typing import Any

from stepscope.record.job.ending import tell
from stepscope.record.targets.patches import Patch

PATIENCE_SECONDS = 5.0
_MOST_FILES = 8192
"""In a process that may open more files, its file table does not grow beyond this many."""
_CREDENTIALS = struct.Struct("3i")  # process, user, group: unix(7)

Save = Callable[[], object]


class _Socket:
    """A socket that is closed only while its descriptor is its own: a job may close all descriptors, as daemons do, and
    its files then reuse them.
    """

    def __init__(self, one: socket.socket) -> None:
        self.socket = one
        self._file = self._file_there()

    def _file_there(self) -> tuple[int, int]:
        found = os.fstat(self.socket.fileno())
        return found.st_dev, found.st_ino

    @property
    def is_there(self) -> bool:
        """Whether its descriptor is still its own."""
        try:
            return self._file_there() == self._file
        except OSError:
            return False

    def close(self) -> None:
        """Closes it, or leaves its descriptor to the job."""
        if self.is_there:
            self.socket.close()
        else:
            self.socket.detach()


def _out_of_the_way(one: socket.socket) -> socket.socket:
    """Moves a socket to a high descriptor, because the job's files get the lowest free ones: Python writes to one of
    the two sockets at a signal, whatever the job has made of that descriptor, and complains if nobody reads the other.

    Raises:
        OSError: no such descriptor is available.
    """
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    most = min(soft, _MOST_FILES) if soft != resource.RLIM_INFINITY else _MOST_FILES
    with one:
        return socket.socket(fileno=fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, most // 2))


class _Termination:
    """The handler of this process, which can have only one per signal."""

    def __init__(self) -> None:
        self._saves: list[Save] = []
        self._reports: list[Save] = []
        self._before_leaving: dict[Save, Save] = {}
        self._previous: Any = None
        self._installed = False
        self._sockets: tuple[_Socket, _Socket] | None = None
        self._handled = threading.Event()
        self._knows_forks = self._forked = False
        self._masks = threading.local()
        # What else is called exec in os calls one of these two.
        # A job that executes a program in its own place goes on; after `os._exit` it has ended.
        leaves = {"_exit": True, "execv": False, "execve": False}
        self._leaves = [Patch(os, name, functools.partial(self._leaving, ends=ends)) for name, ends in leaves.items()]

    def add_report(self, report: Save) -> None:
        self._reports.append(report)
        self._know_forks()

    def add(self, save: Save, leaving: Save | None) -> None:
        self._saves.append(save)
        if leaving is not None:
            self._before_leaving[save] = leaving
        self._know_forks()
        if self._installed or threading.current_thread() is not threading.main_thread():
            return
        previous = signal.getsignal(signal.SIGTERM)
        if previous in (None, signal.SIG_IGN):
            return  # not set by Python, or ineffective
        self._previous = previous
        signal.signal(signal.SIGTERM, self.handle)
        self._installed = True
        self._listen()

    def _know_forks(self) -> None:
        for patch in self._leaves:
            patch.install()
        if not self._knows_forks:
            self._knows_forks = True
            os.register_at_fork(before=self._hold, after_in_parent=self._let_go, after_in_child=self._leave_child)

    def remove(self, save: Save) -> None:
        for those in (self._saves, self._reports):
            if save in those:
                those.remove(save)
        self._before_leaving.pop(save, None)
        if not self._saves and not self._reports:
            self._stay()
        if not self._saves and threading.current_thread() is threading.main_thread():
            self._uninstall()

    def handle(self, number: int, frame: FrameType | None) -> None:
        self._handled.set()
        ends = self._ends_the_process()
        # If no thread can be started, nothing is saved, because the signal may have interrupted anything.
        with contextlib.suppress(Exception):
            if ends:
                tell(signal="SIGTERM")
                self._leave_in_time()
            self._save_in_time(report=ends)
        if callable(self._previous):
            self._previous(number, frame)
        elif ends:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    def _stay(self) -> None:
        for patch in self._leaves:
            patch.remove()

    def _leaving(self, leave: Callable[..., Any], *, ends: bool) -> Callable[..., Any]:
        @functools.wraps(leave)
        def left(*args: Any, **kwargs: Any) -> Any:
            with contextlib.suppress(Exception):
                if ends:
                    tell(exit_code=int(*args, *kwargs.values()))
                self._call_before_leaving()
            with contextlib.suppress(Exception):
                # Python starts no more threads once exit handlers run.
                self._save_in_time(report=ends, or_here=True)
            return leave(*args, **kwargs)

        return left

    def _call_before_leaving(self) -> None:
        for leaving in (*self._before_leaving.values(),):
            leaving()

    def _leave_in_time(self) -> None:
        """Does what needs this thread, which the signal may have interrupted anywhere, so that it may wait for
        itself."""
        if not self._before_leaving:
            return
        over = threading.Event()

        def force() -> None:
            if not over.wait(PATIENCE_SECONDS):
                self._save()
                _end_by_signal()

        threading.Thread(target=force, name="stepscope-patience", daemon=True).start()
        with contextlib.suppress(Exception):
            self._call_before_leaving()
        over.set()

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

    def _is_outermost(self) -> bool:
        return signal.getsignal(signal.SIGTERM) == self.handle

    def _ends_the_process(self) -> bool:
        return self._previous is signal.SIG_DFL and self._is_outermost()

    def _save(self, report: bool = False) -> None:
        for save in (*self._saves, *(self._reports if report else ())):
            with contextlib.suppress(Exception):
                save()

    def _listen(self) -> None:
        """Starts a thread that notices the signal, unless the job itself has something that notices signals like
        this."""
        if sys.platform != "linux":
            return  # nothing else states the sender
        before = signal.set_wakeup_fd(-1)
        if before != -1:
            signal.set_wakeup_fd(before)
            return
        try:
            reading, writing = map(_out_of_the_way, socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        except OSError:
            return
        self._sockets = _Socket(reading), _Socket(writing)
        reading.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        writing.setblocking(False)
        thread = threading.Thread(target=self._notice, args=self._sockets[:1], name="stepscope-signals", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # there are too many threads
            self._sockets = None
            reading.close()
            writing.close()
            return
        signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)

    def _notice(self, reading: _Socket) -> None:
        while reading.is_there:
            try:
                numbers, senders, _, _ = reading.socket.recvmsg(64, socket.CMSG_SPACE(_CREDENTIALS.size))
            except OSError:
                break
            if not numbers:
                break
            # The sender according to Linux: a child has the same socket until it has left.
            own = [_CREDENTIALS.unpack(data)[0] == os.getpid() for _, _, data in senders]
            if signal.SIGTERM not in numbers or own != [True]:
                continue
            if not self._is_outermost():
                self._save()
            elif not self._handled.wait(PATIENCE_SECONDS) and self._ends_the_process():
                tell(signal="SIGTERM")
                self._save()
                _end_by_signal()
        reading.close()

    def _uninstall(self) -> None:
        if not self._installed:
            return
        # If the job wraps our handler, it stays and only passes on.
        if self._is_outermost():
            signal.signal(signal.SIGTERM, self._previous)
            self._installed = False
        self._stop_listening()

    def _stop_listening(self) -> None:
        if self._sockets is None:
            return
        reading, writing = self._sockets
        self._sockets = None
        own = signal.set_wakeup_fd(-1)
        if own not in (-1, writing.socket.fileno()):
            signal.set_wakeup_fd(own)
        if self._forked:
            reading.close()  # the thread belongs to the parent
        elif writing.is_there:
            writing.socket.shutdown(socket.SHUT_RDWR)  # ends the thread
        writing.close()

    def _hold(self) -> None:
        """Blocks SIGTERM for a child until it has left the recording and has the default action again."""
        self._masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM}) if self._installed else None

    def _let_go(self) -> None:
        before, self._masks.before = getattr(self._masks, "before", None), None
        if before is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _leave_child(self) -> None:
        """A forked child records nothing, and ends as it would without us."""
        self._saves.clear()
        self._reports.clear()
        self._before_leaving.clear()
        self._stay()
        self._forked = True
        with contextlib.suppress(Exception):
            self._uninstall()
        self._let_go()


def _end_by_signal() -> None:
    # Python restores a signal's default action only in the main thread; C can in each.
    ctypes.CDLL(None).signal(int(signal.SIGTERM), None)
    os.kill(os.getpid(), signal.SIGTERM)


_TERMINATION = _Termination()


class AtTerm:
    """Calls a function in its own thread when the process is asked to end or exits, until it is cancelled.

    Only the main thread can handle signals; created elsewhere, this only covers `os._exit`.

    Args:
        function: the function; it has `PATIENCE_SECONDS`.
        reports: call it after everything is saved and if the process really ends. By itself it handles no signal: it
            learns of SIGTERM while another one saves.
        leaving: called before that if the process ends by `os._exit`, `os.exec` or SIGTERM, in the thread that exits or
            handles it.
    """

    def __init__(self, function: Save, *, reports: bool = False, leaving: Save | None = None) -> None:
        self._function = function
        if reports:
            _TERMINATION.add_report(function)
        else:
            _TERMINATION.add(function, leaving)

    def cancel(self) -> None:
        """Cancels the call."""
        _TERMINATION.remove(self._function)
