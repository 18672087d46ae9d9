"""Reads a small file that may be a stranger's; never reads a pipe, a device or an endless file."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def regular_file_bytes(path: Path, max_bytes: int) -> bytes:
    """The bytes of a regular file, or of the one that a link leads to.

    Raises:
        OSError: it cannot be read, is larger, or is not a regular file; a device is not even opened.
    """
    # Opening a device can have effects; and the file may have become a pipe, which must not wait.
    _check_regular(path.stat(), path, max_bytes)
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:  # noqa: PTH123
        _check_regular(os.fstat(file.fileno()), path, max_bytes)
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return data


def _check_regular(status: os.stat_result, path: Path, max_bytes: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    if status.st_size > max_bytes:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
