"""Files that are whole or absent: written beside their place, then renamed into it.

A directory that cannot be written (read-only, full, gone) must not cost what was measured: the file
then goes to the system's temporary directory, and the warning says where.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from stepscope.record.trouble import say_once


def write_whole(
    path: Path, write: Callable[[BinaryIO], None], *, since_epoch_s: float | None = None
) -> None:
    """Lets `write` fill a file beside `path` and renames it to `path` when it is whole.

    Args:
        path: the file.
        write: fills the open file.
        since_epoch_s: a file at `path` that is younger than this is not replaced.

    Raises:
        FileExistsError: there is such a younger file.
        OSError: the directory cannot be written; nothing is left behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        # A link that somebody put at this name must not be written through.
        part.unlink(missing_ok=True)
        with part.open("xb") as file:
            write(file)
            file.flush()
        if since_epoch_s is not None and _linked(part, path, since_epoch_s):
            part.unlink()
        else:
            part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise


def _linked(part: Path, path: Path, since_epoch_s: float) -> bool:
    """Whether `part` now has the name `path` too, where nothing had it: of two, one gets it."""
    try:
        os.link(part, path)
    except OSError:  # something has it, or the file system has no links
        if path.exists() and path.stat().st_mtime >= since_epoch_s:
            raise FileExistsError(str(path)) from None
        return False
    return True


def keep(
    directory: Path,
    name: str,
    write: Callable[[BinaryIO], None],
    *,
    what: str,
    since_epoch_s: float | None = None,
    other_name: str | None = None,
) -> Path | None:
    """Writes a file into `directory`, or, with one warning, where it can be written.

    Args:
        directory: where it should go; made if absent.
        name: the file's name.
        write: fills the open file; may be called twice.
        what: what it is, for the warning.
        since_epoch_s: a file of this name that was made since then is another process's.
        other_name: the file's name in that case.

    Returns:
        Where it is; None when it could not be written anywhere.
    """
    try:
        try:
            write_whole(directory / name, write, since_epoch_s=since_epoch_s)
        except FileExistsError:
            if other_name is None:
                raise
            say_once(f"another process has written {directory / name}; {what} is {other_name}")
            name = other_name
            write_whole(directory / name, write)
        return directory / name
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
    try:
        # Not a name that others could guess and put a link at.
        spare = Path(tempfile.mkdtemp(prefix="stepscope-"))
        write_whole(spare / name, write)
    except Exception as error:
        say_once(f"{what} could not be written to {directory} ({reason}), nor elsewhere: {error}")
        return None
    say_once(f"{what} could not be written to {directory} ({reason}); it is at {spare / name}")
    return spare / name


def keep_json(directory: Path, name: str, payload: Mapping[str, Any], *, what: str) -> Path | None:
    """Like `keep`, for a JSON object."""
    data = json.dumps(payload, indent=1, allow_nan=False).encode()
    return keep(directory, name, lambda file: _write(file, data), what=what)


def _write(file: BinaryIO, data: bytes) -> None:
    file.write(data)
