"""Measures what a process and its descendants take of the host: processor time, threads, memory, files.

Read from /proc by a thread of ours and when a file is written, never in a step. An ended process that was waited for is
included in the figures of its parent; usage before the recording is subtracted.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from stepscope.base.cpu_quota import processors

_PROC = Path("/proc")
_MAX_THREADS = 64
_MAX_PROCESSES = 4096
_LOOKS_FOR_CHILDREN = 10  # samples between two searches for new processes: the search reads a file per thread
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK")


class _Thread(NamedTuple):
    name: str
    cpu_ns: int
    scheduled: tuple[int, int] | None
    """How long it ran, and waited for a processor (ns)."""


class Use(NamedTuple):
    """What all processes, even ended ones, have used so far, and the RAM of living ones, shared memory in each."""

    cpu_ns: int
    resident_bytes: int
    read_bytes: int
    written_bytes: int


class ProcessTree:
    """The process that creates it and its descendants, measured from now on."""

    def __init__(self, proc: Path = _PROC) -> None:
        self._proc = proc
        self._started_ns = time.perf_counter_ns()
        self._before = self._totals()
        self._threads_before = self._threads()
        self._living: list[str] = []
        self._looks = 0
        self._resident_bytes = 0
        self._unseen: tuple[int, ...] = (0, 0, 0)

    def figures(self) -> dict[str, Any] | None:
        """The usage since the start, as JSON; None if the system does not provide it.

        Times are ns, sizes bytes. `threads` lists name and processor time of living threads, the busiest first.
        `waited_ns` is the time in which threads could have run but no processor was free.
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
            "processors": processors(),
            **since,
            "processes": len(list(self._below())),
            "threads_alive": len(threads),
            "threads": [[thread.name, thread.cpu_ns] for thread in threads[:_MAX_THREADS]],
            "ran_ns": ran_ns,
            "waited_ns": waited_ns,
            **_peaks(),
        }

    def use(self) -> Use | None:
        """The total usage until now, without usage of a process before it was first seen; None if unknown."""
        if self._looks % _LOOKS_FOR_CHILDREN == 0:
            before_search, self._living = self._living, list(self._below())
            before, after = self._use_of(before_search), self._use_of(self._living)
            if before is not None and after is not None:
                added = (max(0, now - then) for now, then in zip(after, before, strict=True))
                self._unseen = tuple(map(sum, zip(self._unseen, added, strict=True)))
        self._looks += 1
        used = self._use_of(self._living)
        if used is None:
            return None
        cpu, read, written = (now - out for now, out in zip(used, self._unseen, strict=True))
        return Use(cpu, self._resident_bytes, read, written)

    def _use_of(self, pids: list[str]) -> tuple[int, int, int] | None:
        """Processor time, and bytes read and written, of some processes and those they waited for."""
        sums = Counter[str]()
        for pid in pids:
            sums.update(self._usage(pid))
        self._resident_bytes = sums["resident_bytes"]
        used = sums["user_ns"] + sums["system_ns"], sums["read_bytes"], sums["written_bytes"]
        return used if "user_ns" in sums else None

    def _usage(self, pid: str) -> dict[str, int]:
        """The usage of a process and those it waited for, and its RAM. Source: proc_pid_stat(5)."""
        usage: dict[str, int] = {}
        with suppress(OSError, ValueError, IndexError):
            # Behind the process's name, which may contain blanks and parentheses.
            words = (self._proc / pid / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
            faults, ended_faults, user, system, ended_user, ended_system = map(int, words[9:15])
            usage = {
                "major_faults": faults + ended_faults,
                "user_ns": (user + ended_user) * _TICK_NS,
                "system_ns": (system + ended_system) * _TICK_NS,
                "resident_bytes": int(words[21]) * _PAGE_BYTES,
            }
        with suppress(OSError, ValueError, KeyError):
            fields = dict(line.split(": ", 1) for line in (self._proc / pid / "io").read_text().splitlines())
            read, written = int(fields["read_bytes"]), int(fields["write_bytes"])
            usage |= {"read_bytes": read, "written_bytes": written}
        return usage

    def _below(self) -> Iterator[str]:
        waiting, seen = ["self"], 0
        while waiting and seen < _MAX_PROCESSES:
            pid = waiting.pop()
            seen += 1
            yield pid
            with suppress(OSError):
                for task in (self._proc / pid / "task").iterdir():
                    with suppress(OSError):
                        waiting += (task / "children").read_text().split()

    def _totals(self) -> dict[str, int]:
        sums = Counter[str]()
        for pid in self._below():
            sums.update(self._usage(pid))
            with suppress(OSError, ValueError):
                for line in (self._proc / pid / "status").read_text("utf-8", "replace").splitlines():
                    if line.startswith("nonvoluntary_ctxt_switches:"):
                        sums["involuntary_switches"] += int(line.split()[1])
        del sums["resident_bytes"]  # of now, and no usage since the start
        return sums

    def _threads(self) -> dict[str, _Thread]:
        """The living threads by number, with the names that Python gave them. Source: sched-stats.rst of Linux."""
        given = {str(thread.native_id): thread.name for thread in threading.enumerate()}
        threads = {}
        with suppress(OSError):
            for task in (self._proc / "self" / "task").iterdir():
                with suppress(OSError, ValueError, IndexError):
                    name, _, fields = (task / "stat").read_text("utf-8", "replace").rpartition(")")
                    words = fields.split()
                    cpu_ns = (int(words[11]) + int(words[12])) * _TICK_NS
                    scheduled = None
                    with suppress(OSError, ValueError, IndexError):
                        ran, waited, *_ = map(int, (task / "schedstat").read_text().split())
                        scheduled = ran, waited
                    full_name = given.get(task.name) or name.partition("(")[2]
                    threads[task.name] = _Thread(full_name, cpu_ns, scheduled)
        return threads

    def _threads_since(self) -> list[_Thread]:
        """The usage of living threads since the start, the busiest first."""
        since = []
        for number, now in self._threads().items():
            before = self._threads_before.get(number, _Thread("", 0, (0, 0)))
            scheduled = None
            if now.scheduled is not None and before.scheduled is not None:
                ran, waited = now.scheduled
                scheduled = ran - before.scheduled[0], waited - before.scheduled[1]
            since.append(_Thread(now.name, max(0, now.cpu_ns - before.cpu_ns), scheduled))
        return sorted(since, key=lambda thread: -thread.cpu_ns)


def _scheduled(threads: list[_Thread]) -> tuple[int | None, int | None]:
    """How long threads ran, and waited for a processor (ns); None if the system does not provide it."""
    times = [thread.scheduled for thread in threads if thread.scheduled is not None]
    ran, waited = sum(ran for ran, _ in times), sum(waited for _, waited in times)
    return (ran, waited) if ran else (None, None)


def _peaks() -> dict[str, int | None]:
    try:
        import resource
    except ImportError:
        return {}
    # Linux counts in KiB; of children that were waited for, it only keeps the largest.
    peak, child = (resource.getrusage(who).ru_maxrss * 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {"peak_memory_bytes": peak, "peak_memory_of_a_child_bytes": child or None}


def _processor(proc: Path) -> str | None:
    with suppress(OSError):
        for line in (proc / "cpuinfo").read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return None
