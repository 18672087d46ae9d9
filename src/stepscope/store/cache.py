"""Keeps imported recordings, so that further questions are answered at once.

`STEPSCOPE_CACHE` names the folder (else `$XDG_CACHE_HOME/stepscope`, else `~/.cache/stepscope`), and
`STEPSCOPE_CACHE_SIZE` its size in bytes (20 GiB). A store is kept under a name made from its source's path, size, times
and inode, from how it was read, and from the code that made it: a changed file is read again, and so is every file when
a reader or a link changed. If a file was of no format of ours, the versions of the plug-ins that add formats count too
(`build`). When the folder grows too large, the stores that were used longest ago are deleted first.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from stepscope.base.folders import user_folder, walked
from stepscope.store.code_digest import code_digest
from stepscope.store.manifest import UNFINISHED, holds_only_a_store, is_store

DEFAULT_BYTES = 20 << 30
_KEY = re.compile(r".+-[0-9a-f]{24}")
_LEFTOVER = re.compile(rf"\.(.+){re.escape(UNFINISHED)}(?:old-)?\d+-[0-9a-f]+", re.DOTALL)
"""A folder in which a store is being made, or was (`new_unfinished`), and the store's name."""

IN_USE_SECONDS = 3600
"""A store that was opened this recently is not deleted: a question may still be reading it."""


def cache_directory() -> Path:
    """The cache's folder."""
    named = os.environ.get("STEPSCOPE_CACHE")
    if named:
        return Path(os.path.expanduser(named))  # noqa: PTH111 - Path's raises if no home is known
    return user_folder("XDG_CACHE_HOME", ".cache")


def cache_bytes() -> int:
    """How large the cache may grow (bytes)."""
    with contextlib.suppress(ValueError):
        return int(os.environ.get("STEPSCOPE_CACHE_SIZE", ""))
    return DEFAULT_BYTES


def cache_key(path: Path, options: dict[str, Any], *, further: Sequence[Path] = ()) -> str:
    """A name for the store of files, and of folders all of whose files count, in their present state; `options` are
    what else changes the store."""
    path = path.resolve()
    sources = [path, *(other.resolve() for other in further)]
    files: list[tuple[str, tuple[int, ...]]] = []
    for source in sources:
        if source.is_dir():
            for folder, names in walked(source):
                files += [_state(folder / name) for name in sorted(names)]
        else:
            files.append(_state(source))
    named = [str(source) for source in sources]
    described = json.dumps([code_digest("store"), named, sorted(files), options], sort_keys=True)
    digest = hashlib.sha256(described.encode("utf-8", "surrogateescape")).hexdigest()[:24]
    plain = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in path.name)
    return f"{plain[:40].strip('.') or 'run'}-{digest}"


def _state(path: Path) -> tuple[str, tuple[int, ...]]:
    try:
        file = path.stat()
        # Whatever changes with a file's content: a modification time can be set, a change time cannot.
        return os.fspath(path), (file.st_size, file.st_mtime_ns, file.st_ctime_ns, file.st_ino)
    except OSError:
        return os.fspath(path), ()


@contextlib.contextmanager
def locked(target: Path, *, waiting: bool = True) -> Iterator[bool]:
    """Holds the lock of a store that is to be made: of two commands that import the same file, the
    second waits.

    Yields whether it is held. It is not if the file system has no locks: both import then, and the first
    to finish is kept. Nor is it if another process holds it and `waiting` is off.

    Raises:
        OSError: the folder of the store cannot be written.
    """
    path = target.with_name(f".{target.name}.lock")
    while True:
        with path.open("a") as lock:
            is_locked, theirs = True, False
            try:
                fcntl.flock(lock, fcntl.LOCK_EX if waiting else fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                is_locked, theirs = False, isinstance(error, BlockingIOError)
            if is_locked and not _is_at(lock.fileno(), path):
                continue  # its holder has removed it
            try:
                yield is_locked
            finally:
                if not theirs:
                    with contextlib.suppress(OSError):
                        path.unlink()
            return


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


def new_unfinished(target: Path, new: str = "") -> Path:
    """A new folder beside a store that is to be made."""
    folder = target.with_name(f".{target.name}{UNFINISHED}{new}{os.getpid()}-{os.urandom(4).hex()}")
    folder.mkdir()
    return folder


def remove_leftovers(target: Path) -> None:
    """Removes what killed imports left beside a store, of this one and of others; the caller holds the lock of this one.

    Whoever makes a store holds its lock, so that what is being made stays. If an import was killed while it replaced
    another store, that store is restored.
    """
    for entry in _entries(target.parent):
        if (left := _LEFTOVER.fullmatch(entry.name)) is None:
            continue
        place = target.with_name(left[1])
        if place == target:
            _remove_leftover(entry, target)
        else:
            with contextlib.suppress(OSError), locked(place, waiting=False) as is_locked:
                if is_locked:
                    _remove_leftover(entry, place)


def _remove_leftover(entry: os.DirEntry[str], target: Path) -> None:
    left = Path(entry.path)
    if not _is_ours(entry):
        return
    if left.name.startswith(f".{target.name}{UNFINISHED}old-") and is_store(left) and not target.exists():
        left.rename(target)
    else:
        shutil.rmtree(left, ignore_errors=True)


def _entries(directory: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except OSError:
        return []


def _is_ours(entry: os.DirEntry[str]) -> bool:
    """Whether a folder can be deleted without deleting anything that is not ours."""
    try:
        return entry.is_dir(follow_symlinks=False) and holds_only_a_store(Path(entry.path))
    except OSError:
        return False


def mark_used(store: Path) -> None:
    """Records that a store is used now."""
    with contextlib.suppress(OSError):
        os.utime(store)


@contextlib.contextmanager
def in_use(stores: Sequence[Path]) -> Iterator[None]:
    """Keeps the cache from deleting these stores meanwhile, however long that is."""
    cached = cache_directory().resolve()
    inside = [store.resolve() for store in stores]
    cached_stores = [
        cached / store.relative_to(cached).parts[0]
        for store in inside
        if store != cached and store.is_relative_to(cached)
    ]
    over = threading.Event()

    def mark() -> None:
        for store in cached_stores:
            mark_used(store)

    def go_on() -> None:
        while not over.wait(IN_USE_SECONDS / 6):
            mark()

    mark()
    if cached_stores:
        threading.Thread(target=go_on, name="stepscope-cache", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def trim(directory: Path, keep: Path) -> None:
    """Deletes the stores that were used longest ago, except `keep`, until the cache is within its size."""
    stores: list[tuple[float, int, Path]] = []
    for entry in _entries(directory):
        # The folder may have been the user's, with other things in it.
        if _KEY.fullmatch(entry.name) and _is_ours(entry):
            with contextlib.suppress(OSError):
                size = _size(Path(entry.path))
                stores.append((entry.stat().st_mtime, size, Path(entry.path)))
    now = time.time()
    total = sum(size for _, size, _ in stores)
    for used, size, store in sorted(stores):
        if total > cache_bytes() and store != keep and now - used > IN_USE_SECONDS:
            shutil.rmtree(store, ignore_errors=True)
            total -= size


def _size(directory: Path) -> int:
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            with contextlib.suppress(OSError):
                total += (Path(folder) / name).stat().st_size
    return total
