"""The processes below this one: adopting those whose parents ended, finding them, ending them."""

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
_AFTER_NAME = {"state": 0, "ppid": 1, "started": 19}
"""Places in /proc/PID/stat, counted behind the name."""


@dataclass(frozen=True, slots=True)
class Found:
    """A process, by what /proc says; `started` in ticks since the machine started."""

    pid: int
    parent: int
    started: int


def adopt(*, on: bool) -> None:
    """From now on, processes below this one whose parents end become its children, or no longer.

    A tool whose first process ends may leave daemons and the command, and only a parent is told how they end.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0)


def process(pid: int) -> Found | None:
    """A process that runs; None where there is none, or it has ended and nobody has asked how."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        rest = text[text.rindex(")") + 1 :].split()
        if rest[_AFTER_NAME["state"]] in "ZX":
            return None
        return Found(pid, int(rest[_AFTER_NAME["ppid"]]), int(rest[_AFTER_NAME["started"]]))
    except (OSError, ValueError, IndexError):
        return None


def now_in_ticks() -> int:
    """Now, as `Found.started` counts."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def below(*roots: int) -> list[Found]:
    """All processes below these, parents before children."""
    try:
        numbers = [int(one.name) for one in Path("/proc").iterdir() if one.name.isdecimal()]
    except OSError:
        return []
    every = [one for number in numbers if (one := process(number)) is not None]
    found: list[Found] = []
    parents = list(roots)
    while parents:
        children = [one for one in every if one.parent in parents]
        found += children
        parents = [one.pid for one in children]
    return found


def send(processes: Iterable[Found], what: signal.Signals) -> None:
    """Sends a signal to each that is still the same process."""
    for one in processes:
        now = process(one.pid)
        if now is not None and now.started == one.started:
            with contextlib.suppress(OSError):
                os.kill(one.pid, what)
