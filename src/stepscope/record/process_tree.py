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
from typing import Any, NamedTuple

_PROC = Path("/proc")
_MOST_THREADS = 64
_MOST_PROCESSES = 4096


class _Thread(NamedTuple):
    name: str
    cpu_ns: int
    scheduled: tuple[int, int] | None
    """How long it ran, and waited for a processor (ns)."""


class ProcessTree:
    """The process that makes it, and those below it, from now on.

    Args:
        proc: where the system describes its processes.
    """

    def __init__(self, proc: Path = _PROC) -> None:
        self._proc = proc
        self._started_ns = time.perf_counter_ns()
        self._before = self._totals()
        self._threads_before = self._threads()

    def figures(self) -> dict[str, Any] | None:
        """What was taken since then, as JSON takes it; None where the system does not say.

        Times are ns, sizes bytes. `threads` lists name and processor time of the threads that are alive, the
        busiest first; of `ran_ns` and `waited_ns`, the latter is the time in which they could have run
        and no processor was free.
        """
        now = self._totals()
        if not now or not self._before:
            return None
        since = {name: max(0, value - self._before.get(name, 0)) for name, value in now.items()}
        threads = self._threads_since()
        ran_ns, waited_ns = _scheduled(threads)
        return {
            "elapsed_ns": time.perf_counter_ns() - self._started_ns,
            "processor": _processor(self._proc),
            "processors": _processors(),
            **since,
            "processes": len(list(self._below())),
            "threads_alive": len(threads),
            "threads": [[one.name, one.cpu_ns] for one in threads[:_MOST_THREADS]],
            "ran_ns": ran_ns,
            "waited_ns": waited_ns,
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

    def _threads(self) -> dict[str, _Thread]:
        """The living threads by their numbers. Source of waiting: sched-stats.rst of Linux."""
        ticks = os.sysconf("SC_CLK_TCK")
        found = {}
        with suppress(OSError):
            for task in (self._proc / "self" / "task").iterdir():
                with suppress(OSError, ValueError, IndexError):
                    name, _, rest = (task / "stat").read_text("utf-8", "replace").rpartition(")")
                    words = rest.split()
                    cpu_ns = (int(words[11]) + int(words[12])) * 10**9 // ticks
                    scheduled = None
                    with suppress(OSError, ValueError, IndexError):
                        ran, waited, *_ = map(int, (task / "schedstat").read_text().split())
                        scheduled = ran, waited
                    found[task.name] = _Thread(name.partition("(")[2], cpu_ns, scheduled)
        return found

    def _threads_since(self) -> list[_Thread]:
        """What the living threads took since the start, the busiest first."""
        since = []
        for number, now in self._threads().items():
            before = self._threads_before.get(number, _Thread("", 0, (0, 0)))
            scheduled = None
            if now.scheduled is not None and before.scheduled is not None:
                ran, waited = now.scheduled
                scheduled = ran - before.scheduled[0], waited - before.scheduled[1]
            since.append(_Thread(now.name, max(0, now.cpu_ns - before.cpu_ns), scheduled))
        return sorted(since, key=lambda one: -one.cpu_ns)


def _scheduled(threads: list[_Thread]) -> tuple[int | None, int | None]:
    """How long threads ran, and waited for a processor (ns); None where the system does not say."""
    known = [one.scheduled for one in threads if one.scheduled is not None]
    ran, waited = sum(ran for ran, _ in known), sum(waited for _, waited in known)
    return (ran, waited) if ran else (None, None)


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
