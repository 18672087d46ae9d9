"""Runs a program and measures it whole: wall time, and memory with all the processes it starts."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SAMPLE_EVERY_S = 0.02
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Measured:
    """One run of a program.

    Args:
        wall_s: from its start to its end.
        cpu_s: user and system time of it and of the children it waited for.
        peak_bytes: the larger of what the kernel says was its largest process and of the sum over its
            process tree as sampled while it ran.
        exit_code: what it ended with.
        output: its standard output.
        errors: its standard error.
    """

    wall_s: float
    cpu_s: float
    peak_bytes: int
    exit_code: int
    output: str
    errors: str


def run_measured(
    command: Sequence[str],
    environment: Mapping[str, str] | None = None,
    *,
    stdout: str = "kept",
    most_s: float | None = None,
) -> Measured:
    """Runs a command to its end.

    This process must be small itself: until a child has started its program, the kernel counts the
    parent's pages as the child's.

    Args:
        command: the program and its arguments.
        environment: what is added to this process's own.
        stdout: where its standard output leads: `kept`; `unread`, a pipe that nobody reads;
            `closed`; or `full`, a device that takes nothing.
        most_s: after this time it is killed with all that it started.
    """
    began = time.perf_counter()
    where, unread = _stdout(stdout)
    process = subprocess.Popen(
        list(command),
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=where,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
        preexec_fn=(lambda: os.close(1)) if stdout == "closed" else None,
    )
    if unread is not None:
        os.close(unread)
    sampler = _TreeSampler(process.pid)
    sampler.start()
    killer = threading.Timer(most_s or 0, lambda: os.killpg(process.pid, signal.SIGKILL))
    if most_s is not None:
        killer.start()
    errors: list[str] = []
    assert process.stderr is not None
    reader = threading.Thread(target=lambda: errors.append(process.stderr.read()))
    reader.start()
    output = process.stdout.read() if process.stdout is not None else ""
    reader.join()
    _, status, usage = os.wait4(process.pid, 0)
    killer.cancel()
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    sampler.stop()
    return Measured(
        wall_s=wall,
        cpu_s=usage.ru_utime + usage.ru_stime,
        peak_bytes=max(usage.ru_maxrss * 1024, sampler.peak_bytes),
        exit_code=process.returncode,
        output=output,
        errors=errors[0] if errors else "",
    )


def _stdout(kind: str) -> tuple[int, int | None]:
    """What a process gets for its standard output, and what to close once it has it."""
    if kind == "unread":
        reading, writing = os.pipe()
        os.close(reading)
        return writing, writing
    if kind == "full":
        full = os.open("/dev/full", os.O_WRONLY)
        return full, full
    return (subprocess.PIPE if kind == "kept" else subprocess.DEVNULL), None


class _TreeSampler(threading.Thread):
    """Adds up the resident memory of a process and its descendants again and again; keeps the largest sum."""

    def __init__(self, root: int) -> None:
        super().__init__(daemon=True)
        self.root = root
        self.peak_bytes = 0
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.wait(SAMPLE_EVERY_S):
            self.peak_bytes = max(self.peak_bytes, sum(map(_resident_bytes, _tree(self.root))))

    def stop(self) -> None:
        self._stopped.set()
        self.join()


def _tree(root: int) -> list[int]:
    found = [root]
    for pid in found:
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            try:
                found += [int(child) for child in children.read_text().split()]
            except OSError:
                continue  # the thread ended meanwhile
    return found


def _resident_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0
