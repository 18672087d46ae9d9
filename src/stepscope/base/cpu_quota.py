"""The part of the machine that this process may use: schedulers bind it to processors, and control groups limit it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_GROUPS = (Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))


def processors() -> float:
    """Processors that this process may use: those it is bound to, or fewer by the quota of its control groups."""
    try:
        bound = len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        bound = os.cpu_count() or 1
    cpus = float(bound)
    for group in _groups("cpu"):
        # Microseconds of processors in each period; version 2 has both in one file, version 1 in two.
        for names in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
            with suppress(OSError, ValueError, ZeroDivisionError):
                text = " ".join((group / name).read_text(encoding="ascii") for name in names)
                quota, period = map(int, text.split())  # "max" or -1 is no limit
                if quota > 0:
                    cpus = min(cpus, quota / period)
    return cpus


def workers(tasks: int) -> int:
    """How many processes or threads to use for `tasks` independent tasks: at most one per processor."""
    return max(1, min(tasks, round(processors())))


def memory_bytes() -> int | None:
    """Memory that this process may use; None if the system does not state it."""
    limits = []
    with suppress(ValueError, OSError, AttributeError):
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for group in _groups("memory"):
        # Of versions 2 and 1; without a limit they contain a word, or more than there is.
        for name in ("memory.max", "memory.limit_in_bytes"):
            with suppress(OSError, ValueError):
                limits.append(int((group / name).read_text(encoding="ascii")))
    return min(limits, default=None)


def _groups(controller: str) -> Iterator[Path]:
    """The control groups of this process that may limit it, from its own to the outermost."""
    listing, root = _GROUPS
    with suppress(OSError, ValueError):
        for line in listing.read_text(encoding="utf-8").splitlines():
            kinds, path = line.split(":", 2)[1:]
            if kinds and controller not in kinds.split(","):
                continue
            top = root / kinds if kinds else root
            here = top / path.lstrip("/")
            for group in (here, *here.parents):
                yield group
                if group == top:
                    break
