"""Removes from answers what tells where a job ran: names of hosts, and paths. Reports use it.

A path keeps its end, which says which file or line is meant: what follows `site-packages`, or the file's name. A host
keeps its number among the recording's hosts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

_PATH = re.compile(
    r"""
    (?<![\w.:/\\<-])                    # not in a name, nor after https:/
    (?: (?:/+[^/\s"'`<>|:,;()\[\]{}*?\\]+){2,}/*            # /home/ann//train.py
      | ~(?:/+[^/\s"'`<>|:,;()\[\]{}*?\\]+)+/*              # ~/train.py
      | [A-Za-z]:(?:[\\/]+[^\\/\s"'`<>|:,;()\[\]{}*?]+)+ )  # C:\\Users\\ann\\train.py
    """,
    re.VERBOSE,
)
_INSTALLED = re.compile(r"[\\/](?:site|dist)-packages[\\/]")
_NUMBERS = frozenset({int, float, bool, type(None)})
_SHORTEST_HOST = 3
"""Shorter host names would match words that mean something else."""


def redact_paths(hosts: Sequence[str], folders: Iterable[str] = ()) -> Callable[[Any], Any]:
    """Returns a function that removes hosts and paths from all texts in a JSON value, at any depth.

    Args:
        hosts: the names of the recording's hosts, in order.
        folders: where its files are; their names may contain any characters.

    Example:
        >>> redact_paths(["node7"])({"path": "/home/ann/train.py", "at": "node7: 3"})
        {'path': 'train.py', 'at': 'host 1: 3'}
    """
    named = {host: f"host {number}" for number, host in enumerate(hosts, 1)}
    for host, words in list(named.items()):
        named.setdefault(host.partition(".")[0], words)
    host_names = sorted((host for host in named if len(host) >= _SHORTEST_HOST), key=len, reverse=True)
    host_name = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, host_names))})(?![\w-])")

    lead = sorted({f"{folder.rstrip('/')}/" for folder in folders} - {"/", "./"}, key=len)[::-1]

    @cache  # most answers repeat the same kernels and operators
    def of_text(text: str) -> str:
        for folder in lead:
            text = text.replace(folder, "")
        if "/" in text or "\\" in text:
            text = _PATH.sub(_end_of_path, text)
        return host_name.sub(lambda match: named[match[0]], text) if host_names else text

    def of(value: Any) -> Any:
        if isinstance(value, str):
            return of_text(value)
        if isinstance(value, dict):  # its keys are ours
            return {key: item if type(item) in _NUMBERS else of(item) for key, item in value.items()}
        if isinstance(value, list):
            return [item if type(item) in _NUMBERS else of(item) for item in value]
        return value

    return of


def _end_of_path(match: re.Match[str]) -> str:
    path = match[0].rstrip("/\\")
    parts = _INSTALLED.split(path)
    return parts[-1] if len(parts) > 1 else re.split(r"[\\/]", path)[-1]
