"""Notices keys in a text that nobody declared, at the speed of memory.

DuckDB reads the keys it was told of and passes over the rest in silence. Asking it for every key of
every event doubles the time of an import, so the text itself is searched: each `":` ends a key, the
sixteen bytes before it tell one key from another, and a key whose bytes were seen before is known.
What is new is handed to the caller, who finds out whether it is a key or part of some text. What stands
behind the colons tells in passing whether the text can have true or false where a number belongs.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepscope.formats.kineto import fields

Words = np.ndarray[Any, np.dtype[np.uint64]]
Letters = np.ndarray[Any, np.dtype[np.uint8]]
Places = np.ndarray[Any, np.dtype[np.intp]]

_BLOCK = 1 << 20
"""Bytes that are looked at at a time, so that what is made of them stays in the processor's caches."""

_KEY_BITS, _CONTEXT_BITS = 20, 22
_MIX_NEAR = np.uint64(0xC2B2AE3D27D4EB4F)
_MIX_FAR = np.uint64(0x9E3779B97F4A7C15)
_PLACE = np.uint64(64 - _CONTEXT_BITS)
_TOLD_BY = np.uint64(12)
_SHORT, _LONG = 1, 2
_KIND = np.uint32(3)
_QUOTE, _COLON = 34, 58
_NUMBERS = (n for n, kind in (fields.EVENT | fields.ARGS).items() if kind in ("BIGINT", "DOUBLE"))
_NUMBER_KEY = re.compile(
    rb'"(?:%b)"\s*:\s*\Z' % "|".join(map(re.escape, _NUMBERS)).encode(), re.IGNORECASE
)
_BEFORE = 80
"""Bytes before a value in which its key stands."""
_BLANK, _BLANK_OR_BOOLEAN = (
    np.isin(np.arange(256), [*b" \t\r\n", *others]) for others in (b"", b"tf")
)


@dataclass(frozen=True, slots=True)
class Keys:
    """What the keys of a text tell.

    Args:
        new: whether it has a key that no text before it had.
        booleans: whether true or false stands for a number, which DuckDB would take it for.
    """

    new: bool
    booleans: bool


class KnownKeys:
    """Remembers the endings of keys by their hash; a new one is missed with a chance of 10⁻⁴ or less.

    Most keys are recognised by the bytes before the `":`, eight or sixteen of them, whatever they are: a file has some
    ten thousand such contexts at most. Only of a context that was not seen yet the key is looked at.
    """

    def __init__(self) -> None:
        self._known = np.zeros(1 << _KEY_BITS, dtype=bool)
        self._contexts = np.zeros(1 << _CONTEXT_BITS, dtype=np.uint32)
        """By hash: more bits of it, and whether the key begins within the eight bytes (`_SHORT`) or not."""

    def read(self, text: bytes) -> Keys:
        """What the keys of a text tell; from now on they are known.

        Args:
            text: JSON text, damaged or not.
        """
        letters = np.frombuffer(text, dtype=np.uint8)
        new, booleans = len(text) < 32, False
        for low in range(0, len(text), _BLOCK):
            colons = np.flatnonzero(letters[low : low + _BLOCK] == _COLON)
            colons += low
            before = letters[colons - 1]
            ends = colons[before == _QUOTE]
            booleans = (
                booleans
                or _may_have_booleans(letters, ends)
                or _may_have_booleans(letters, colons[_BLANK[before]])
            )
            new |= self._has_new(text, letters, ends[np.searchsorted(ends, 17) :])
        return Keys(new, booleans and _has_booleans(text))

    def _has_new(self, text: bytes, letters: Letters, ends: Places) -> bool:
        if len(letters) < 32 or not len(ends):
            return False
        words = np.lib.stride_tricks.as_strided(
            letters[: len(letters) // 8 * 8].view(np.uint64),
            shape=(len(letters) - 7,),
            strides=(1,),
        )
        near = words[ends - 9] * _MIX_NEAR
        kind, new = self._look_up(near, text, ends, 8)
        long = np.flatnonzero(kind == _LONG)
        far = (words[ends[long] - 17] * _MIX_FAR ^ near[long]) * _MIX_NEAR
        return self._look_up(far, text, ends[long], 16)[1] or new

    def _look_up(
        self, hashes: Words, text: bytes, ends: Places, width: int
    ) -> tuple[np.ndarray[Any, np.dtype[np.uint32]], bool]:
        """Whether the key of each context begins within it, and whether one that does is new.

        Args:
            hashes: of the contexts.
            ends: places of their colons.
            width: bytes that a context has.
        """
        place = (hashes >> _PLACE).view(np.int64)
        told_by = (hashes >> _TOLD_BY).astype(np.uint32) | _KIND
        kept = self._contexts.take(place)
        kind = kept & _KIND
        unseen = np.flatnonzero((kept | _KIND) != told_by)
        if not len(unseen):
            return kind, False
        _, first, which = np.unique(hashes[unseen], return_index=True, return_inverse=True)
        found, new = [], False
        for end in ends[unseen[first]].tolist():
            _, quote, key = text[end - 1 - width : end - 1].rpartition(b'"')
            short = bool(quote) or width > 8
            found.append(_SHORT if short else _LONG)
            known = zlib.crc32(key) >> (32 - _KEY_BITS)
            new |= short and not self._known[known]
            self._known[known] |= short
        kind[unseen] = np.array(found, dtype=np.uint32)[which]
        self._contexts[place[unseen]] = told_by[unseen] ^ _KIND ^ kind[unseen]
        return kind, new


def _may_have_booleans(letters: Letters, colons: Places) -> bool:
    """Whether a value behind some colons starts as true or false do, or behind more than one blank."""
    colons = colons[: np.searchsorted(colons, len(letters) - len("true"))]
    first = letters[colons + 1]
    second = np.where(_BLANK[first], letters[colons + 2], first)
    return bool(_BLANK_OR_BOOLEAN[second].any())


def _has_booleans(text: bytes) -> bool:
    """Whether true or false stands for a number: from the words, which are rare, back to their keys."""
    for word in (b"true", b"false"):
        at = text.find(word)
        while at >= 0:
            behind_key = text[at - 1 : at] in b": \n\t\r"
            if behind_key and _NUMBER_KEY.search(text, max(0, at - _BEFORE), at):
                return True
            at = text.find(word, at + 1)
    return False
