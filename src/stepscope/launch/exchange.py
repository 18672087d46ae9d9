"""The folder in which a supervisor and its starter exchange data.

Its file `STATUS` is locked as long as the supervisor lives. By that the next launch recognises the folders of killed
supervisors and removes them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import stat
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree

from stepscope.launch import started

_PREFIX = "stepscope-launch-"
_YOUNG_S = 60.0  # a younger folder may still be in use by its creator


class Exchange:
    """One supervisor's folder, and the open file into which the starter writes; OSError if it cannot be created."""

    def __init__(self) -> None:
        for left in _left_behind():
            rmtree(left, ignore_errors=True)
        self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self.status_file = os.open(self.folder / started.STATUS, os.O_RDWR | os.O_CREAT)
        with contextlib.suppress(OSError):
            fcntl.flock(self.status_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(self.status_file, bytes(started.ENDED_AT + started.ROOM))
        self._listener: socket.socket | None = None

    def hand_over_outputs(self) -> None:
        """Offers this process's standard output and error to the starter, because tools redirect them; it may fail."""
        with contextlib.suppress(OSError):
            listener = socket.socket(socket.AF_UNIX)
            with started.opened_folder(self.folder) as near:
                listener.bind(f"{near}/{started.OUTPUTS}")
            listener.listen()
            self._listener = listener
            threading.Thread(target=_hand_over, args=(listener,), daemon=True).start()

    def close(self) -> None:
        """Removes the folder."""
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
        os.close(self.status_file)
        rmtree(self.folder, ignore_errors=True)


def _hand_over(listener: socket.socket) -> None:
    while True:
        try:
            asking, _ = listener.accept()
        except OSError:
            return
        with asking, contextlib.suppress(OSError):
            socket.send_fds(asking, [b"\0"], [1, 2])


def _left_behind() -> Iterator[Path]:
    """This user's folders without a living supervisor."""
    oldest = time.time() - _YOUNG_S
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            status = folder.lstat()
            mine = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
            if mine and status.st_mtime < oldest and not _is_locked(folder / started.STATUS):
                yield folder


def _is_locked(path: Path) -> bool:
    """Whether another process has locked a file; False if it does not exist."""
    try:
        file = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(file)
    return False
