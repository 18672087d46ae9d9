"""Shared libraries of the tools: the one that this process has loaded already, else one by its name."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterable
from pathlib import Path

_MAPS = Path("/proc/self/maps")


def load(stem: str, names: Iterable[str]) -> ctypes.CDLL:
    """A library.

    Args:
        stem: what the name of its file begins with; one that is loaded already is taken, because a
            profiler watches what the job uses.
        names: files to try, as the system's loader takes them: names or paths, the best first.

    Raises:
        OSError: there is none.
    """
    names = [*_loaded(stem), *names]
    for name in names:
        with contextlib.suppress(OSError):
            return ctypes.CDLL(name)
    raise OSError(f"{stem.rstrip('.')} is not on this machine, or not where libraries are looked for")


def _loaded(stem: str) -> list[str]:
    """Paths of the libraries of this process whose files' names begin so."""
    try:
        lines = _MAPS.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return []  # no Linux
    paths = dict.fromkeys(line.partition("/")[2] for line in lines if "/" in line)
    return [f"/{path}" for path in paths if path.rpartition("/")[2].startswith(stem)]
