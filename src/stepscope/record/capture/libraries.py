"""Finds shared libraries of tools: the one already loaded in this process, else one by name."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterable
from pathlib import Path

_MAPS = Path("/proc/self/maps")


def load(stem: str, names: Iterable[str]) -> ctypes.CDLL:
    """Loads a library: one that the process has loaded whose file name starts with `stem`, else the first of `names`.

    Raises:
        OSError: none can be loaded.
    """
    names = [*_loaded(stem), *names]
    for name in names:
        with contextlib.suppress(OSError):
            return ctypes.CDLL(name)
    raise OSError(f"{stem.rstrip('.')} is not on this machine, or not where libraries are looked for")


def _loaded(stem: str) -> list[str]:
    """Paths of this process's libraries whose file names start with the stem."""
    try:
        lines = _MAPS.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return []  # not Linux
    paths = dict.fromkeys(line.partition("/")[2] for line in lines if "/" in line)
    return [f"/{path}" for path in paths if path.rpartition("/")[2].startswith(stem)]
