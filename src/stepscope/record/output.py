"""Writes files of a recording completely or not at all.

An unwritable directory (read-only, full, deleted) must not cost the measurements: the file then goes to the system's
temporary directory, and a warning says where.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from stepscope.base.complete_file import complete_file
from stepscope.base.ranks import Process, this_process
from stepscope.record.trouble import Guard, warn_once


def write_complete(path: Path, write: Callable[[BinaryIO], object], *, since_epoch_s: float | None = None) -> None:
    """Lets `write` fill a file that then becomes `path`; creates its directory if absent.

    Raises:
        FileExistsError: the existing file is younger than `since_epoch_s`.
        OSError: the directory cannot be written; nothing is left behind.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path.parent)) from None
    with complete_file(path, since_epoch_s=since_epoch_s) as unfinished, unfinished.open("xb") as file:
        write(file)


@cache
def warn_unusable(directory: Path) -> None:
    """Warns, before a job runs for hours, if its files cannot be written into `directory`."""
    # Not `exists`, which raises in a folder that may not be read.
    place = next((place for place in (directory, *directory.parents) if os.access(place, os.F_OK)), directory)
    if place.is_dir() and os.access(place, os.W_OK | os.X_OK):
        return
    why = "cannot be written to" if place.is_dir() else "is not a directory"
    try:
        instead = f"what is recorded goes to a new directory in {tempfile.gettempdir()}"
    except OSError:
        instead = "nor is there a temporary directory, so that what is recorded would be lost"
    warn_once(f"nothing can be written to {directory}: {place} {why}; {instead}")


def keep(
    directory: Path,
    name: str,
    write: Callable[[BinaryIO], object],
    *,
    what: str,
    since_epoch_s: float | None = None,
    other_name: str | None = None,
    again: bool = False,
) -> Path | None:
    """Writes a file into `directory`, or, with one warning, where that is possible; returns its path, None if nowhere.

    Args:
        write: fills the open file; may be called twice.
        what: what it is, for the warning.
        since_epoch_s: a file of this name that is younger belongs to another process.
        other_name: the file's name in that case.
        again: whether it replaces what this process has written before, under either name.
    """
    if again and other_name is not None and _is_ours(directory / other_name):
        name = other_name
    if again and _is_ours(directory / name):
        since_epoch_s = None
    try:
        try:
            write_complete(directory / name, write, since_epoch_s=since_epoch_s)
        except FileExistsError:
            if other_name is None:
                raise
            warn_once(f"another process has written {directory / name}; {what} is {other_name}")
            name = other_name
            write_complete(directory / name, write)
        _OURS[directory / name] = _identity(directory / name)
        return directory / name
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
    try:
        spare = _spare()
        write_complete(spare / name, write)
    except Exception as error:
        warn_once(f"{what} could not be written to {directory} ({reason}), nor elsewhere: {error}")
        return None
    warn_once(f"{what} could not be written to {directory} ({reason}); it is at {spare / name}")
    return spare / name


_OURS: dict[Path, tuple[int, int] | None] = {}
"""What this process last wrote at a path, as returned by `_identity`."""


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def _is_ours(path: Path) -> bool:
    return path in _OURS and _OURS[path] == _identity(path) is not None


@cache
def _spare() -> Path:
    """The fallback folder for this process's files, with an unpredictable name, so that nobody can put a link there."""
    return Path(tempfile.mkdtemp(prefix="stepscope-"))


def keep_json(directory: Path, name: str, payload: Mapping[str, Any], *, what: str, **others: Any) -> Path | None:
    """Like `keep`, for a JSON object that is written again as it grows."""
    data = json.dumps(payload, indent=1, allow_nan=False).encode()
    return keep(directory, name, lambda file: file.write(data), what=what, again=True, **others)


def keep_copy(directory: Path, name: str, source: Path, *, what: str, **others: Any) -> Path | None:
    """Like `keep`, for a copy of a file."""

    def copy(named: BinaryIO) -> None:
        with source.open("rb") as file:
            shutil.copyfileobj(file, named, 1 << 20)

    return keep(directory, name, copy, what=what, **others)


class Background:
    """Runs slow work in a thread, one thing after another, while the job trains."""

    def __init__(self, name: str, guard: Guard) -> None:
        self._name = name
        self._guard = guard
        self._last: threading.Thread | None = None

    @property
    def busy(self) -> bool:
        return self._last is not None and self._last.is_alive()

    def run(self, write: Callable[[], object]) -> None:
        before = self._last

        def work() -> None:
            if before is not None:
                before.join()
            try:
                write()
            except Exception as error:
                self._guard.trip(error)

        thread = threading.Thread(target=work, name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError:  # too many threads, or Python is ending: the file is written all the same
            work()
        else:
            self._last = thread  # set only now, because another thread may wait for it, which requires that it runs

    def wait(self, seconds: float) -> bool:
        """Waits until all work is done; False if that takes longer than `seconds`."""
        if self._last is not None:
            self._last.join(seconds)
        return not self.busy


class Who:
    """This process as far as it is known: its process group may be created late, and be gone at the end."""

    def __init__(self) -> None:
        self._process: Process | None = None

    def process(self) -> Process:
        """This process; asked again until torch.distributed has set the rank."""
        if self._process is None or self._process.rule != "torch.distributed":
            self._process = this_process()
        return self._process

    def named(self) -> Process:
        """This process, for files named by its rank; warns once if launchers disagree."""
        process = self.process()
        if process.disagreement:
            _warn_of(process.disagreement, process.rank)
        return process


@cache
def _warn_of(disagreement: str, rank: int) -> None:
    warn_once(
        f"the rank of this process is uncertain: {disagreement}. It is recorded as rank {rank}, "
        "and training goes on; without the variables of a launcher that did not start it, or with "
        "torch.distributed, the rank is sure"
    )
