"""Where imported recordings are kept, so that the second question is answered at once.

`STEPSCOPE_CACHE` names the folder (else `$XDG_CACHE_HOME/stepscope`, else `~/.cache/stepscope`), and
`STEPSCOPE_CACHE_SIZE` its size in bytes (20 GiB). A store is kept under a name made from its source's
path, size and time, from how it was read, and from the code that made it: a file that changed is
read again, and so is every file when a reader or a link changed. Where a file was of no format of ours,
the versions of the plug-ins that add formats count too (`build`). When the folder grows too large, the
stores that were used longest ago go first.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from stepscope.floor.errors import StoreError

DEFAULT_BYTES = 20 << 30
ROOMS = ("schema", "formats", "link", "store")
"""The packages whose code decides what a store holds."""

IN_USE_SECONDS = 3600
"""A store that was opened this recently is not deleted: a question may still be reading it."""

ERRORS = {
    "cache-not-writable": (
        "The folder in which imported recordings are kept cannot be written. Set "
        "`STEPSCOPE_CACHE` to one that can, or use `--no-cache` to keep nothing."
    ),
}


def cache_directory() -> Path:
    """The cache's folder."""
    named = os.environ.get("STEPSCOPE_CACHE")
    if named:
        return Path(named).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "stepscope"


def cache_bytes() -> int:
    """How large the cache may grow (bytes)."""
    with contextlib.suppress(ValueError):
        return int(os.environ.get("STEPSCOPE_CACHE_SIZE", ""))
    return DEFAULT_BYTES


def cache_key(path: Path, options: dict[str, Any]) -> str:
    """A name for the store of a source as it is now, read in a certain way.

    Args:
        path: a file, or a folder all of whose files count.
        options: what else changes the store.
    """
    path = path.resolve()
    files: list[tuple[str, int, int]] = []
    if path.is_dir():
        for folder, _, names in os.walk(path):
            files += [_state(Path(folder) / name) for name in sorted(names)]
    else:
        files.append(_state(path))
    described = json.dumps([_digest_of_code(), str(path), sorted(files), options], sort_keys=True)
    digest = hashlib.sha256(described.encode("utf-8", "surrogateescape")).hexdigest()[:24]
    plain = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in path.name)
    return f"{plain[:40].strip('.') or 'run'}-{digest}"


@cache
def _digest_of_code() -> str:
    """A digest of the source of `ROOMS`; takes about 3 ms.

    The text is read and not the files' times: two installations of one version share their stores.
    """
    package = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for room in ROOMS:
        for file in sorted((package / room).rglob("*.py")):
            digest.update(f"{file.relative_to(package)}\0".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _state(path: Path) -> tuple[str, int, int]:
    try:
        found = path.stat()
    except OSError:
        return (os.fspath(path), -1, -1)
    return (os.fspath(path), found.st_size, found.st_mtime_ns)


@contextlib.contextmanager
def locked(directory: Path, key: str) -> Iterator[None]:
    """Holds the lock of a key: of two commands that import the same file, the second waits.

    Where the file system knows no locks both import, and the one that is done first is kept.

    Raises:
        StoreError: the cache cannot be written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / f".{key}.lock").open("a")
    except OSError as error:
        raise StoreError(
            f"{directory}: the cache cannot be written ({error.strerror})",
            hint="set STEPSCOPE_CACHE to a folder that can, or use --no-cache",
            slug="cache-not-writable",
        ) from None
    with lock:
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                (directory / f".{key}.lock").unlink()


def mark_used(store: Path) -> None:
    """Notes that a store was used now."""
    with contextlib.suppress(OSError):
        os.utime(store)


def trim(directory: Path, keep: Path) -> None:
    """Deletes the stores that were used longest ago until the cache is within its size.

    Args:
        directory: the cache.
        keep: a store that stays, whatever its size.
    """
    stores: list[tuple[float, int, Path]] = []
    with contextlib.suppress(OSError):
        stores = [
            (entry.stat().st_mtime, _size(Path(entry.path)), Path(entry.path))
            for entry in os.scandir(directory)
            if entry.is_dir(follow_symlinks=False)
        ]
    now = time.time()
    total = sum(size for _, size, _ in stores)
    for used, size, store in sorted(stores):
        leftover = ".partial-" in store.name and now - used > 24 * IN_USE_SECONDS
        too_much = total > cache_bytes() and ".partial-" not in store.name
        if leftover or (too_much and store != keep and now - used > IN_USE_SECONDS):
            shutil.rmtree(store, ignore_errors=True)
            total -= size


def _size(directory: Path) -> int:
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            with contextlib.suppress(OSError):
                total += (Path(folder) / name).stat().st_size
    return total
