"""Puts stores into place: complete, or not at all.

A store is made under another name and renamed when it is complete, so that any visible store can be used, whatever
stops the import.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from stepscope.base.errors import StepScopeError, StoreError
from stepscope.store.cache import locked, new_unfinished, remove_leftovers
from stepscope.store.manifest import check_directory_name, holds_only_a_store

ERRORS = {
    "disk-full": (
        "The disk was full before the store was complete; what was written has been removed. Free "
        "some space, or choose another place with `-o` or `STEPSCOPE_CACHE`."
    ),
    "not-writable": "The store cannot be written to the requested place.",
    "output-exists": (
        "The store's directory exists and is not a store, contains other files, or is the store that is being "
        "read. StepScope replaces only a directory that contains nothing but a store; give one that is empty "
        "or does not exist yet."
    ),
}


def place_for(output: str | os.PathLike[str]) -> Path:
    """Where a store to keep is made: through a link, the store that it leads to is replaced, not the link.

    Raises:
        StoreError: the place has something that is not a store, or cannot be used.
    """
    target = Path(os.path.realpath(output))
    check_directory_name(target)
    with as_store_error(target):
        _check_replaceable(target)
    return target


def make_store(target: Path, build: Callable[[Path], None]) -> None:
    """Makes a store to keep: `build` writes it into a directory beside its place (`place_for`).

    Raises:
        StoreError: it cannot be written; nothing is left behind.
    """
    with as_store_error(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with locked(target) as is_locked:
            _check_replaceable(target)
            make(target, build, is_locked=is_locked)


def _is_working_directory(target: Path) -> bool:
    try:
        return target.samefile(".")
    except OSError:  # it was removed
        return False


def _check_replaceable(target: Path) -> None:
    """Refuses to make a store where something would be lost.

    Raises:
        StoreError: the place has something that is not a store.
    """
    if not os.path.lexists(target):
        return
    what = ""
    if not target.is_dir():
        what = "exists and is not a store"
    elif not holds_only_a_store(target):
        what = "exists, and is not a store or has other files in it"
    elif _is_working_directory(target):
        what = "is the working directory, which cannot be replaced"
    if what:
        raise StoreError(
            f"{target}: {what}", hint="give a directory that is empty or does not exist yet", slug="output-exists"
        )


def make(target: Path, build: Callable[[Path], None], *, is_locked: bool) -> None:
    """Builds a store beside its place, whose lock may be held, and puts it there when it is complete.

    Raises:
        StoreError: it cannot be written; nothing is left behind.
    """
    with as_store_error(target):
        if is_locked:
            remove_leftovers(target)
        unfinished = new_unfinished(target)
        try:
            build(unfinished)
            _put_in_place(unfinished, target)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)


def _put_in_place(unfinished: Path, target: Path) -> None:
    """Gives a finished store its name, replacing an existing one, whose permissions it takes over."""
    if target.is_dir():
        with contextlib.suppress(OSError):  # a file system may have no permissions
            shutil.copymode(target, unfinished)
    try:
        unfinished.rename(target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        old = new_unfinished(target, "old-")
        target.rename(old)
        unfinished.rename(target)
        shutil.rmtree(old, ignore_errors=True)


_OF_READING = (errno.EACCES, errno.EPERM, errno.ENOENT, errno.EIO, errno.ESTALE, errno.ELOOP, errno.ENOTDIR)


def _elsewhere(error: OSError, target: Path) -> Path | None:
    """The file that a system error is about, if that is neither part of a store nor above it."""
    if not isinstance(error.filename, str):
        return None
    file, store = Path(error.filename).absolute(), target.absolute()
    if store.is_relative_to(file):
        return None
    # While a store is made, its future content is beside its place.
    first = file.relative_to(store.parent).parts[0] if file.is_relative_to(store.parent) else ""
    return None if first == store.name or first.startswith(f".{store.name}.") else file


@contextlib.contextmanager
def as_store_error(target: Path) -> Iterator[None]:
    """Turns system errors into errors that name the store and what to do, or the file it was to be made of.

    Raises:
        StoreError: the disk is full, or the place cannot be written.
        SourceError: a file elsewhere cannot be read.
    """
    try:
        yield
    except StepScopeError:
        raise
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        if error.errno in _OF_READING and (file := _elsewhere(error, target)) is not None:
            # Imported here: a command that finds its store in the cache must not wait for the readers.
            from stepscope.formats.container import display_name, unreadable

            raise unreadable(display_name(file), error) from None
        raise StoreError(
            f"{target}: {'the disk is full' if full else f'cannot be written ({error.strerror or error})'}",
            hint="free some space, or choose another place with -o or STEPSCOPE_CACHE"
            if full
            else "choose a directory that you may write to with -o or STEPSCOPE_CACHE",
            slug="disk-full" if full else "not-writable",
        ) from None
