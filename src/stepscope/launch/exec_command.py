"""Replaces this process by the command, as if StepScope had never run."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from stepscope.base.quoting import printable_lines
from stepscope.launch.started import IGNORED_BY_PYTHON, NOT_EXECUTABLE, NOT_FOUND, run_by_shell


def exec_command(command: Sequence[str]) -> NoReturn:
    """Replaces this process by the command: same process id, environment, files, and the signals that a shell gives."""
    for number in IGNORED_BY_PYTHON:  # and ignored signals stay ignored
        signal.signal(number, signal.SIG_DFL)
    try:
        try:
            os.execvpe(command[0], list(command), original_environment())  # noqa: S606
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                raise
            by_shell = run_by_shell(command)
            os.execve(by_shell[0], by_shell, original_environment())  # noqa: S606
    except OSError as error:
        warn(f"{command[0]}: {error.strerror}")
        sys.exit(NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE)


def original_environment() -> dict[str, str]:
    """The environment with which this process was started, without the LC_CTYPE that Python adds in the C locale."""
    environment = dict(os.environ)
    try:
        given = Path("/proc/self/environ").read_bytes()
    except OSError:
        return environment
    if not any(variable.startswith(b"LC_CTYPE=") for variable in given.split(b"\0")):
        environment.pop("LC_CTYPE", None)
    return environment


def warn(message: str, hint: str = "") -> None:
    """Writes one line to stderr at once, if possible; the job goes on."""
    more = f"; {hint}" if hint else ""
    text = f"stepscope launch: {printable_lines(message + more)}\n"
    with contextlib.suppress(OSError):
        os.write(2, text.encode("utf-8", "replace"))
