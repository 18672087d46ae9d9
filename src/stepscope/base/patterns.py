"""Regular expressions that are compiled on first use: a command needs few of the hundreds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, Final, cast

_MIN_LETTERS: Final = 2
"""Fewest letters of a word that is searched for: single letters are in most texts."""
_ELEMENT: Final = re.compile(r"\\.|\{[\d,]*\}|\[\^?\]?(?:\\.|[^\]\\])*\]?|.", re.DOTALL)
_REPEATED: Final = re.compile(r"[*?+{]")


class _Uncompiled:
    """A pattern whose words are searched for first: a text with none of them cannot match, and if no text ever has one,
    as with most patterns for some library's kernels, nothing is compiled."""

    def __init__(self, text: str, flags: int) -> None:
        self._given = text, flags
        self._words: tuple[str, ...] | None = None

    def search(self, text: str, *within: int) -> re.Match[str] | None:
        return self._compiled().search(text, *within) if self._may_match(text) else None

    def match(self, text: str, *within: int) -> re.Match[str] | None:
        return self._compiled().match(text, *within) if self._may_match(text) else None

    def _may_match(self, text: str) -> bool:
        if self._words is None:
            self._words = words_of(*self._given)
        return not self._words or any(map(text.__contains__, self._words))

    def _compiled(self) -> re.Pattern[str]:
        compiled = re.compile(*self._given)
        vars(self).update(search=compiled.search, match=compiled.match)
        return compiled

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = getattr(self._compiled(), name)
        setattr(self, name, value)
        return value


def lazily(text: str, flags: int = 0) -> re.Pattern[str]:
    """A regular expression that is compiled on first use.

    >>> lazily("a+").search("baa").group()
    'aa'
    """
    return cast("re.Pattern[str]", _Uncompiled(text, flags))


def words_of(text: str, flags: int = 0) -> tuple[str, ...]:
    """Words of which any text that a pattern matches has at least one; none if that is unknown.

    >>> words_of(r"cudnn|(^|_)gemm_[hs]\\d?|x?dlops")
    ('cudnn', 'gemm_', 'dlops')
    >>> words_of(r"cudnn|\\w+"), words_of("(?i)cudnn")
    ((), ())
    """
    if flags or "(?i" in text or "(?x" in text:
        return ()
    words = tuple(max(_runs(alternative), key=len, default="") for alternative in _alternatives(text))
    return words if all(len(word) >= _MIN_LETTERS for word in words) else ()


def _alternatives(text: str) -> Iterator[list[str]]:
    """The elements of each alternative of a pattern: letters, escapes and sets; a group is one element."""
    depth, alternative = 0, list[str]()
    for element in _ELEMENT.findall(text):
        depth -= element == ")"
        if depth == 0 and element == "|":
            yield alternative
            alternative = []
        elif depth == 0:
            alternative.append(element)
        depth += element == "("
    yield alternative


def _runs(elements: list[str]) -> Iterator[str]:
    """Consecutive letters in every text that the elements match."""
    run = ""
    for element, following in zip_longest(elements, elements[1:], fillvalue=""):
        plain = len(element) == 1 and (element.isalnum() or element in "_:<>/- ,=")
        if plain and not _REPEATED.match(following):
            run += element
        else:
            yield run
            run = ""
    yield run
