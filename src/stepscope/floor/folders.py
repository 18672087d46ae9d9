"""Walks a folder, following links to folders: ranks often write to their own disks, to which a run's folder links."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path


def walked(folder: Path, refused: Callable[[OSError], object] = lambda _: None) -> Iterator[tuple[Path, list[str]]]:
    """Each folder below one, with the names of its files in no order. Hidden folders are skipped.

    Links to folders come after everything else there. A folder that several links lead to comes once, so that a link to
    an outer folder ends.

    Args:
        folder: where to start; it is the first.
        refused: called for each folder that cannot be read (`filename` is its path).
    """
    seen: set[str] = set()
    places = [os.fspath(folder)]
    for place in places:  # links that are found are appended
        for here, folders, names in os.walk(place, onerror=refused):
            real = os.path.realpath(here)
            if real in seen:
                folders.clear()
                continue
            seen.add(real)
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            inside = [f"{here}/{name}" for name in folders]
            places += filter(os.path.islink, inside)
            yield Path(here), names
