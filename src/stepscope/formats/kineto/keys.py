"""Notices keys in a text that nobody declared, at the speed of memory.

DuckDB reads the keys it was told of and passes over the rest in silence. Asking it for every key of
every event doubles the time of an import, so the text itself is searched: each `":` ends a key, the
sixteen bytes before it tell one key from another, and a key whose bytes were seen before is known.
What is new is handed to the caller, who finds out whether it is a key or part of some text. What stands
behind the colons tells in passing whether the text can have true or false where a number belongs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepscope.formats.kineto import fields

Words = np.ndarray[Any, np.dtype[np.uint64]]
Letters = np.ndarray[Any, np.dtype[np.uint8]]
Places = np.ndarray[Any, np.dtype[np.intp]]

_TABLE_BITS = 20
_MIX_LOW = np.uint64(0x9E3779B97F4A7C15)
_MIX_HIGH = np.uint64(0xC2B2AE3D27D4EB4F)
_QUOTE, _COLON = 34, 58
_QUOTES = np.uint64(0x0101010101010101 * _QUOTE)
_TOPS = np.uint64(0x8080808080808080)
_SEVENS = np.uint64(0x7F7F7F7F7F7F7F7F)
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
    """Remembers the endings of keys by their hash; a new one is missed with a chance of 10⁻⁴ or less."""

    def __init__(self) -> None:
        self._known = np.zeros(1 << _TABLE_BITS, dtype=bool)

    def read(self, text: bytes) -> Keys:
        """What the keys of a text tell; from now on they are known.

        Args:
            text: JSON text, damaged or not.
        """
        letters = np.frombuffer(text, dtype=np.uint8)
        colons = np.flatnonzero(letters == _COLON)
        before = letters[colons - 1]
        ends = colons[before == _QUOTE]
        values = np.append(ends, colons[_BLANK[before]])
        booleans = _may_have_booleans(letters, values) and _has_booleans(text)
        return Keys(self._has_new(letters, ends), booleans)

    def _has_new(self, letters: Letters, ends: Places) -> bool:
        if len(letters) < 32:
            return True
        ends = ends[np.searchsorted(ends, 17) :]
        if len(ends) == 0:
            return False
        hashes = _hashes(letters, ends - 17)
        new = ~self._known[hashes]
        if not new.any():
            return False
        self._known[hashes[new]] = True
        return True


def _may_have_booleans(letters: Letters, colons: Places) -> bool:
    """Whether a value starts as true or false do, or behind more than one blank."""
    colons = colons[colons < len(letters) - len("true")]
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


def _hashes(letters: Letters, at: Places) -> Words:
    """A hash of the sixteen bytes from each index on, of which only those after a last quote count."""
    words = np.lib.stride_tricks.as_strided(
        letters[: len(letters) // 8 * 8].view(np.uint64), shape=(len(letters) - 7,), strides=(1,)
    )
    high = words[at + 8]
    before = _up_to_last_quote(high)
    mixed = (high & ~before) * _MIX_HIGH
    # Short keys begin in the second eight bytes: the first eight are not theirs.
    long = np.flatnonzero(before == 0)
    low = words[at[long]]
    mixed[long] ^= (low & ~_up_to_last_quote(low)) * _MIX_LOW
    mixed ^= mixed >> np.uint64(29)
    hashes: Words = (mixed * _MIX_LOW) >> np.uint64(64 - _TABLE_BITS)
    return hashes


def _up_to_last_quote(word: Words) -> Words:
    """All bits of the bytes up to and with the last quote of each little-endian word; 0 when it has none."""
    other = word ^ _QUOTES
    # The exact test for a zero byte: the top bit of each byte that is a quote.
    found = ~(((other & _SEVENS) + _SEVENS) | other) & _TOPS
    found |= found >> np.uint64(8)
    found |= found >> np.uint64(16)
    found |= found >> np.uint64(32)
    bytes_before: Words = (found >> np.uint64(7)) * np.uint64(0xFF)
    return bytes_before
