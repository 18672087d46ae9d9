"""Regular expressions that are compiled when they are first used: a command needs few of the hundreds that there are."""

from __future__ import annotations

import re
from typing import Any, cast


class _Uncompiled:
    def __init__(self, text: str, flags: int) -> None:
        self._given = text, flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(re.compile(*self._given), name)  # `re` remembers what it has compiled
        setattr(self, name, found)
        return found


def lazily(text: str, flags: int = 0) -> re.Pattern[str]:
    """A regular expression.

    >>> lazily("a+").search("baa").group()
    'aa'
    """
    return cast("re.Pattern[str]", _Uncompiled(text, flags))
