"""Regular expressions that are compiled on first use: a command needs few of the hundreds."""

from __future__ import annotations

import re
from typing import Any, cast


class _Uncompiled:
    """Compiles its pattern when a method or attribute of it is first used."""

    def __init__(self, text: str, flags: int) -> None:
        self._given = text, flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        vars(self)[name] = method = getattr(re.compile(*self._given), name)
        return method


def lazily(text: str, flags: int = 0) -> re.Pattern[str]:
    """A regular expression that is compiled on first use.

    >>> lazily("a+").search("baa").group()
    'aa'
    """
    return cast("re.Pattern[str]", _Uncompiled(text, flags))
