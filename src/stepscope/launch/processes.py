"""Adopts orphaned processes below this one, finds them, and ends them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_AFTER_NAME = {"state": 0, "ppid": 1, "started": 19}  # indices of fields in /proc/PID/stat after the name


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """A process as described by /proc; `started` is in ticks since boot."""

    pid: int
    parent: int
    started: int


def adopt(*, on: bool) -> None:
    """Makes orphaned descendants children of this process from now on, or stops that.

    A tool whose first process ends may leave daemons and the command behind, and only a parent learns how they end.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0)


def process(pid: int) -> ProcessInfo | None:
    """Returns a process; None if it does not exist, or is a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        fields = text[text.rindex(")") + 1 :].split()
        if fields[_AFTER_NAME["state"]] in "ZX":
            return None
        return ProcessInfo(pid, int(fields[_AFTER_NAME["ppid"]]), int(fields[_AFTER_NAME["started"]]))
    except (OSError, ValueError, IndexError):
        return None


def now_in_ticks() -> int:
    """The present time in the units of `ProcessInfo.started`."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def below(*roots: int) -> list[ProcessInfo]:
    """All descendants of these, parents before children."""
    try:
        numbers = [int(info.name) for info in Path("/proc").iterdir() if info.name.isdecimal()]
    except OSError:
        return []
    processes = [info for number in numbers if (info := process(number)) is not None]
    descendants: list[ProcessInfo] = []
    parents = list(roots)
    while parents:
        children = [info for info in processes if info.parent in parents]
        descendants += children
        parents = [info.pid for info in children]
    return descendants


def send(processes: Iterable[ProcessInfo], what: signal.Signals) -> None:
    """Sends a signal to each process that still exists."""
    for info in processes:
        now = process(info.pid)
        if now is not None and now.started == info.started:
            with contextlib.suppress(OSError):
                os.kill(info.pid, what)
