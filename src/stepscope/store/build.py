"""Makes stores: imports a source's recordings, rank by rank, into a directory of Parquet files.

A store is made under another name and renamed when it is complete, so that a store that can be seen is
a store that can be used, whatever stops the import.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.floor import errors
from stepscope.floor.errors import SourceError, StepScopeError, StoreError
from stepscope.floor.plugins import versions
from stepscope.floor.quoting import printable
from stepscope.store.cache import (
    cache_directory,
    cache_key,
    locked,
    mark_used,
    remove_leftovers,
    trim,
    unfinished_beside,
)
from stepscope.store.manifest import (
    STORE_FILE,
    check_contents,
    holds_only_a_store,
    is_store,
    listed_files,
    read_store_file,
    write_store_file,
)
from stepscope.store.open import Store
from stepscope.store.progress import SILENT, Progress, advancing

if TYPE_CHECKING:
    from stepscope.formats.runs import Recording, Run
    from stepscope.store.job import Job

PARALLEL_BYTES = 32 << 20
"""Below this much text, starting further processes costs more than they save."""

ERRORS = {
    "already-a-store": (
        "`stepscope import` was given a store. A store can be asked as it is; to make another one "
        "with other filters, import the original files again."
    ),
    "cache-not-writable": (
        "The folder in which imported recordings are kept cannot be written. Set "
        "`STEPSCOPE_CACHE` to one that can, or use `--no-cache` to keep nothing."
    ),
    "disk-full": (
        "The disk was full before the store was complete; what was written has been removed. Free "
        "some space, or choose another place with `-o` or `STEPSCOPE_CACHE`."
    ),
    "not-writable": "The store cannot be written where it was asked for.",
    "output-exists": (
        "The output of an import exists, and is no store or has other files in it. StepScope replaces "
        "only what is nothing but a store; give a directory that is empty or does not exist yet."
    ),
}


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """What of a source is imported, and how; see `import_source`."""

    ranks: tuple[int, ...] | None = None
    steps: tuple[int, ...] | None = None
    window: tuple[int, int] | None = None
    python_stack: bool = True
    strict: bool = False
    rank: int | None = None


def import_source(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    ranks: Iterable[int] | None = None,
    steps: Iterable[int] | None = None,
    window: tuple[int, int] | None = None,
    python_stack: bool = True,
    strict: bool = False,
    rank: int | None = None,
    progress: Progress | None = None,
) -> Path:
    """Imports a recording, or a folder or an archive of them, into a store to keep.

    Args:
        source: the file or folder.
        output: the store's directory; a store that is there is replaced, anything else is refused.
        ranks: ranks to import; all by default.
        steps: steps to keep; all by default.
        window: stretch of each recording to keep (ns from its start); all by default.
        python_stack: whether Python frames are kept.
        strict: whether damage is an error.
        rank: the rank of a single recording, when the caller knows better than the file.
        progress: told how far it is.

    Returns:
        The store's directory.

    Raises:
        SourceError: the source holds no recording, or cannot be read.
        DamagedSourceError: it is damaged and `strict` is set.
        StoreError: the store cannot be written.
        UsageError: a rank or step that the source does not have.
    """
    # The store that a link leads to is replaced, and not the link.
    target = Path(os.path.realpath(output))
    if is_store(source):
        raise SourceError(
            f"{source}: is a store already",
            hint=f"ask it with: stepscope summary {source}",
            slug="already-a-store",
        )
    with _as_store_error(target):
        _check_replaceable(target)
    options = ImportOptions(
        None if ranks is None else tuple(ranks),
        None if steps is None else tuple(steps),
        window,
        python_stack,
        strict,
        rank,
    )
    with _as_store_error(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with locked(target) as held:
            _check_replaceable(target)
            _make(Path(source), target, options, progress or SILENT, held=held)
    return Path(output)


def _is_working_directory(target: Path) -> bool:
    try:
        return target.samefile(".")
    except OSError:  # it has been removed
        return False


def _check_replaceable(target: Path) -> None:
    """Refuses to make a store where something would be lost.

    Raises:
        StoreError: the place has something that is no store.
    """
    if not os.path.lexists(target):
        return
    what = ""
    if not target.is_dir():
        what = "exists and is no store"
    elif not holds_only_a_store(target):
        what = "exists, and is no store or has other files in it"
    elif _is_working_directory(target):
        what = "is the working directory, which cannot be replaced"
    if what:
        raise StoreError(
            f"{target}: {what}",
            hint="give a directory that is empty or does not exist yet",
            slug="output-exists",
        )


def open_source(
    source: str | os.PathLike[str],
    *,
    ranks: Iterable[int] | None = None,
    window: tuple[int, int] | None = None,
    python_stack: bool = True,
    cache: bool = True,
    strict: bool = False,
    progress: Progress | None = None,
) -> Path:
    """The store of a source: the cached one when the source is as it was, else one made now.

    It has all steps: narrowing to some is quick on a complete store, which then serves every other.

    Args:
        source: a file or folder with recordings.
        ranks: ranks that are needed; all by default.
        window: stretch of each recording that is needed (ns from its start).
        python_stack: whether Python frames are needed.
        cache: False makes a store in a temporary directory, which the caller deletes.
        strict: whether damage is an error.
        progress: told how far it is.

    Raises:
        SourceError, DamagedSourceError, StoreError: as for `import_source`.
    """
    path = Path(source)
    options = _reading_options(ranks, window, python_stack, strict)
    progress = progress or SILENT
    if not cache:
        scratch = Path(tempfile.mkdtemp(prefix="stepscope-"))
        try:
            with _as_store_error(scratch):
                _build(path, scratch, options, progress)
        except BaseException:
            shutil.rmtree(scratch, ignore_errors=True)
            raise
        return scratch
    if not path.exists():
        raise SourceError(
            f"{path}: no such file or folder", hint="check the path", slug="no-such-file"
        )
    store = _place_in_cache(path, options)
    if not (store / STORE_FILE).is_file():
        with _cache_locked(store) as held:
            if not (store / STORE_FILE).is_file():
                _make(path, store, options, progress, held=held)
                trim(store.parent, store)
    mark_used(store)
    if strict:
        renew = partial(renew_source, path, ranks, window, python_stack, progress)
        with Store.open(store, renew=renew) as opened:
            refuse_damage(opened)
    return store


def renew_source(
    source: str | os.PathLike[str],
    ranks: Iterable[int] | None = None,
    window: tuple[int, int] | None = None,
    python_stack: bool = True,
    progress: Progress | None = None,
) -> None:
    """Makes the cached store of a source again, whose files are not as they were written.

    Raises:
        SourceError, StoreError: as for `import_source`.
    """
    # Imported here: it is rare.
    from logging import getLogger

    path = Path(source)
    options = _reading_options(ranks, window, python_stack)
    store = _place_in_cache(path, options)
    with _cache_locked(store) as held:
        if _is_intact(store):  # another process was first
            return
        getLogger("stepscope").warning(
            printable(f"stepscope: what was kept of {path} is damaged, and is made again")
        )
        _make(path, store, options, progress or SILENT, held=held)


def _is_intact(store: Path) -> bool:
    try:
        facts = read_store_file(store)
        check_contents(store, listed_files(store, facts), largest=None)
    except StoreError:
        return False
    return True


def _reading_options(
    ranks: Iterable[int] | None,
    window: tuple[int, int] | None,
    python_stack: bool,
    strict: bool = False,
) -> ImportOptions:
    chosen = None if ranks is None else tuple(sorted(set(ranks)))
    return ImportOptions(chosen, None, window, python_stack, strict)


def _place_in_cache(path: Path, options: ImportOptions) -> Path:
    directory = cache_directory()
    described = {
        "ranks": options.ranks,
        "window": options.window,
        "python_stack": options.python_stack,
    }
    key = cache_key(path, described)
    if not _same_plug_ins(directory / key):
        key = cache_key(path, {**described, "plug_ins": versions("formats")})
    return directory / key


@contextlib.contextmanager
def _cache_locked(store: Path) -> Iterator[bool]:
    try:
        store.parent.mkdir(parents=True, exist_ok=True)
        with locked(store) as held:
            yield held
    except OSError as error:
        raise StoreError(
            f"{store.parent}: the cache cannot be written ({error.strerror or error})",
            hint="set STEPSCOPE_CACHE to a folder that can, or use --no-cache",
            slug="cache-not-writable",
        ) from None


def _same_plug_ins(store: Path) -> bool:
    """Whether a source with files that are of no format of ours would be read as it was then.

    One whose files are all ours, or that was never read, needs no plug-ins and looks for none.
    """
    try:
        facts = json.loads((store / STORE_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return True
    return "plug_ins" not in facts or facts["plug_ins"] == versions("formats")


# -- making ----------------------------------------------------------------------------------------


def _build(source: Path, directory: Path, options: ImportOptions, progress: Progress) -> None:
    # Imported here: a command that finds its store in the cache must not wait for the readers.
    from stepscope.formats.registry import FORMATS
    from stepscope.formats.runs import find_run
    from stepscope.link.checks import left_out
    from stepscope.store.job import run_job
    from stepscope.store.ranks import add_check, merge_spans
    from stepscope.store.workers import run_jobs

    run = find_run(source, rank=options.rank)
    recordings = _chosen(run, options.ranks, source)
    jobs = _jobs(recordings, directory, options)
    size = sum(recording.member.size for recording in recordings)
    progress.start(f"Reading {source.name}", total=None, unit="bytes")
    workers = min(len(jobs), os.cpu_count() or 1)
    if workers > 1 and size >= PARALLEL_BYTES:
        done = run_jobs(jobs, workers, progress)
    else:
        done = [run_job(job, advancing(progress)) for job in jobs]
    progress.finish()
    ranks = [one.rank for one in done]
    for rank in ranks:
        merge_spans(directory, rank)
    if run.unreadable:
        add_check(directory, min(ranks), left_out.row(run.unreadable))
    facts: dict[str, Any] = {
        "source": str(source),
        "ranks": sorted(ranks),
        "skipped": [{"path": path, "reason": reason} for path, reason in run.skipped],
    }
    if options.steps is not None:
        facts["steps"] = _kept(options.steps, {step for one in done for step in one.steps})
    if run.skipped or any(recording.format not in FORMATS for recording in run.recordings):
        facts["plug_ins"] = versions("formats")
    write_store_file(directory, facts)


def _kept(asked: Iterable[int], there: set[int]) -> list[int]:
    """The steps that were asked for and that some rank has."""
    kept = sorted(there.intersection(asked))
    if not kept:
        raise errors.UsageError(
            f"no step {', '.join(map(str, asked))} in the recording",
            hint=f"it has the steps {', '.join(map(str, sorted(there)[:20])) or 'none'}",
            slug="unknown-step",
        )
    return kept


def _chosen(run: Run, ranks: tuple[int, ...] | None, source: Path) -> list[Recording]:
    if ranks is None or any(recording.rank < 0 for recording in run.recordings):
        return run.recordings
    chosen = [recording for recording in run.recordings if recording.rank in ranks]
    known = sorted({recording.rank for recording in run.recordings})
    absent = sorted(set(ranks) - set(known))
    if absent:
        raise errors.UsageError(
            f"{source}: no rank {', '.join(map(str, absent))}",
            hint=f"it has the ranks {', '.join(map(str, known))}",
            slug="unknown-rank",
        )
    return chosen


def _jobs(recordings: list[Recording], directory: Path, options: ImportOptions) -> list[Job]:
    from stepscope.store.job import Job

    by_rank: dict[int, list[Recording]] = {}
    for recording in recordings:
        by_rank.setdefault(recording.rank, []).append(recording)
    several = len(by_rank) > 1
    return [
        Job(
            directory=str(directory),
            sources=tuple(
                (str(one.member.path), one.member.name, one.format.name) for one in of_rank
            ),
            rank=rank,
            rule=of_rank[0].rule,
            steps=options.steps,
            window=options.window,
            python_stack=options.python_stack,
            strict=options.strict,
            threads=1 if several else None,
        )
        for rank, of_rank in sorted(by_rank.items())
    ]


def refuse_damage(store: Store) -> None:
    """`strict` for files that were read before: their damage is on record.

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


