"""Runs the jobs of several ranks in several processes."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

from stepscope.base import errors
from stepscope.base.errors import SourceError, StepScopeError, StoreError
from stepscope.store.job import Done, Job, Outcome, described
from stepscope.store.progress import Progress, advancing
from stepscope.store.worker_process import started

ERRORS = {
    "stopped": "The import was stopped before it was complete. Nothing is left behind.",
    "worker-ended": (
        "A process that read a file ended before it was done, usually because memory ran out. "
        "Import fewer ranks at once with `--ranks`."
    ),
}


def run_jobs(jobs: list[Job], workers: int, progress: Progress, memory: int | None = None) -> list[Outcome]:
    """Runs jobs in processes of their own, at most `workers` at a time; returns their outcomes in order.

    A process runs one job after the other. Jobs start while their memory fits into the limit, or one alone. Those of an
    archive are divided beforehand: each process inflates the archive, and members in order cost one pass together. If a
    job fails, or the user interrupts, the others are ended.

    Args:
        memory: bytes that all jobs that run at a time may need (`Job.memory`); None for no limit.

    Raises:
        StepScopeError: a job's own error.
        OSError: the store cannot be written.
    """
    running: set[subprocess.Popen[str]] = set()
    guard = threading.Lock()
    stopped = threading.Event()
    room = _Room(memory)
    waiting = deque(_shared_out(jobs, workers))
    outcomes: dict[int, Outcome] = {}

    def start() -> subprocess.Popen[str]:
        with guard:
            if stopped.is_set():
                raise StoreError("the import was stopped", slug="stopped")
            process = started("stepscope.store.job")
            running.add(process)
        return process

    def work() -> None:
        process = start()
        try:
            with process:
                while (share := _next(waiting)) is not None:
                    with room.taken(max(jobs[at].memory for at in share)):
                        for at in share:
                            outcomes[at] = _outcome(process, jobs[at], progress, guard)
        finally:
            with guard:
                running.discard(process)

    count = min(workers, len(waiting))
    with ThreadPoolExecutor(count) as pool, _ending(running, stopped, guard, room):
        futures = [pool.submit(work) for _ in range(count)]
        done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        for future in futures:
            if future in done and (error := future.exception()) is not None:
                raise error
        return [outcomes[at] for at in range(len(jobs))]


def _next(waiting: deque[list[int]]) -> list[int] | None:
    with contextlib.suppress(IndexError):
        return waiting.popleft()
    return None


def _shared_out(jobs: list[Job], workers: int) -> list[list[int]]:
    """The indices of the jobs that each process runs: those of an archive in the archive's order."""
    of_file: dict[str, list[int]] = {}
    for at, job in enumerate(jobs):
        of_file.setdefault(job.sources[0][0], []).append(at)
    shares = []
    for indices in of_file.values():
        in_order = sorted(indices, key=lambda at: jobs[at].offset)
        is_archive = jobs[indices[0]].sources[0][1] is not None
        size = -(-len(indices) // workers) if is_archive else 1
        shares += [in_order[at : at + size] for at in range(0, len(indices), size)]
    return shares


class _Room:
    """The memory that jobs take while they run."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._taken = 0
        self._changed = threading.Condition()
        self._closed = False

    @contextlib.contextmanager
    def taken(self, need: int) -> Iterator[None]:
        """Waits until there is room, or nothing else takes any."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._fits(need))
            self._taken += need
        try:
            yield
        finally:
            with self._changed:
                self._taken -= need
                self._changed.notify_all()

    def close(self) -> None:
        """Lets all waiting jobs in, which then notice that the import was stopped."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _fits(self, need: int) -> bool:
        return self._limit is None or not self._taken or self._taken + need <= self._limit


@contextlib.contextmanager
def _ending(
    running: set[subprocess.Popen[str]], stopped: threading.Event, guard: threading.Lock, room: _Room
) -> Iterator[None]:
    try:
        yield
    finally:
        stopped.set()
        room.close()
        with guard:
            for process in running:
                process.kill()


def _outcome(process: subprocess.Popen[str], job: Job, progress: Progress, guard: threading.Lock) -> Outcome:
    advance = advancing(progress)
    assert process.stdin is not None  # noqa: S101 - PIPE was asked for
    assert process.stdout is not None  # noqa: S101 - PIPE was asked for
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(described(job) + "\n")
        process.stdin.flush()
    for line in process.stdout:
        message = json.loads(line)
        if "read" in message:
            with guard:
                advance(message["read"])
        elif "rank" in message:
            return Done(**message)
        elif "unread" in message:
            return SourceError(**message["unread"])
        elif "oserror" in message:
            raise OSError(message["oserror"], message["message"])
        else:
            raise _error(message)
    raise StoreError(
        f"{job.sources[0][0]}: the process that read it was ended (exit status {process.wait()})",
        hint="it may have run out of memory; import fewer ranks at once with --ranks",
        slug="worker-ended",
    )


def _error(message: dict[str, str]) -> StepScopeError:
    kind = getattr(errors, message["error"], StepScopeError)
    return kind(message["message"], hint=message["hint"], slug=message["slug"])
