"""Reads a small file that may be a stranger's; never reads a pipe, a device or an endless file."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def regular_file_bytes(path: Path, most: int) -> bytes:
    """The bytes of a regular file, or of the one that a link leads to.

    Args:
        most: its largest allowed size (bytes).

    Raises:
        OSError: it cannot be read, is larger, or is not a regular file; a device is not even opened.
    """
    # Opening a device can have effects; and the file may have become a pipe, which must not wait.
    _check_regular(path.stat(), path, most)
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:  # noqa: PTH123
        _check_regular(os.fstat(file.fileno()), path, most)
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return data


def _check_regular(found: os.stat_result, path: Path, most: int) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    if found.st_size > most:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
