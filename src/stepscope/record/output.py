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


def write_whole(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Lets `write` fill a file beside `path` and renames it to `path` when it is whole.

    Raises:
        OSError: the directory cannot be written; nothing is left behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            write(file)
            file.flush()
        part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise


def keep(
    directory: Path, name: str, write: Callable[[BinaryIO], None], *, what: str
) -> Path | None:
    """Writes a file into `directory`, or, with one warning, where it can be written.

    Args:
        directory: where it should go; made if absent.
        name: the file's name.
        write: fills the open file; may be called twice.
        what: what it is, for the warning.

    Returns:
        Where it is; None when it could not be written anywhere.
    """
    try:
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
