"""What a process and those below it took of the host: processor time, threads, memory, files.

From /proc, read when a file is written and never in a step. What has ended and was waited for is in the figures of
whoever waited; what started before the recording is left out by what was read at its start.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

_PROC = Path("/proc")
_MOST_THREADS = 64
_MOST_PROCESSES = 4096


class ProcessTree:
    """The process that makes it, and those below it, from now on.

    Args:
        proc: where the system describes its processes.
    """

    def __init__(self, proc: Path = _PROC) -> None:
        self._proc = proc
        self._started_ns = time.perf_counter_ns()
        self._before = self._totals()

    def figures(self) -> dict[str, Any] | None:
        """What was taken since then, as JSON takes it; None where the system does not say.

        Times are ns, sizes bytes. `threads` lists name and processor time of the threads that are alive, since
        they started, the busiest first; of `ran_ns` and `waited_ns`, the latter is the time in which they could have run
        and no processor was free.
        """
        now = self._totals()
        if not now or not self._before:
            return None
        since = {name: max(0, value - self._before.get(name, 0)) for name, value in now.items()}
        threads = sorted(self._threads(), key=lambda one: -one[1])
        scheduled = self._scheduled()
        return {
            "elapsed_ns": time.perf_counter_ns() - self._started_ns,
            "processor": _processor(self._proc),
            "processors": _processors(),
            **since,
            "processes": len(list(self._below())),
            "threads_alive": len(threads),
            "threads": [list(one) for one in threads[:_MOST_THREADS]],
            "ran_ns": None if scheduled is None else scheduled[0],
            "waited_ns": None if scheduled is None else scheduled[1],
            **_peaks(),
        }

    def _below(self) -> Iterator[str]:
        """This process and all below it that live."""
        waiting, seen = ["self"], 0
        while waiting and seen < _MOST_PROCESSES:
            pid = waiting.pop()
            seen += 1
            yield pid
            with suppress(OSError):
                for task in (self._proc / pid / "task").iterdir():
                    with suppress(OSError):
                        waiting += (task / "children").read_text().split()

    def _totals(self) -> dict[str, int]:
        ticks = os.sysconf("SC_CLK_TCK")
        sums: dict[str, int] = {}

        def add(name: str, value: int) -> None:
            sums[name] = sums.get(name, 0) + value

        for pid in self._below():
            with suppress(OSError, ValueError, IndexError):
                # Its name may hold blanks and parentheses.
                words = (
                    (self._proc / pid / "stat")
                    .read_text("utf-8", "replace")
                    .rpartition(")")[2]
                    .split()
                )
                own = [int(words[place]) for place in (9, 10, 11, 12, 13, 14)]
                add("major_faults", own[0] + own[1])
                add("user_ns", (own[2] + own[4]) * 10**9 // ticks)
                add("system_ns", (own[3] + own[5]) * 10**9 // ticks)
            with suppress(OSError, ValueError):
                # Of processes that were waited for, too.
                listed = (self._proc / pid / "io").read_text().splitlines()
                said = dict(line.split(": ", 1) for line in listed)
                add("read_bytes", int(said["read_bytes"]))
                add("written_bytes", int(said["write_bytes"]))
            with suppress(OSError, ValueError):
                for line in (
                    (self._proc / pid / "status").read_text("utf-8", "replace").splitlines()
                ):
                    if line.startswith("nonvoluntary_ctxt_switches:"):
                        add("involuntary_switches", int(line.split()[1]))
        return sums

    def _threads(self) -> Iterator[tuple[str, int]]:
        ticks = os.sysconf("SC_CLK_TCK")
        with suppress(OSError):
            for task in (self._proc / "self" / "task").iterdir():
                with suppress(OSError, ValueError, IndexError):
                    text = (task / "stat").read_text("utf-8", "replace")
                    name, _, rest = text.rpartition(")")
                    words = rest.split()
                    cpu_ns = (int(words[11]) + int(words[12])) * 10**9 // ticks
                    yield name.partition("(")[2], cpu_ns

    def _scheduled(self) -> tuple[int, int] | None:
        """How long the living threads ran, and waited for a processor (ns). Source: sched-stats.rst of Linux."""
        ran = waited = 0
        try:
            for task in (self._proc / "self" / "task").iterdir():
                with suppress(FileNotFoundError):
                    words = (task / "schedstat").read_text().split()
                    ran += int(words[0])
                    waited += int(words[1])
        except (OSError, ValueError, IndexError):
            return None
        return (ran, waited) if ran else None


def _peaks() -> dict[str, int | None]:
    try:
        import resource
    except ImportError:
        return {}
    # Linux counts in KiB, and of those that were waited for it knows the largest.
    own, child = (
        resource.getrusage(who).ru_maxrss * 1024
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return {"peak_memory_bytes": own, "peak_memory_of_a_child_bytes": child or None}


def _processors() -> float:
    """Processors that the process may use: those it is bound to, or fewer by the quota of its control group."""
    bound = float(len(os.sched_getaffinity(0)))
    with suppress(OSError, ValueError, ZeroDivisionError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        if quota != "max":
            return min(bound, int(quota) / int(period))
    return bound


def _processor(proc: Path) -> str | None:
    with suppress(OSError):
        for line in (proc / "cpuinfo").read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return None
