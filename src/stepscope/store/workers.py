"""Runs the jobs of several ranks in several processes."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path

from stepscope.floor import errors
from stepscope.floor.errors import SourceError, StepScopeError, StoreError
from stepscope.store.job import Done, Job, Outcome, described
from stepscope.store.progress import Progress, advancing

ERRORS = {
    "stopped": "The import was stopped before it was complete. Nothing is left behind.",
    "worker-ended": (
        "A process that read a file ended before it was done, usually because memory ran out. "
        "Import fewer ranks at once with `--ranks`."
    ),
}


_START = """
import sys
if not sys.path[0]:
    del sys.path[0]
sys.path.append(sys.argv[1])
from stepscope.store.job import main
sys.exit(main())
"""
"""Runs a job. With `-m`, Python would look for every module in the working directory first, which may
hold what others have sent."""


_GIVE_BACK = {"MALLOC_MMAP_THRESHOLD_": str(4 << 20), "MALLOC_TRIM_THRESHOLD_": str(64 << 20)}
"""glibc keeps freed arrays of up to 32 MB for later, and others between them; these go back at once."""


def run_jobs(jobs: list[Job], workers: int, progress: Progress) -> list[Outcome]:
    """Runs jobs in processes of their own, at most `workers` at a time; their outcomes in their order.

    Those that read one archive share processes, one a worker: each process inflates the archive, and
    members in the order in which they lie cost one pass together. When a job fails, or the user
    interrupts, the others are ended.

    Raises:
        StepScopeError: a job's own error.
        OSError: the store cannot be written.
    """
    running: set[subprocess.Popen[str]] = set()
    guard = threading.Lock()
    stopped = threading.Event()

    def run(some: list[Job]) -> list[Outcome]:
        with guard:
            if stopped.is_set():
                raise StoreError("the import was stopped", slug="stopped")
            process = subprocess.Popen(  # noqa: S603  # our own interpreter and code
                [sys.executable, "-c", _START, str(Path(__file__).parents[2])],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=os.environ | _GIVE_BACK,
                # Ctrl-C is for the parent, which ends its children itself.
                start_new_session=True,
            )
            running.add(process)
        try:
            return _outcome(process, some, progress, guard)
        finally:
            with guard:
                running.discard(process)

    with ThreadPoolExecutor(workers) as pool, _ending(running, stopped, guard):
        shares = _shared_out(jobs, workers)
        futures = [pool.submit(run, [jobs[at] for at in share]) for share in shares]
        done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        for future in futures:
            if future in done and (error := future.exception()) is not None:
                raise error
        outcomes = {
            at: outcome
            for share, future in zip(shares, futures, strict=True)
            for at, outcome in zip(share, future.result(), strict=True)
        }
        return [outcomes[at] for at in range(len(jobs))]


def _shared_out(jobs: list[Job], workers: int) -> list[list[int]]:
    """The indices of each process's jobs, those of an archive in the order in which they lie in it."""
    of_file: dict[str, list[int]] = {}
    for at, job in enumerate(jobs):
        of_file.setdefault(job.sources[0][0], []).append(at)
    shares = []
    for own in of_file.values():
        in_order = sorted(own, key=lambda at: jobs[at].offset)
        size = -(-len(own) // workers)
        shares += [in_order[at : at + size] for at in range(0, len(own), size)]
    return shares


@contextlib.contextmanager
def _ending(
    running: set[subprocess.Popen[str]], stopped: threading.Event, guard: threading.Lock
) -> Iterator[None]:
    try:
        yield
    finally:
        stopped.set()
        with guard:
            for process in running:
                process.kill()


def _outcome(
    process: subprocess.Popen[str], jobs: list[Job], progress: Progress, guard: threading.Lock
) -> list[Outcome]:
    advance = advancing(progress)
    outcomes: list[Outcome] = []
    with process:
        assert process.stdin is not None  # noqa: S101 - PIPE was asked for
        assert process.stdout is not None  # noqa: S101 - PIPE was asked for
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(described(jobs))
            process.stdin.close()
        for line in process.stdout:
            message = json.loads(line)
            if "read" in message:
                with guard:
                    advance(message["read"])
            elif "rank" in message:
                outcomes.append(Done(**message))
                advance = advancing(progress)
            elif "unread" in message:
                outcomes.append(SourceError(**message["unread"]))
                advance = advancing(progress)
            elif "oserror" in message:
                raise OSError(message["oserror"], message["message"])
            else:
                raise _error(message)
    if len(outcomes) < len(jobs):
        raise StoreError(
            f"{jobs[0].sources[0][0]}: the process that read it was ended (exit status {process.returncode})",
            hint="it may have run out of memory; import fewer ranks at once with --ranks",
            slug="worker-ended",
        )
    return outcomes


def _error(message: dict[str, str]) -> StepScopeError:
    kind = getattr(errors, message["error"], StepScopeError)
    error: StepScopeError = kind(message["message"], hint=message["hint"], slug=message["slug"])
    return error
