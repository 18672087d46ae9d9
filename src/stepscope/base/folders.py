"""Folders: walked, named so that they stay the same when the process changes its own, and those of the user's files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path


def from_anywhere(path: str | Path) -> Path:
    """The same place, also after the process has changed its directory; as it is where that directory was removed, in which
    nothing can be made.
    """
    try:
        return Path(path).absolute()
    except OSError:
        return Path(path)


def walked(folder: Path, refused: Callable[[OSError], object] = lambda _: None) -> Iterator[tuple[Path, list[str]]]:
    """Each folder below one, with the names of its files in no order. Hidden folders are skipped.

    Links to folders are followed: ranks often write to disks of their own, which a run's folder links to. They come after all that lies there itself; a folder that several of them lead to comes once, so that a
    link to what it lies in ends.

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


def config_folder() -> Path:
    """The folder of the user's configuration of StepScope: files about devices."""
    return user_folder("XDG_CONFIG_HOME", ".config")


def user_folder(variable: str, usual: str) -> Path:
    """The folder for StepScope's files of a kind, by the rules of XDG.

    If no home is known (a container's user without an entry in `passwd`), it is one that can neither
    be read nor made.
    """
    named = os.environ.get(variable)
    try:
        return (Path(named) if named else Path.home() / usual) / "stepscope"
    except RuntimeError:
        return Path(os.devnull) / "stepscope"