# -- nothing half-written ----------------------------------------------------------------------------


def _make(
    source: Path, target: Path, options: ImportOptions, progress: Progress, *, held: bool
) -> None:
    """Builds a store beside its place, and puts it there when it is complete.

    Raises:
        StoreError: it cannot be written; nothing is left behind.
    """
    with _as_store_error(target):
        if held:
            remove_leftovers(target)
        unfinished = unfinished_beside(target)
        try:
            _build(source, unfinished, options, progress)
            _put_in_place(unfinished, target)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)


def _put_in_place(unfinished: Path, target: Path) -> None:
    """Gives a finished store its name, in place of one that is there, whose permissions it takes."""
    if target.is_dir():
        shutil.copymode(target, unfinished)
    try:
        unfinished.rename(target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        old = unfinished_beside(target, "old-")
        target.rename(old)
        unfinished.rename(target)
        shutil.rmtree(old, ignore_errors=True)


@contextlib.contextmanager
def _as_store_error(target: Path) -> Iterator[None]:
    try:
        yield
    except StepScopeError:
        raise
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise StoreError(
            f"{target}: {'the disk is full' if full else f'cannot be written ({error.strerror or error})'}",
            hint="free some space, or choose another place with -o or STEPSCOPE_CACHE"
            if full
            else "choose a directory that you may write to with -o or STEPSCOPE_CACHE",
            slug="disk-full" if full else "not-writable",
        ) from None
