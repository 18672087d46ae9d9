"""Files that are complete or absent: written next to their place, then renamed."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shlex
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from stepscope.base.errors import StepScopeError

_HINT = "choose a folder that exists, that you may write to, and that has space left"
_MAX_LINKS = 40
"""Most links that Linux follows."""

ERRORS = {
    "cannot-write": (
        "The answer cannot be written to this file: its folder is missing or full, you may not write to it, "
        "or it is a directory or a disk. Nothing is left behind. Devices, pipes and `/dev/stdout` are written "
        "into."
    ),
}


@contextmanager
def complete_file(target: Path, *, since_epoch_s: float | None = None) -> Iterator[Path]:
    """Yields the path to write to; the file there becomes `target` when the block ends.

    Args:
        target: where the file is to be; an existing one is replaced, its permissions stay.
        since_epoch_s: a file at `target` that is younger than this is not replaced.

    Raises:
        FileExistsError: there is such a younger file.
        OSError: the directory cannot be written; nothing is left behind.

    Example:
        with complete_file(Path("a.svg")) as unfinished:
            unfinished.write_text("<svg/>")
    """
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        # A link that somebody put at this name must not be written through.
        unfinished.unlink(missing_ok=True)
        yield unfinished
        if since_epoch_s is None or not _linked(unfinished, target, since_epoch_s):
            _take_permissions(unfinished, target)
            unfinished.replace(target)
    finally:
        # Whatever prevents writing may prevent this too.
        with contextlib.suppress(OSError):
            unfinished.unlink()


def _take_permissions(unfinished: Path, target: Path) -> None:
    """Gives a file the permissions of the one that it replaces, and its owner as far as possible."""
    with contextlib.suppress(OSError):
        before, now = target.lstat(), unfinished.stat()
        if not stat.S_ISREG(before.st_mode):
            return
        if (before.st_uid, before.st_gid) != (now.st_uid, now.st_gid):
            with contextlib.suppress(OSError):
                os.chown(unfinished, before.st_uid, before.st_gid)
        unfinished.chmod(before.st_mode & 0o777)


def _linked(unfinished: Path, target: Path, since_epoch_s: float) -> bool:
    """Gives the file the name `target` too, unless something has it; returns whether it did. Of two, one gets it."""
    try:
        os.link(unfinished, target)
    except OSError:  # something has it, or the file system has no links
        if target.exists() and target.stat().st_mtime >= since_epoch_s:
            raise FileExistsError(str(target)) from None
        return False
    return True


@contextmanager
def complete_output(target: Path, *, hint: str = _HINT) -> Iterator[Path]:
    """Like `complete_file`, for a file that the user named.

    A link is followed, and the file that it leads to is replaced. A device, a pipe, or a descriptor of this process
    (`/dev/null`, `/dev/stdout`, `/dev/fd/3`) is written into once everything is there: what is behind it may also
    contain other output.

    Raises:
        BrokenPipeError: nobody reads the pipe any more.
        StepScopeError: the file cannot be written; `hint` says what to do. Nothing is left behind.
    """
    _check_place(target, hint)
    try:
        if descriptor_of(target) is None and not _is_no_file(target):
            with complete_file(Path(os.path.realpath(target))) as unfinished:
                yield unfinished
            return
        with tempfile.TemporaryDirectory(prefix="stepscope-") as folder:
            unfinished = Path(folder) / (target.name or "output")
            yield unfinished
            with unfinished.open("rb") as source, _into(target) as out:
                shutil.copyfileobj(source, out)
    except BrokenPipeError:  # the reader has had enough
        raise
    except OSError as error:
        raise _cannot_write(target, error.strerror or str(error), hint) from None


def check_output(target: Path) -> None:
    """Refuses what `complete_output` cannot or must not write, before anything is computed for it.

    Raises:
        StepScopeError: it is a directory, a disk, in a missing folder, or may not be written.
    """
    _check_place(target, _HINT)
    folder = Path(os.path.realpath(target)).parent
    if descriptor_of(target) is None and not folder.is_dir():
        raise _cannot_write(target, "its folder is missing", f"make it: mkdir -p {shlex.quote(str(target.parent))}")


def _check_place(target: Path, hint: str) -> None:
    try:
        if descriptor_of(target) is not None:
            return
        mode = _mode(target)
        if mode is not None and stat.S_ISDIR(mode):
            inside = f"name a file in it, such as {target / 'answer'}"
            raise _cannot_write(target, "it is a directory", inside)
        if mode is not None and stat.S_ISBLK(mode):
            raise _cannot_write(target, "it is a disk, and what is on it would be lost", hint)
        folder = Path(os.path.realpath(target)).parent
        denied = not os.access(target, os.W_OK) if mode is not None else False
        if mode is None or stat.S_ISREG(mode):
            denied = denied or (folder.is_dir() and not os.access(folder, os.W_OK))
    except OSError as error:
        raise _cannot_write(target, error.strerror or str(error), hint) from None
    if denied:
        raise _cannot_write(target, os.strerror(errno.EACCES), hint)


def descriptor_of(target: Path) -> int | None:
    """The open descriptor of this process that a path names, such as 1 for `/dev/stdout`; None for none.

    Opening such a path would start at the beginning of its file, and replacing the file would lose what a
    shell has put there (`>> log`).
    """
    descriptor_folder = re.compile(rf"/dev/fd|/proc/(?:self|{os.getpid()})(?:/task/\d+)?/fd")
    path = target.absolute()
    for _ in range(_MAX_LINKS):
        if path.name.isdecimal() and descriptor_folder.fullmatch(os.path.realpath(path.parent)):
            return int(path.name)
        try:
            path = path.parent / path.readlink()
        except OSError:
            return None
    return None


def _is_no_file(target: Path) -> bool:
    mode = _mode(target)
    return mode is not None and not stat.S_ISREG(mode)


def _mode(target: Path) -> int | None:
    """The mode of what is there, behind links; None for nothing."""
    try:
        return target.stat().st_mode
    except FileNotFoundError:
        return None


def _into(target: Path) -> BinaryIO:
    """Opens something other than a regular file, without creating or emptying it."""
    descriptor = descriptor_of(target)
    if descriptor is None:
        return os.fdopen(os.open(target, os.O_WRONLY | os.O_NOCTTY), "wb")
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):  # there is none, or it is closed
            stream.flush()
    return os.fdopen(os.dup(descriptor), "wb")


def _cannot_write(target: Path, why: str, hint: str) -> StepScopeError:
    return StepScopeError(f"{target}: cannot be written ({why})", hint=hint, slug="cannot-write")
