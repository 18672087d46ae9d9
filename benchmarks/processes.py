"""Runs a program and measures its wall time, and its memory with that of all processes it starts."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

SAMPLE_EVERY_S = 0.02
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Measured:
    """One run of a program.

    Args:
        wall_s: from its start to its end.
        cpu_s: user and system time, including children it waited for.
        peak_bytes: the larger of its largest process, according to the kernel, and the sampled sum over its process
            tree.
        exit_code: its exit code.
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

    This process must be small, because until a child has started its program, the kernel counts the parent's pages as
    the child's.

    Args:
        command: the program and its arguments.
        environment: variables added to this process's.
        stdout: its standard output: `kept`; `unread`, a pipe that nobody reads; `closed`; or `full`, a device that
            accepts nothing.
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


def run_forked(
    run: Callable[[], int],
    folder: Path,
    *,
    stdout: str = "kept",
    most_s: float,
    most_cpu_s: int = -1,
    most_bytes: int = 1 << 62,
) -> Measured:
    """Runs a function in a fork of this process, which must have no threads but has imported what it needs.

    Args:
        run: the function; returns the exit code.
        folder: folder for its two outputs.
        stdout, most_s: as for `run_measured`.
        most_cpu_s: after so much processor time the kernel ends it; -1 for no limit.
        most_bytes: above this, of it and all that it started, it is killed too.
    """
    began = time.perf_counter()
    child = os.fork()
    if child == 0:
        code = 70
        try:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_CPU, (most_cpu_s, most_cpu_s))
            _redirect(stdout, folder)
            code = run()
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    stream.flush()
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(code)
    ended, status, usage, peak = 0, 0, None, 0
    while not ended:
        ended, status, usage = os.wait4(child, os.WNOHANG)
        if not ended:
            peak = max(peak, sum(map(_resident_bytes, _tree(child))))
            if time.perf_counter() - began > most_s or peak > most_bytes:
                os.killpg(child, signal.SIGKILL)
            time.sleep(SAMPLE_EVERY_S)
    assert usage is not None
    output, errors = (
        (folder / name).read_text(errors="replace") if (folder / name).exists() else "" for name in ("out", "err")
    )
    return Measured(
        wall_s=time.perf_counter() - began,
        cpu_s=usage.ru_utime + usage.ru_stime,
        peak_bytes=max(usage.ru_maxrss * 1024, peak),
        exit_code=os.waitstatus_to_exitcode(status),
        output=output,
        errors=errors,
    )


def _redirect(stdout: str, folder: Path) -> None:
    """Redirects this process's standard streams as for a command."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(os.open(folder / "err", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    if stdout == "closed":
        sys.stdout = None  # type: ignore[assignment]  # type: ignore[assignment]  # as Python itself does then
        os.close(1)
        return
    where, _ = _stdout(stdout)
    if where == subprocess.PIPE:
        where = os.open(folder / "out", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(where, 1)
    # The parent's stream objects know their old target, for example that it is seekable, which a pipe is not.
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)


def _stdout(kind: str) -> tuple[int, int | None]:
    """The standard output for a process, and a descriptor to close once it has it."""
    if kind == "unread":
        reading, writing = os.pipe()
        os.close(reading)
        return writing, writing
    if kind == "full":
        full = os.open("/dev/full", os.O_WRONLY)
        return full, full
    return (subprocess.PIPE if kind == "kept" else subprocess.DEVNULL), None


class _TreeSampler(threading.Thread):
    """Sums the resident memory of a process and its descendants repeatedly; keeps the largest sum."""

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
        with suppress(OSError):  # the process or thread has ended
            for children in Path(f"/proc/{pid}/task").glob("*/children"):
                found += [int(child) for child in children.read_text().split()]
    return found


def _resident_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0
