"""The starter, which a tool starts in place of the command: claims the command, runs it, and records how it ended.

If a tool fails, a command that it has started must not be started again; and a tool's exit code is not always the
command's (nvprof's is 9 for any failure). So the starter runs the command only if it claims it first, is its parent,
and writes down the wait status from the kernel.

It is run by path, isolated and without site-packages, so it imports nothing of ours. Arguments: the folder shared with
the supervisor, the supervisor's process id, and the command.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

CLAIM, STATUS, OUTPUTS = "claim", "status", "outputs"
STARTED_AT, ENDED_AT, ROOM = 0, 64, 64
"""Offsets in the file `STATUS`, which is allocated in advance, because the command may fill the disk or empty TMPDIR."""
FORWARDED = frozenset({
    signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM,
    signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGXCPU,
})  # fmt: skip
"""Signals that a launcher, batch system or terminal sends to a command."""
IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
NOT_EXECUTABLE, NOT_FOUND = 126, 127
_LONGEST_ANSWER_S = 5.0


def claim(folder: Path) -> bool:
    """Claims the command; returns whether this process was the first, so that no other one runs it."""
    try:
        # A link appears at once with its content, or not at all.
        (folder / CLAIM).symlink_to(str(os.getpid()))
    except OSError:
        return False
    return True


def read_status(file: int, at: int) -> list[int]:
    """Reads the numbers that a starter has written at an offset; empty before that."""
    text, end, _ = os.pread(file, ROOM, at).partition(b"\n")
    return list(map(int, text.split())) if end else []


def spawn(command: Sequence[str], environment: Mapping[str, str], **how: Any) -> int:
    """Starts a command found on the PATH, with a shell child's signals; returns its process id, or raises OSError."""
    unignored: Any = {"setsigmask": [], "setsigdef": IGNORED_BY_PYTHON}
    try:
        return os.posix_spawnp(command[0], list(command), environment, **unignored, **how)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
        by_shell = run_by_shell(command)
        return os.posix_spawn(by_shell[0], by_shell, environment, **unignored, **how)


def run_by_shell(command: Sequence[str]) -> list[str]:
    """The command line of a script without `#!`: a shell runs it, as with `execvp` and from shells."""
    return ["/bin/sh", shutil.which(command[0]) or command[0], *command[1:]]


def is_typed(info: signal.struct_siginfo) -> bool:
    """Whether a signal comes from the terminal, which sends it to its entire process group."""
    return info.si_code > 0


def main(folder: Path, supervisor: int, command: list[str]) -> int:
    """Runs the command if nobody else has claimed it; returns its exit code, as a shell numbers it."""
    # Before any thread exists, so that it applies to all.
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED | {signal.SIGCHLD})
    # If the job's launcher ignores it, nobody would learn how the command ends.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _occupy_outputs()
    try:
        file = os.open(folder / STATUS, os.O_WRONLY)
    except OSError:
        return 0
    if not claim(folder):
        return 0
    _take_outputs(folder)
    try:
        process = spawn(command, os.environ)
    except OSError as error:
        code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
        _write_status(file, supervisor, ENDED_AT, str(code << 8))
        words = f"stepscope launch: {command[0]}: {error.strerror}\n"
        with contextlib.suppress(OSError):
            os.write(2, words.encode("utf-8", "replace"))
        return code
    _write_status(file, supervisor, STARTED_AT, f"{os.getpid()} {_ticks()} {process}")
    was_killed = threading.Event()
    watch = (supervisor, process, was_killed)
    threading.Thread(target=_end_with, args=watch, daemon=True).start()
    while True:
        info = signal.sigwaitinfo(FORWARDED | {signal.SIGCHLD})
        if info.si_signo == signal.SIGCHLD:
            # The process id stays reserved until the status is written.
            ended = os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is not None:
                break
        elif not is_typed(info):
            with contextlib.suppress(PermissionError):  # it runs as another user
                os.kill(process, info.si_signo)
    exited = ended.si_code == os.CLD_EXITED
    status = ended.si_status << 8 if exited else ended.si_status
    _write_status(file, supervisor, ENDED_AT, str(status))
    if was_killed.is_set():  # the supervisor cannot do it any more
        with contextlib.suppress(OSError):
            for name in (CLAIM, STATUS, OUTPUTS):
                (folder / name).unlink(missing_ok=True)
            folder.rmdir()
    os.waitpid(process, 0)
    return ended.si_status if exited else 128 + ended.si_status


@contextlib.contextmanager
def opened_folder(folder: Path) -> Iterator[str]:
    """A short path of a folder, because socket paths are limited to about a hundred characters."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _occupy_outputs() -> None:
    """Opens closed standard streams; otherwise a file of ours would get their number."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:  # standard error
        os.set_inheritable(number, True)
    os.close(number)


def _take_outputs(folder: Path) -> None:
    """Replaces the output streams from the tool by the job's own: nsys pipes a command's output, and writes into it."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_LONGEST_ANSWER_S)
        with opened_folder(folder) as near:
            connection.connect(f"{near}/{OUTPUTS}")
        for place, descriptor in enumerate(socket.recv_fds(connection, 1, 2)[1], start=1):
            os.dup2(descriptor, place)
            os.close(descriptor)


def _ticks() -> int:
    """The start time of this process in /proc's units; tells which processes are older."""
    text = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace")
    return int(text[text.rindex(")") + 1 :].split()[19])


def _write_status(file: int, supervisor: int, at: int, text: str) -> None:
    """Writes text and wakes the supervisor, if it still exists, to read it."""
    try:
        os.pwrite(file, f"{text}\n".encode("ascii"), at)
        os.kill(supervisor, signal.SIGCHLD)
    except OSError:
        pass


def _end_with(supervisor: int, process: int, was_killed: threading.Event) -> None:
    """Ends the command when the supervisor was killed, because that was meant for the command."""
    try:
        descriptor = os.pidfd_open(supervisor)
    except ProcessLookupError:
        pass
    except (OSError, AttributeError):  # the kernel or Python does not support it
        return
    else:
        select.select([descriptor], [], [])
    was_killed.set()
    os.kill(process, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
