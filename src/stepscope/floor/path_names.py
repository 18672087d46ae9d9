"""Names for things that lie at paths: the last parts of the paths, as many as tell them apart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath


def path_names(paths: Sequence[PurePath]) -> list[str]:
    """A name for each path, no two alike.

    >>> path_names([PurePath("/runs/a/trace"), PurePath("/runs/b/trace")])
    ['a/trace', 'b/trace']
    """
    for parts in range(1, max((len(path.parts) for path in paths), default=0) + 1):
        names = ["/".join(path.parts[-parts:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [f"{path.name} ({number})" for number, path in enumerate(paths, 1)]
