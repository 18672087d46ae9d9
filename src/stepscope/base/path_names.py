"""Names for things at paths: the last parts of the paths, as many as make the names distinct."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath

_PROCESS = re.compile(r"!pid \d+(?: of \d+)?$")


def file_of(label: str) -> str:
    """The file of a recording, which may be one of several processes in it (`formats.container.Member`).

    >>> file_of("run/a.sqlite!pid 148"), file_of("run.zip!a.json")
    ('run/a.sqlite', 'run.zip!a.json')
    """
    return _PROCESS.sub("", label)


def path_names(paths: Sequence[PurePath]) -> list[str]:
    """A distinct name for each path.

    >>> path_names([PurePath("/runs/a/trace"), PurePath("/runs/b/trace")])
    ['a/trace', 'b/trace']
    """
    for parts in range(1, max((len(path.parts) for path in paths), default=0) + 1):
        names = ["/".join(path.parts[-parts:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [f"{path.name} ({number})" for number, path in enumerate(paths, 1)]
