"""Separates a tool's lines from a command's standard output, and passes on everything else immediately."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import termios
import threading
import tty
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

_STDOUT = 1
_PIECE = 1 << 16
_HOLD_S = 0.02  # how long the last bytes are held back if a line of the tool may start with them
_SILENCE_S = 1.0
"""Silence after which nothing more is expected from processes that the command left running with its output open."""


class Sieve:
    """Splits a stream into the lines of a tool and the rest, unchanged.

    A line of the tool starts with one of `prefixes`, at any position, because the command may have written half a line
    before it, and ends at the line end.
    """

    def __init__(self, prefixes: Sequence[bytes]) -> None:
        self._prefixes = prefixes
        self._buffer = b""
        self._inside = False

    @property
    def holds(self) -> bool:
        """Whether bytes are held back because a line of the tool may start with them."""
        return bool(self._buffer)

    def part(self, data: bytes) -> tuple[bytes, bytes]:
        """Splits the next bytes into those of the command and those of the tool."""
        data, self._buffer = self._buffer + data, b""
        ours, theirs = [], []
        while data:
            if self._inside:
                line, end, data = data.partition(b"\n")
                theirs.append(line + end)
                self._inside = not end
                continue
            places = [place for prefix in self._prefixes if (place := data.find(prefix)) >= 0]
            if places:
                ours.append(data[: min(places)])
                data, self._inside = data[min(places) :], True
                continue
            complete = len(data) - self._possible(data)
            ours.append(data[:complete])
            self._buffer, data = data[complete:], b""
        return b"".join(ours), b"".join(theirs)

    def let_go(self) -> bytes:
        """Returns the bytes held back, since they did not become a line of the tool."""
        buffer, self._buffer = self._buffer, b""
        return buffer

    def _possible(self, data: bytes) -> int:
        """The number of final bytes that may start a prefix."""
        return max(size for prefix in self._prefixes for size in range(len(prefix)) if data.endswith(prefix[:size]))


class Diverted:
    """A command's standard output; lines that start with one of `prefixes` go into a new file `target`.

    Raises:
        OSError: the file cannot be created.
    """

    def __init__(self, prefixes: Sequence[bytes], target: Path) -> None:
        self._file: BinaryIO = target.open("xb", buffering=0)
        self._sieve = Sieve(prefixes)
        self._is_terminal = os.isatty(_STDOUT)
        self._from, self.to = _terminal() if self._is_terminal else os.pipe()
        """`to` is the descriptor that the command writes to."""
        self._thread = threading.Thread(target=self._pump, name="stepscope-output", daemon=True)
        self._ended, self._end = os.pipe()

    def start(self) -> None:
        """Call once the command has its descriptor."""
        os.close(self.to)
        self._thread.start()

    def finish(self) -> None:
        """Call when the command has ended: passes on its output and, for a while, that of processes it left running."""
        os.close(self._end)
        self._thread.join()
        with contextlib.suppress(OSError):  # a full disk, which some servers report only now
            self._file.close()

    def _pump(self) -> None:
        waiting, ended = [self._from, self._ended], False
        while True:
            limit = _HOLD_S if self._sieve.holds else _SILENCE_S if ended else None
            ready = select.select(waiting, [], [], limit)[0]
            if self._ended in ready:
                waiting, ended = [self._from], True
            if self._from not in ready:
                if self._sieve.holds:
                    self._write(self._sieve.let_go(), b"")
                elif not ready and ended:
                    break
                continue
            try:
                data = os.read(self._from, _PIECE)
            except OSError:  # nobody has the terminal open any more
                data = b""
            if not data:
                break
            if not self._write(*self._sieve.part(data)):
                break
        self._write(self._sieve.let_go(), b"")
        os.close(self._from)

    def _write(self, ours: bytes, theirs: bytes) -> bool:
        """Writes both parts; returns False if our own output is closed, and the command's must be too."""
        if theirs:
            with contextlib.suppress(OSError):  # a full disk may cost the tool's lines, not the command's
                self._file.write(theirs)
        try:
            while ours:
                ours = ours[os.write(_STDOUT, ours) :]
        except OSError:
            return False
        return True


def _terminal() -> tuple[int, int]:
    """Opens a pseudo-terminal of the same size that changes no output; returns the reading end and the terminal."""
    reading, writing = os.openpty()
    tty.setraw(writing)
    with contextlib.suppress(OSError):
        size = fcntl.ioctl(_STDOUT, termios.TIOCGWINSZ, bytes(8))
        fcntl.ioctl(writing, termios.TIOCSWINSZ, size)
    return reading, writing
