"""Makes stores: imports a source's recordings, rank by rank, into a directory of Parquet files for each job."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shlex
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.base.chosen_numbers import check_known
from stepscope.base.cpu_quota import workers
from stepscope.base.errors import SourceError, StoreError, UsageError
from stepscope.base.plugins import versions
from stepscope.base.quoting import printable
from stepscope.base.units import time_text
from stepscope.store.cache import cache_directory, cache_key, locked, mark_used, trim
from stepscope.store.chosen import ImportOptions, check_steps, chosen_jobs, jobs_of_processes, recordings_of_captures
from stepscope.store.copies import as_files, is_standard_input
from stepscope.store.jobs import StoredJob, folders_for, stored_jobs, write_jobs
from stepscope.store.manifest import (
    STORE_FILE,
    given_path,
    is_store,
    read_store_file,
    stated_in,
    write_store_file,
)
from stepscope.store.memory import import_limit
from stepscope.store.open import Store
from stepscope.store.place import as_store_error, make, make_store, place_for
from stepscope.store.progress import SILENT, Progress, advancing
from stepscope.store.remote import is_remote, missing, remote_version

if TYPE_CHECKING:
    from stepscope.formats import runs
    from stepscope.store.job import Done, Job, Outcome

PARALLEL_BYTES = 32 << 20
"""Below this much text, starting further processes costs more than they save."""

ERRORS = {
    "already-a-store": (
        "`stepscope import` was given a store. A store can be used directly; to make another one with other "
        "filters, import the original files again."
    ),
    "cache-not-writable": (
        "The folder for imported recordings cannot be written. Questions are answered without it, but read "
        "their files again each time. Set `STEPSCOPE_CACHE` to a folder that can be written, or use "
        "`--no-cache` to keep nothing."
    ),
    "nothing-kept": (
        "In the stretch of time that `stepscope import --window` names, no event of any recording starts."
    ),
}


def import_source(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    ranks: Iterable[int] | None = None,
    steps: Iterable[int] | None = None,
    window: tuple[int, int] | None = None,
    python_stack: bool = True,
    strict: bool = False,
    rank: int | None = None,
    job: str | None = None,
    captures: Sequence[str | os.PathLike[str]] = (),
    dask: str | None = None,
    memory: int | None = None,
    progress: Progress = SILENT,
) -> Path:
    """Imports a recording, or a folder or an archive of them, into a store to keep.

    Recordings of several jobs become a store each, in folders of the directory named after the jobs.

    Args:
        source: the file, the folder or the URL, or several of them; `-` for standard input.
        output: the store's directory; an existing store is replaced, anything else is refused.
        ranks: ranks to import; all by default.
        steps: steps to keep; all by default.
        window: stretch of each recording to keep (ns from its start); all by default.
        python_stack: whether Python frames are kept.
        strict: whether damage is an error.
        rank: the rank of a single recording, if the caller knows better than the file.
        job: the job to import; all by default.
        captures: recordings in which the job's CUDA graphs were captured; they are not part of the job.
        dask: a Dask cluster whose workers read the ranks: the address of its scheduler, or the file that this
            wrote. The workers must see the files under the same paths.
        memory: bytes that all processes together should take; by default a quarter of what the machine or the
            job's control group has, and 1 GiB for one rank, 512 MiB for each of several.
        progress: reports how far it is.

    Returns:
        The store's directory, or the one that holds those of several jobs.

    Raises:
        SourceError: the source has no recording, or cannot be read.
        DamagedSourceError: it is damaged and `strict` is set.
        StoreError: the store cannot be written, or the cluster cannot be used.
        UsageError: the source lacks a chosen rank, step or job, or Dask is not installed.
    """
    sources = _paths(source)
    for path in sources:
        if is_store(path):
            raise SourceError(
                f"{path}: is a store already",
                hint=f"ask it with: stepscope summary {shlex.quote(str(path))}",
                slug="already-a-store",
            )
    target = place_for(output)
    options = ImportOptions(
        None if ranks is None else tuple(ranks),
        None if steps is None else tuple(steps),
        window,
        python_stack,
        strict,
        rank,
        job,
        tuple(str(given_path(capture)) for capture in captures),
        dask,
        memory,
    )
    make_store(target, partial(_build, sources, options, progress))
    return Path(output)


def _paths(source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[Path]:
    given = [source] if isinstance(source, str | os.PathLike) else source
    return [given_path(path) for path in given]


def open_source(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    options: ImportOptions | None = None,
    *,
    cache: bool = True,
    progress: Progress = SILENT,
) -> Path:
    """The store of a source: the cached one if the source has not changed, else a new one. For
    recordings of several jobs, the directory with a store for each (`jobs.stored_jobs`).

    It has all steps: narrowing to some is quick on a complete store, which then serves every other choice.

    Args:
        source: a file, folder or URL with recordings, or several of them. Standard input (`-`), and files for which
            a server states no time or tag, are not cached.
        options: the ranks, the stretch of time and the Python frames that are needed, the captures of graphs, and
            whether damage is an error; by default all, and it is not.
        cache: False makes a store in a temporary directory, which the caller deletes (`is_cached`).
        progress: reports how far it is.

    Raises:
        SourceError, DamagedSourceError, StoreError: as for `import_source`.
    """
    paths, options = _paths(source), options or ImportOptions()
    store = _place_in_cache(paths, options) if cache else None
    if store is None:
        scratch = Path(tempfile.mkdtemp(prefix="stepscope-"))
        try:
            with as_store_error(scratch):
                _build(paths, options, progress, scratch)
        except BaseException:
            shutil.rmtree(scratch, ignore_errors=True)
            raise
        return scratch
    if not _is_complete(store):
        with _cache_locked(store) as is_locked:
            if not _is_complete(store):  # no other process made it first
                if (store / STORE_FILE).exists():
                    _warn_of_damage(paths)
                make(store, partial(_build, paths, options, progress), is_locked=is_locked)
                trim(store.parent, store)
    mark_used(store)
    if options.strict:
        for job in stored_jobs(store):
            with Store.open(store / job.folder, rebuild=partial(rebuild_cached, paths, options, progress)) as opened:
                refuse_damage(opened)
    return store


def is_cached(store: Path) -> bool:
    """Whether a store from `open_source` is in the cache; the caller deletes any other."""
    return store.parent == cache_directory()


def rebuild_cached(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    options: ImportOptions,
    progress: Progress = SILENT,
) -> None:
    """Makes the cached store of a source again, because a file of it is damaged.

    Raises:
        SourceError, StoreError: as for `import_source`.
    """
    paths = _paths(source)
    store = _place_in_cache(paths, options)
    if store is not None and (store / STORE_FILE).exists():
        _warn_of_damage(paths)
        with contextlib.suppress(OSError):
            (store / STORE_FILE).unlink()
    # Damage of the source is refused, if it is, when the store is opened.
    open_source(paths, replace(options, strict=False), progress=progress)


def _warn_of_damage(sources: list[Path]) -> None:
    # Imported here: it is rare.
    from logging import getLogger

    getLogger("stepscope").warning(
        printable(f"stepscope: the cached store of {_named(sources)} is damaged and is made again")
    )


def _is_complete(store: Path) -> bool:
    """Whether the `store.json` of a cached store, and of each job in it, is as it was written."""
    try:
        for job in stored_jobs(store):
            read_store_file(store / job.folder)
    except StoreError:
        return False
    return True


def _place_in_cache(paths: list[Path], options: ImportOptions) -> Path | None:
    """Where the store of these sources in their present state is kept; None if their state is unknown.

    Raises:
        SourceError: there is no such file or URL.
    """
    directory = cache_directory()
    described: dict[str, Any] = {
        "ranks": options.ranks,
        "window": options.window,
        "python_stack": options.python_stack,
        "captures": options.captures,
    }
    further = [*paths[1:], *map(Path, options.captures)]
    remote = {}
    for path in (paths[0], *further):
        if is_standard_input(path):
            return None
        if is_remote(path):
            remote[str(path)] = remote_version(path)
        elif not path.exists():
            raise missing(path)
    if None in remote.values():
        return None
    if remote:
        described["remote"] = remote
    key = cache_key(paths[0], described, further=further)
    if not _same_plug_ins(directory / key):
        described["plug_ins"] = versions("formats")
        key = cache_key(paths[0], described, further=further)
    return directory / key


@contextlib.contextmanager
def _cache_locked(store: Path) -> Iterator[bool]:
    try:
        store.parent.mkdir(parents=True, exist_ok=True)
        with locked(store) as is_locked:
            yield is_locked
    except OSError as error:
        raise StoreError(
            f"{store.parent}: the cache cannot be written ({error.strerror or error})",
            hint="set STEPSCOPE_CACHE to a folder that can, or use --no-cache",
            slug="cache-not-writable",
        ) from None


def _same_plug_ins(store: Path) -> bool:
    """Whether a source with files that are of no format of ours would be read as before.

    A source with only our formats, or one that was never read, needs no plug-ins and looks for none.
    """
    try:
        facts = stated_in(store)
    except (OSError, ValueError):
        return True
    return "plug_ins" not in facts or facts["plug_ins"] == versions("formats")


# -- making ----------------------------------------------------------------------------------------


def _build(sources: list[Path], options: ImportOptions, progress: Progress, directory: Path) -> None:
    with as_files([*sources, *map(Path, options.captures)], progress) as files:
        captures = tuple(map(str, files[len(sources) :]))
        _build_of(files[: len(sources)], replace(options, captures=captures), progress, directory)


def _build_of(sources: list[Path], options: ImportOptions, progress: Progress, directory: Path) -> None:
    # Imported here: a command that finds its store in the cache must not wait for the readers.
    from stepscope.formats.container import Listings
    from stepscope.formats.registry import our_formats
    from stepscope.formats.runs import find_run
    from stepscope.store.job import run_job
    from stepscope.store.workers import run_jobs

    captures = recordings_of_captures(options.captures)
    without = [recording.member.path for recording in captures]
    run = find_run(*sources, rank=options.rank, without=without)
    captures += run.captures
    chosen = chosen_jobs(run, options, _named(sources))
    folders = folders_for([job.name for job in chosen]) if len(chosen) > 1 else [""]
    work = [
        jobs_of_processes(job.recordings, directory / folder, options, captures, run.provenance)
        for job, folder in zip(chosen, folders, strict=True)
    ]
    jobs = [outcome for of_job in work for outcome in of_job]
    if len(jobs) > 1:
        jobs = [replace(outcome, threads=1) for outcome in jobs]
    size = sum(recording.member.size for job in chosen for recording in job.recordings)
    progress.start(f"Reading {sources[0].name}", total=None, unit="bytes")
    at_a_time = workers(len(jobs))
    if options.cluster is not None:
        from stepscope.store.cluster import run_jobs_on_cluster

        outcomes = run_jobs_on_cluster(jobs, options.cluster, progress)
    elif at_a_time > 1 and size >= PARALLEL_BYTES:
        outcomes = run_jobs(jobs, at_a_time, progress, options.memory or import_limit())
    else:
        listings = Listings()
        by_place = {
            at: run_job(jobs[at], advancing(progress), listings)
            for at in sorted(range(len(jobs)), key=lambda at: jobs[at].offset)
        }
        outcomes = [by_place[at] for at in range(len(jobs))]
    progress.finish()
    done = _read(jobs, outcomes, run)
    if options.ranks is not None:
        known_ranks = {outcome.rank for outcome in (*done, *jobs) if outcome is not None and outcome.rank >= 0}
        check_known(options.ranks, sorted(known_ranks), "rank", of=_named(sources))
    if options.steps is not None:
        check_steps(options.steps, {step for outcome in done if outcome for step in outcome.steps})
    if options.window is not None and not any(outcome.has_events for outcome in done if outcome is not None):
        raise UsageError(
            f"{_named(sources)}: nothing starts in the window that opens at {time_text(options.window[0])}",
            hint="times count from each recording's start; leave --window out to keep all",
            slug="nothing-kept",
        )
    facts: dict[str, Any] = {
        "source": _named(sources),
        "skipped": [{"path": path, "reason": reason} for path, reason in run.skipped],
    }
    if run.skipped or any(recording.format not in our_formats() for recording in run.recordings):
        facts["plug_ins"] = versions("formats")
    outcomes_left = iter(done)
    stored = []
    for job, folder, of_job in zip(chosen, folders, work, strict=True):
        of_ranks = [outcome for outcome in itertools.islice(outcomes_left, len(of_job)) if outcome is not None]
        if _finish(directory / folder, job, run, of_ranks, options, facts):
            stored.append(StoredJob(job.name, job.about, folder))
    if len(chosen) > 1:
        write_jobs(directory, stored, facts)


def _read(jobs: list[Job], outcomes: list[Outcome], run: runs.Run) -> list[Done | None]:
    """The outcomes of the jobs; None for recordings that cannot be read, which are recorded in `run`.

    Raises:
        SourceError: none can be read.
    """
    unread = [result for result in outcomes if isinstance(result, SourceError)]
    if len(unread) == len(outcomes):
        raise unread[0]
    for job, outcome in zip(jobs, outcomes, strict=True):
        if isinstance(outcome, SourceError):
            run.skip(job.label, outcome, recording=True)
    return [None if isinstance(result, SourceError) else result for result in outcomes]


def _named(sources: list[Path]) -> str:
    from stepscope.formats.container import display_name

    return ", ".join(map(display_name, sources))


def _finish(
    directory: Path, job: runs.Job, run: runs.Run, done: list[Done], options: ImportOptions, facts: dict[str, Any]
) -> bool:
    """Makes a store of the ranks of a job that were written. If none could be read, or none has the
    chosen steps, there is no store, and the directory is deleted.
    """
    from stepscope.link.folder_checks import identical_files, left_out, ranks_guessed
    from stepscope.store.joined import join_small_ranks
    from stepscope.store.ranks import add_check, merge_spans

    if not done:
        shutil.rmtree(directory, ignore_errors=True)
        return False
    if options.steps is not None:
        steps = {step for item in done for step in item.steps}
        facts = {**facts, "steps": sorted(steps.intersection(options.steps))}
        if not facts["steps"]:
            shutil.rmtree(directory)
            return False
    if options.window is not None:
        facts = {**facts, "window": list(options.window)}
    ranks = [item.rank for item in done]
    for rank in ranks:
        merge_spans(directory, rank)
    if len(ranks) > 1:
        from stepscope.store.across_ranks import link_ranks

        link_ranks(directory, ranks)
    guessed = [(item.member.label, item.rank) for item in job.recordings if item.rule == "order"]
    read = {item.member.label: f"!{item.member.process}" for item in job.recordings}
    copies = [(label, original) for label, original in run.copies.items() if original in read]
    files = {label.removesuffix(read[item]): item.removesuffix(read[item]) for label, item in copies}
    checked = ((left_out, run.unreadable), (ranks_guessed, guessed), (identical_files, [*files.items()]))
    for check, findings in checked:
        if findings:
            add_check(directory, min(ranks), check.row(findings))
    twice = [{"path": label, "reason": f"a copy of {original}"} for label, original in copies]
    facts = {"job": job.name, "ranks": sorted(ranks), **facts, "skipped": [*facts["skipped"], *twice]}
    joined = join_small_ranks(directory, ranks)
    write_store_file(directory, facts | ({"joined": joined} if joined else {}))
    return True


def refuse_damage(store: Store) -> None:
    """Applies `strict` to files that were read before: their damage is recorded.

    Raises:
        DamagedSourceError: something of one of them was lost or guessed.
    """
    from stepscope.formats.damage import check_strict

    rows = store.sql(
        "SELECT path, damage, truncated OR events_dropped > 0 OR events_repaired > 0 AS lost "
        "FROM source ORDER BY rank, span"
    )
    for row in rows.to_pylist():
        check_strict(row["path"], json.loads(row["damage"] or "{}"), lost=row["lost"])
