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
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.floor import errors
from stepscope.floor.errors import SourceError, StepScopeError, StoreError
from stepscope.floor.plugins import versions
from stepscope.schema.tables import STORE_VERSION
from stepscope.store.cache import cache_directory, cache_key, locked, mark_used, trim
from stepscope.store.open import STORE_FILE, Store, is_store
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
    "disk-full": (
        "The disk was full before the store was complete; what was written has been removed. Free "
        "some space, or choose another place with `-o` or `STEPSCOPE_CACHE`."
    ),
    "not-writable": "The store cannot be written where it was asked for.",
    "output-exists": (
        "The output of an import exists and is no store. StepScope replaces only stores; give a "
        "directory that is empty or does not exist yet."
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
    target = Path(output)
    if is_store(source):
        raise SourceError(
            f"{source}: is a store already",
            hint=f"ask it with: stepscope summary {source}",
            slug="already-a-store",
        )
    if target.exists() and not is_store(target) and (not target.is_dir() or any(target.iterdir())):
        raise StoreError(
            f"{target}: exists and is no store",
            hint="give a directory that is empty or does not exist yet",
            slug="output-exists",
        )
    options = ImportOptions(
        None if ranks is None else tuple(ranks),
        None if steps is None else tuple(steps),
        window,
        python_stack,
        strict,
        rank,
    )
    with _building(target) as unfinished:
        _build(Path(source), unfinished, options, progress or SILENT)
        _put_in_place(unfinished, target)
    return target


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
    options = ImportOptions(
        None if ranks is None else tuple(sorted(set(ranks))), None, window, python_stack, strict
    )
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
    directory = cache_directory()
    described = {"ranks": options.ranks, "window": options.window, "python_stack": python_stack}
    key = cache_key(path, described)
    if not _same_plug_ins(directory / key):
        key = cache_key(path, {**described, "plug_ins": versions("formats")})
    store = directory / key
    if not is_store(store):
        with locked(directory, key):
            if not is_store(store):
                with _building(store) as unfinished:
                    _build(path, unfinished, options, progress)
                    _put_in_place(unfinished, store)
                trim(directory, store)
    mark_used(store)
    if strict:
        with Store.open(store) as opened:
            refuse_damage(opened)
    return store


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
        "version": STORE_VERSION,
        "source": str(source),
        "ranks": sorted(ranks),
        "skipped": [{"path": path, "reason": reason} for path, reason in run.skipped],
    }
    if options.steps is not None:
        facts["steps"] = _kept(options.steps, {step for one in done for step in one.steps})
    if run.skipped or any(recording.format not in FORMATS for recording in run.recordings):
        facts["plug_ins"] = versions("formats")
    (directory / STORE_FILE).write_text(json.dumps(facts, indent=1), encoding="utf-8")


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


@contextlib.contextmanager
def _building(target: Path) -> Iterator[Path]:
    """A directory beside the target to build in; deleted whatever happens."""
    with _as_store_error(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=f".{target.name}.partial-", dir=target.parent))
    try:
        with _as_store_error(target):
            yield unfinished
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _put_in_place(unfinished: Path, target: Path) -> None:
    """Gives a finished store its name, in place of one that is there."""
    unfinished.chmod(0o755)
    try:
        unfinished.rename(target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        old = Path(tempfile.mkdtemp(prefix=f".{target.name}.partial-old-", dir=target.parent))
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
