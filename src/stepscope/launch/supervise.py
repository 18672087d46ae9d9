"""Runs the command under a tool so that the job does not notice: once, to its end, with its own exit code.

The job's process stays as supervisor: it passes the launcher's signals on to the command, and ends as the command
ended. Tool, starter and command have their own process group, so that a signal to the job's group arrives once; on a
terminal they stay in the foreground group, which Ctrl-C reaches anyway.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import Any

from stepscope.launch import processes, started
from stepscope.launch.divert import Diverted
from stepscope.launch.line import Line

LONGEST_START_S = 300.0
"""A tool that has not started the command after this time is given up."""
LONGEST_REMAINS_S = 30.0
"""Time that the processes of a killed tool may take to end."""
_GRACE_S = 10.0
_PREFIX = "stepscope-launch-"
_YOUNG_S = 60.0  # a younger folder may still be in use by its creator
_LOOK_AGAIN_S = 2.0
_WAITED = started.FORWARDED | {signal.SIGCHLD}
_ENDING = frozenset({signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM})


@dataclass(frozen=True, slots=True)
class Ended:
    """How command and tool ended.

    Args:
        command: the command's wait status; None if it was not started, or is unknown.
        was_started: whether the command was started; if not, no starter runs it any more.
        tool: how the tool ended, in words; empty if all was well.
        termination: the signal that asked the job to end, if one did.
        gave_up: whether the tool took too long to start the command.
    """

    command: int | None
    was_started: bool
    tool: str
    termination: signal.Signals | None
    gave_up: bool = False


class Supervisor:
    """One command under one tool, which gets some time to write its files after the command has ended."""

    def __init__(self, longest_end_s: float, warn: Callable[[str], None]) -> None:
        self._longest_end_s = longest_end_s
        self._warn = warn
        self._exchange = Exchange()
        self._mask: set[int | signal.Signals] = set()
        self._of_children: Any = signal.SIG_DFL
        """The previous handling of SIGCHLD: if a launcher ignores it, nobody would learn how the command ends."""
        self._tool = 0
        self._tool_status: int | None = None
        self._starter = 0
        self._starter_ticks: int | None = None
        self._command = 0
        self._status: int | None = None
        self._claimed = False
        self._gave_up = False
        self._termination: signal.Signals | None = None
        self._deadline = float("inf")
        self._hurried: signal.Signals | None = None
        """The signal that asked the job to end after the command had ended."""
        self._early: list[tuple[signal.Signals, int | None]] = []
        """Signals before the command was known, with the time of those from the terminal, which a running command has
        got."""

    def starter(self, command: Sequence[str]) -> list[str]:
        """The command line of the starter, which the tool starts in place of the command."""
        return [
            *(sys.executable, "-I", "-S", started.__file__),
            *(str(self._exchange.folder), str(os.getpid()), *command),
        ]

    def run(self, line: Line, environment: dict[str, str]) -> Ended:
        """Runs a line that starts our starter, with signals blocked until `release`; returns when all have ended.

        Raises:
            OSError: the tool cannot be started.
        """
        self._block_signals()
        processes.adopt(on=True)
        self._exchange.hand_over_outputs()
        # The tool's own messages do not belong to the command's output.
        moved = [(os.POSIX_SPAWN_DUP2, 2, 1)]
        self._tool = started.spawn(line.words, environment, file_actions=moved, **_new_group())
        self._wait_for_start()
        if self._starter or self._status is not None:
            self._wait_for_command()
        overdue = self._wait_for_tool()
        how = _how(self._tool_status or 0)
        if self._status is not None and self._tool_status in _passed_on(self._status):
            how = ""
        if overdue:
            how = f"did not end within {self._longest_end_s:g} s of the command, and was ended"
            if self._hurried is not None:
                how = f"had not written its files at a {self._hurried.name}, and was ended"
        if self._gave_up:
            how = f"did not start the command within {LONGEST_START_S:g} s, and was ended"
        return Ended(self._status, not self._claimed, how, self._termination, self._gave_up)

    def run_diverted(self, command: Sequence[str], environment: dict[str, str], output: Diverted) -> Ended:
        """Runs a command without a tool around it, and diverts lines of its output; OSError if it cannot be started."""
        self._block_signals()
        moved = [(os.POSIX_SPAWN_DUP2, output.to, 1)]
        self._command = started.spawn(command, environment, file_actions=moved, **_new_group())
        output.start()
        while self._status is None:
            self._wait(None)
        output.finish()
        return Ended(self._status, was_started=True, tool="", termination=self._termination)

    def _block_signals(self) -> None:
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED)
        self._of_children = signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def release(self) -> None:
        """Restores this process's signals; drops those that arrived meanwhile."""
        while signal.sigtimedwait(_WAITED, 0) is not None:
            pass
        processes.adopt(on=False)
        self._exchange.close()
        signal.signal(signal.SIGCHLD, self._of_children)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def _wait_for_start(self) -> None:
        """Waits until the command runs, has ended, or is claimed here, so that no starter runs it any more."""
        deadline = time.monotonic() + LONGEST_START_S
        while not (self._starter or self._status is not None):
            over = self._tool_status is not None or self._termination is not None
            if over or time.monotonic() > deadline:
                self._claimed = started.claim(self._exchange.folder)
                self._gave_up = self._claimed and not over
                if self._claimed or not self._claimer_lives():
                    return
                deadline = time.monotonic() + _LOOK_AGAIN_S
            self._wait(deadline)
            self._look()

    def _claimer_lives(self) -> bool:
        try:
            claimer = int((self._exchange.folder / started.CLAIM).readlink().name)
        except (OSError, ValueError):
            return False
        lives = processes.process(claimer) is not None
        self._look()
        return lives or self._starter != 0 or self._status is not None

    def _wait_for_command(self) -> None:
        warned = False
        for what, typed in self._early:
            command = processes.process(self._command)
            if typed is None or (command is not None and command.started > typed):
                self._pass_on(what)
        while self._status is None:
            if self._tool_status and not warned:
                warned = True
                self._warn(f"{_how(self._tool_status)} while the command runs, which goes on unprofiled")
            if not any(map(processes.process, (self._starter, self._command))):
                # The starter writes it before it ends; if it was killed, the process that adopted the command knows.
                self._reap()
                self._look()
                return
            self._wait(time.monotonic() + _LOOK_AGAIN_S if self._tool_status is not None else None)
            self._look()

    def _wait_for_tool(self) -> bool:
        """Waits for the tool and for processes older than the command; returns whether they had to be ended."""
        killed = self._tool_status is not None and os.WIFSIGNALED(self._tool_status)
        longest = min(self._longest_end_s, LONGEST_REMAINS_S) if killed else self._longest_end_s
        self._deadline = time.monotonic() + (0.0 if self._claimed else longest)
        while (left := self._tools()) and time.monotonic() < self._deadline:
            self._wait(self._deadline)
        overdue = bool(left)
        for what in (signal.SIGTERM, signal.SIGKILL):
            deadline = time.monotonic() + _GRACE_S
            processes.send([*left, *processes.below(*(info.pid for info in left))], what)
            while (left := self._tools()) and time.monotonic() < deadline:
                self._wait(deadline)
        if self._termination is not None:
            # What the command left behind gets that signal with its process group.
            processes.send(processes.below(os.getpid()), self._termination)
        self._reap()
        return overdue and not self._claimed

    def _tools(self) -> list[processes.ProcessInfo]:
        """The tool's processes: itself, the starter, and those of our children that are no younger than the starter.

        Start times have a resolution of 10 ms, in which no Python starts and runs a command.
        """
        return [
            info
            for info in processes.below(os.getpid())
            if info.pid in (self._tool, self._starter)
            or (info.parent == os.getpid() and (self._starter_ticks is None or info.started <= self._starter_ticks))
        ]

    def _wait(self, deadline: float | None) -> None:
        if deadline is None:
            info: signal.struct_siginfo | None = signal.sigwaitinfo(_WAITED)
        else:
            # The kernel limits this number; longer waits are repeated.
            left_s = min(deadline - time.monotonic(), LONGEST_START_S)
            info = signal.sigtimedwait(_WAITED, max(0.0, left_s))
        if info is None:
            return
        if info.si_signo == signal.SIGCHLD:
            self._reap()
            return
        what = signal.Signals(info.si_signo)
        # Ignored signals, such as SIGHUP under nohup, also arrive while they are blocked.
        if what in _ENDING and signal.getsignal(what) != signal.SIG_IGN:
            self._termination = what
            self._look()
            if self._status is not None:  # the tool has time for its files until the second signal
                left_s = LONGEST_REMAINS_S if self._hurried is None else 0.0
                self._deadline = min(self._deadline, time.monotonic() + left_s)
                self._hurried = what
        if not self._command:
            self._early.append((what, processes.now_in_ticks() if started.is_typed(info) else None))
        # Keys of the terminal reach the command too, in our group or through a tool that moved it to another.
        elif not started.is_typed(info):
            self._pass_on(what)

    def _pass_on(self, what: signal.Signals) -> None:
        self._look()
        if self._status is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self._command, what)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self._tool:
                    self._tool_status = status
                elif pid == self._command and self._status is None:
                    self._status = status

    def _look(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            if not self._starter and (numbers := started.read_status(self._exchange.status_file, started.STARTED_AT)):
                self._starter, self._starter_ticks, self._command = numbers
            if self._status is None and (numbers := started.read_status(self._exchange.status_file, started.ENDED_AT)):
                self._status = numbers[0]


def end_as(status: int) -> int:
    """Ends this process with the signal that ended the command; or returns the command's exit code."""
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return code
    import resource

    # The command has dumped its core, if that was wanted.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError, ValueError):  # SIGKILL has no handler
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
    return 128 - code


def _how(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    if code == 0:
        return ""
    return f"ended with exit code {code}" if code >= 0 else f"was ended by {signal.Signals(-code).name}"


def _passed_on(status: int) -> tuple[int, ...]:
    """Exit statuses of a tool that ends as the command did, including a shell's code for a signal."""
    return (status, (128 + os.WTERMSIG(status)) << 8) if os.WIFSIGNALED(status) else (status,)


def _new_group() -> dict[str, int]:
    return {} if _on_terminal() else {"setpgroup": 0}


def _on_terminal() -> bool:
    """Whether this process is in the foreground of a terminal, whose keys are meant for the command."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


class Exchange:
    """The folder in which a supervisor and its starter exchange data, and the open file into which the starter writes.

    That file is locked as long as the supervisor lives: the next launch removes folders of killed supervisors.

    Raises:
        OSError: it cannot be created.
    """

    def __init__(self) -> None:
        for left in _left_behind():
            rmtree(left, ignore_errors=True)
        self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self.status_file = os.open(self.folder / started.STATUS, os.O_RDWR | os.O_CREAT)
        with contextlib.suppress(OSError):
            fcntl.flock(self.status_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(self.status_file, bytes(started.ENDED_AT + started.ROOM))
        self._listener: socket.socket | None = None

    def hand_over_outputs(self) -> None:
        """Offers this process's standard output and error to the starter, because tools redirect them; it may fail."""
        with contextlib.suppress(OSError):
            listener = socket.socket(socket.AF_UNIX)
            with started.opened_folder(self.folder) as near:
                listener.bind(f"{near}/{started.OUTPUTS}")
            listener.listen()
            self._listener = listener
            threading.Thread(target=_hand_over, args=(listener,), daemon=True).start()

    def close(self) -> None:
        """Removes the folder."""
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
        os.close(self.status_file)
        rmtree(self.folder, ignore_errors=True)


def _hand_over(listener: socket.socket) -> None:
    while True:
        try:
            asking, _ = listener.accept()
        except OSError:
            return
        with asking, contextlib.suppress(OSError):
            socket.send_fds(asking, [b"\0"], [1, 2])


def _left_behind() -> Iterator[Path]:
    """This user's folders without a living supervisor."""
    oldest = time.time() - _YOUNG_S
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            status = folder.lstat()
            mine = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
            if mine and status.st_mtime < oldest and not _is_locked(folder / started.STATUS):
                yield folder


def _is_locked(path: Path) -> bool:
    """Whether another process has locked a file; False if it does not exist."""
    try:
        file = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(file)
    return False
