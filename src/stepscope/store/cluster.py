"""Imports ranks on the workers of a Dask cluster: recordings are read where a worker runs, and only their
tables are sent.

The workers see the files under the same paths, as on the shared file system of a computing centre. A worker reads one
rank at a time, with all its threads, so that it needs the memory of one rank. Dask gives the rank of a worker that ends
to another one. If that fails again and again, the rank is left out.
"""

from __future__ import annotations

import json
import re
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from stepscope.base.errors import SourceError, StoreError, UsageError
from stepscope.formats.container import display_name
from stepscope.store.code_digest import code_digest
from stepscope.store.copies import as_files
from stepscope.store.job import Job, Outcome, run_job
from stepscope.store.progress import SILENT, Progress
from stepscope.store.remote import is_remote

if TYPE_CHECKING:
    from distributed import Client, Future

SECONDS_TO_CONNECT = 30

ERRORS = {
    "cluster-other-version": (
        "A worker of the Dask cluster runs another StepScope than the command. Install the same one in "
        "the Python that starts the workers."
    ),
    "cluster-unreachable": (
        "The scheduler of the Dask cluster does not answer, or has ended. `--dask` takes its address, such as "
        "`tcp://node01:8786`, or the scheduler file that `dask scheduler` was told to write."
    ),
    "cluster-without-stepscope": (
        "The workers of the Dask cluster cannot import StepScope. Install it in the Python that starts them."
    ),
    "no-dask": "Import on a Dask cluster needs Dask: `pip install distributed`.",
}

_ADDRESS = re.compile(r"(\w+://)?[^/\s]+:\d+")
"""A scheduler's address in Dask's form: `tcp://node01:8786`, `node01:8786`."""

_reading = threading.Lock()
"""Held by the worker's thread that reads a rank."""


class _Read(NamedTuple):
    """A rank that a worker has read: the files of its tables, by their path in the store."""

    outcome: Outcome
    files: list[tuple[str, bytes]]


def run_jobs_on_cluster(jobs: list[Job], cluster: str, progress: Progress) -> list[Outcome]:
    """Runs jobs, one a rank, on the workers of a Dask cluster; returns their outcomes in order.

    Raises:
        UsageError: Dask is not installed.
        StoreError: the cluster cannot be reached, or has another StepScope or none.
        DamagedSourceError: a recording is damaged and its job is strict.
        OSError: the tables cannot be written.
    """
    with _connected(cluster) as client:
        outcomes = _run(client, jobs, progress)
        # Dask blames all ranks that a worker had when it ended: each of them is tried again alone.
        for at, outcome in enumerate(outcomes):
            if outcome is None:
                outcomes[at : at + 1] = _run(client, jobs[at : at + 1], progress)
    return [_ended(job) if result is None else result for job, result in zip(jobs, outcomes, strict=True)]


def _run(client: Client, jobs: list[Job], progress: Progress) -> list[Outcome | None]:
    """The outcomes of jobs in order; None if workers ended again and again."""
    from distributed import as_completed

    outcomes: dict[int, Outcome | None] = {}
    reading = {
        client.submit(_on_worker, _everywhere(job), code_digest("store"), pure=False): at for at, job in enumerate(jobs)
    }
    try:
        for future in as_completed(reading, loop=client.loop):
            at = reading[future]
            outcomes[at] = _taken(future, jobs[at])
            future.release()
            if outcomes[at] is not None:
                progress.advance(sum(_size(path) for path, *_ in jobs[at].sources))
    finally:
        client.cancel(list(reading))
    return [outcomes[at] for at in range(len(jobs))]


@contextmanager
def _connected(cluster: str) -> Iterator[Client]:
    try:
        from distributed import Client
    except ImportError:
        raise UsageError(
            "--dask needs Dask, which is not installed", hint="pip install distributed", slug="no-dask"
        ) from None
    try:
        client = Client(_address(cluster), timeout=SECONDS_TO_CONNECT, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise StoreError(
            f"{cluster}: no Dask scheduler answers there ({error})",
            hint="give its address, as in tcp://node01:8786, or its scheduler file",
            slug="cluster-unreachable",
        ) from None
    with client:
        yield client


def _address(cluster: str) -> str:
    """The address of a scheduler, or the one in its file.

    Raises:
        OSError, ValueError: the file has none.
    """
    if not Path(cluster).is_file():
        if _ADDRESS.fullmatch(cluster) is None:
            raise ValueError("no such file, and no address")
        return cluster
    described = json.loads(Path(cluster).read_text(encoding="utf-8"))
    if not isinstance(described, dict) or not isinstance(described.get("address"), str):
        raise ValueError("the file names no address")
    return described["address"]


def _everywhere(job: Job) -> Job:
    """The job with paths that are valid in another working directory."""
    return replace(
        job,
        sources=[(str(Path(source[0]).absolute()), *source[1:]) for source in job.sources],
        captures=[(str(Path(source[0]).absolute()), *source[1:]) for source in job.captures],
    )


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0


def _ended(job: Job) -> SourceError:
    return SourceError(
        f"{job.label}: the workers that read it ended before they were done",
        hint="they may have run out of memory: give them more",
        slug="worker-ended",
    )


def _taken(future: Future, job: Job) -> Outcome | None:
    """Writes the tables that a worker made of a rank; None if the workers ended before."""
    from distributed.scheduler import KilledWorker

    try:
        read: _Read = future.result()
    except (KilledWorker, MemoryError):
        return None
    except ImportError as error:
        raise StoreError(
            f"a worker of the cluster cannot import StepScope ({error})",
            hint="install it in the Python that starts the workers",
            slug="cluster-without-stepscope",
        ) from None
    for name, content in read.files:
        file = Path(job.directory) / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return read.outcome


def _on_worker(job: Job, code: str) -> _Read:
    from distributed import get_worker

    if code != code_digest("store"):
        raise StoreError(
            f"the worker {get_worker().address} has another StepScope",
            hint="install the same one where the workers start",
            slug="cluster-other-version",
        )
    with _reading, tempfile.TemporaryDirectory(dir=get_worker().local_directory) as folder, _with_copies(job) as here:
        outcome = run_job(replace(here, directory=folder, threads=get_worker().state.nthreads))
        files = [(str(file.relative_to(folder)), file.read_bytes()) for file in sorted(Path(folder).glob("rank=*/*"))]
    return _Read(outcome, files)


@contextmanager
def _with_copies(job: Job) -> Iterator[Job]:
    """The job with copies of the files behind URLs: the command's own copies are on its machine."""
    sources, captures = ([(Path(source[0]), source[1:]) for source in some] for some in (job.sources, job.captures))
    named = [(path, display_name(path)) for path, _ in (*sources, *captures)]
    with as_files([Path(url) if is_remote(url) else path for path, url in named], SILENT) as files:
        placed = iter(map(str, files))
        yield replace(
            job,
            sources=[(next(placed), *others) for _, others in sources],
            captures=[(next(placed), *others) for _, others in captures],
        )
