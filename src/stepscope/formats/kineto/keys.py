"""Finds undeclared keys in a text at the speed of memory.

DuckDB reads the keys that were declared and silently skips the rest. Asking it for every key of every event doubles the
time of an import, so the text itself is searched: each `":` ends a key, the sixteen bytes before it distinguish keys,
and a key whose bytes were seen before is known. New ones are handed to the caller, who finds out whether each is a key
or part of some text. The bytes after the colons also show whether the text can have true or false in place of a number.
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

_BLOCK = 1 << 20  # bytes that are searched at a time, so that intermediate arrays fit into the processor's caches
_CONTEXT = 17  # the first bytes of a text, in which no key is looked for: a context and the quote after it
_CONTEXT_BITS = 22
_MIX_NEAR = np.uint64(0xC2B2AE3D27D4EB4F)
_MIX_FAR = np.uint64(0x9E3779B97F4A7C15)
_PLACE = np.uint64(64 - _CONTEXT_BITS)
_TAG_SHIFT = np.uint64(12)
_SHORT, _LONG = 1, 2
_KIND = np.uint32(3)
_FILE_BITS = 8
_FILE = np.uint32(((1 << _FILE_BITS) - 1) << 2)
_MAX_KEYS = 1 << 16
_MAX_SAMPLES = 1 << 10  # if a text has more events with different keys than this, all of its events are looked at
_CACHED_SAMPLES = 8  # samples that are kept for later files: the ranks of a job have the same keys in the same order
_QUOTE, _COLON, _BACKSLASH, _OPENS, _CLOSES = b'":\\{}'
_DEPTHS = 4
"""Depths of objects that are distinguished, a power of two: an event's own keys, its arguments', and two more."""
_NUMBERS = (n for n, kind in (fields.EVENT | fields.ARGS).items() if kind in ("BIGINT", "DOUBLE"))
_NUMBER_KEY = re.compile(rb'"(?:%b)"\s*:\s*\Z' % "|".join(map(re.escape, _NUMBERS)).encode(), re.IGNORECASE)
_BETWEEN = b" \t\r\n,"
_BEFORE = 80  # bytes before a value that contain its key
_BLANK, _BLANK_OR_BOOLEAN, _BLANK_OR_QUOTE = (
    np.isin(np.arange(256), [*b" \t\r\n", *others]) for others in (b"", b"tf", b'"')
)
_SPACED = re.compile(rb'(?<!\\)"[ \t\r\n]+:')


@dataclass(frozen=True, slots=True)
class Keys:
    """What the keys of a text show.

    Args:
        new: whether it has a key that no earlier text had.
        booleans: whether true or false is in place of a number; DuckDB would read it as one.
        sample: for a text with new keys, one event of each sequence of keys, or all of the text.
        spaced: whether blanks may separate a key from its colon; `without_blanks` removes them.
    """

    new: bool
    booleans: bool
    sample: bytes = b""
    spaced: bool = False


class _Contexts:
    """The bytes before colons, and the key that each ends with, which is the same in every file.

    Attributes:
        tags: by hash: more of its bits, the number of the last file that had it, and whether the key begins within the
            eight bytes (`_SHORT`) or not.
        key: by hash: the key's number.
        names: the numbers of keys.
        files: how many files were read.
        samples: the samples that `_sample` made, by the numbers of a text's keys and which followed which.
    """

    def __init__(self) -> None:
        self.tags = np.zeros(1 << _CONTEXT_BITS, dtype=np.uint32)
        self.key = np.zeros(1 << _CONTEXT_BITS, dtype=np.uint16)
        self.names: dict[bytes, int] = {}
        self.files = 0
        self.samples: dict[tuple[bytes, bytes], bytes] = {}


_IDLE: list[_Contexts] = []  # contexts for the next file: each of many short files would learn some thousands of them


class KnownKeys:
    """Remembers the keys of a file; a new one is missed with a chance of 10⁻⁶ or less.

    Most keys are recognised by the eight or sixteen bytes before the `":`: a file has some ten thousand such contexts at
    most. The key itself is looked at only in a new context.
    """

    def __init__(self, boundary: re.Pattern[bytes]) -> None:
        try:
            self._contexts = _IDLE.pop()
        except IndexError:
            self._contexts = _Contexts()
        self._contexts.files += 1
        self._file = np.uint32(self._contexts.files << 2)
        self._boundary = boundary
        self._seen = np.zeros(_MAX_KEYS, dtype=bool)

    def close(self) -> None:
        """Leaves the contexts to the next file."""
        contexts = self._contexts
        if len(contexts.names) < _MAX_KEYS >> 4 and contexts.files < (1 << _FILE_BITS) - 1:
            _IDLE[:] = [contexts]

    def read(self, text: bytes) -> Keys:
        """Returns what the keys of a JSON text show, damaged or not; from now on they are known."""
        letters = np.frombuffer(text, dtype=np.uint8)
        new, booleans, spaced = len(text) < 32, False, False
        of_blocks = []
        for low in range(0, len(text), _BLOCK):
            colons = np.flatnonzero(letters[low : low + _BLOCK] == _COLON)
            colons += low
            before = letters[colons - 1]
            blank = colons[_BLANK[before]]
            spaced = spaced or bool(_BLANK_OR_QUOTE[letters[blank - 2]].any())
            ends = colons[before == _QUOTE]
            booleans = booleans or _may_have_booleans(letters, ends) or _may_have_booleans(letters, blank)
            of_blocks.append(ends[np.searchsorted(ends, _CONTEXT) :])
            new |= self._has_new(text, letters, of_blocks[-1])
        sample = self._sample(text, letters, np.concatenate(of_blocks)) if new and text else b""
        return Keys(new, booleans and _has_booleans(text), sample, spaced)

    def _has_new(self, text: bytes, letters: Letters, ends: Places) -> bool:
        if len(letters) < 32 or not len(ends):
            return False
        near = _words(letters)[ends - 9] * _MIX_NEAR
        kind, new = self._look_up(near, text, ends, 8)
        long = np.flatnonzero(kind == _LONG)
        far = (_words(letters)[ends[long] - 17] * _MIX_FAR ^ near[long]) * _MIX_NEAR
        return self._look_up(far, text, ends[long], 16)[1] or new

    def _look_up(
        self, hashes: Words, text: bytes, ends: Places, width: int
    ) -> tuple[np.ndarray[Any, np.dtype[np.uint32]], bool]:
        """Whether the key of each context of `width` bytes starts within it, and whether any of these keys is new."""
        contexts = self._contexts
        place, expected = self._entries(hashes)
        stored = contexts.tags.take(place)
        kind = stored & _KIND
        unseen = np.flatnonzero((stored | _KIND) != expected)
        if not len(unseen):
            return kind, False
        differ = (stored[unseen] ^ expected[unseen]) & ~(_KIND | _FILE)
        of_others = unseen[(differ == 0) & (kind[unseen] > 0)]
        new = self._know(contexts.key[place[of_others[kind[of_others] == _SHORT]]])
        contexts.tags[place[of_others]] = expected[of_others] ^ _KIND ^ kind[of_others]
        unseen = unseen[(differ != 0) | (kind[unseen] == 0)]
        _, first, which = np.unique(hashes[unseen], return_index=True, return_inverse=True)
        kinds_of_new, keys = [], []
        for end in ends[unseen[first]].tolist():
            _, quote, key = text[end - 1 - width : end - 1].rpartition(b'"')
            short = bool(quote) or width > 8
            kinds_of_new.append(_SHORT if short else _LONG)
            if short and len(contexts.names) < _MAX_KEYS - 1:
                keys.append(contexts.names.setdefault(key, len(contexts.names)))
            else:
                keys.append(contexts.names.get(key, _MAX_KEYS - 1) if short else 0)
        kinds, numbers = np.array(kinds_of_new, dtype=np.uint32), np.array(keys, dtype=np.uint16)
        new |= self._know(numbers[kinds == _SHORT])
        kind[unseen] = kinds[which]
        contexts.tags[place[unseen]] = expected[unseen] ^ _KIND ^ kind[unseen]
        contexts.key[place[unseen]] = numbers[which]
        return kind, new

    def _entries(
        self, hashes: Words
    ) -> tuple[np.ndarray[Any, np.dtype[np.int64]], np.ndarray[Any, np.dtype[np.uint32]]]:
        """Where contexts are kept, and the entries of this file's contexts there, without the kind."""
        bits = (hashes >> _TAG_SHIFT).astype(np.uint32) & ~_FILE
        return (hashes >> _PLACE).view(np.int64), bits | self._file | _KIND

    def _know(self, keys: np.ndarray[Any, np.dtype[np.uint16]]) -> bool:
        """Whether any of the keys is new; keys beyond the most always are."""
        new = not self._seen[keys].all()
        self._seen[keys] = True
        self._seen[-1] = False
        return new

    # -- events that have all keys -------------------------------------------------------------------

    def _sample(self, text: bytes, letters: Letters, ends: Places) -> bytes:
        """Events that show each key after every other one that it ever follows, at each depth of objects; all events
        if too many differ. A text with the keys and sequences of an earlier one gets that one's events.
        """
        if len(letters) < 32 or not len(ends):
            return text
        keys, unknown = self._keys(letters, ends)
        occurs = np.zeros(_MAX_KEYS, dtype=np.int64)
        occurs[keys] = 1
        number = np.cumsum(occurs) - 1
        if number[-1] >= _MAX_SAMPLES:
            return text
        numbers, depths = number[keys], _depths(letters)
        pairs = (np.append(0, numbers[:-1]) * _DEPTHS + depths) * (number[-1] + 1) + numbers
        first = np.full(int(pairs.max()) + 1, -1)
        first[pairs[::-1]] = np.arange(len(pairs) - 1, -1, -1)
        occurring, samples = np.flatnonzero(first >= 0), self._contexts.samples
        signature = np.flatnonzero(occurs).tobytes(), occurring.tobytes()
        if not len(unknown) and signature in samples:
            return samples[signature]
        chosen = np.unique(np.append(first[occurring], unknown))
        if len(chosen) > _MAX_SAMPLES:
            return text
        events: list[bytes] = []
        end = 0
        for place in ends[chosen].tolist():
            if place < end:
                continue
            start = self._event_start(text, end, place)
            follows = self._boundary.search(text, place)
            end = follows.start(1) if follows else len(text)
            events.append(text[start:end].strip(_BETWEEN))
        if len(samples) >= _CACHED_SAMPLES:
            samples.clear()
        samples[signature] = b",".join(events)
        return samples[signature]

    def _event_start(self, text: bytes, after: int, before: int) -> int:
        """Where the last event in a stretch of the text begins; the start of the stretch if none does."""
        for window in (1 << 12, 1 << 16, before - after):
            starts = self._boundary.finditer(text, max(after, before - window), before + 2)
            if places := [match.start(1) for match in starts]:
                return places[-1]
        return after

    def _keys(self, letters: Letters, ends: Places) -> tuple[np.ndarray[Any, np.dtype[np.uint16]], Places]:
        """The number of each key, and the first place of each context whose entry another context overwrote."""
        near = _words(letters)[ends - 9] * _MIX_NEAR
        keys = np.full(len(ends), _MAX_KEYS - 1, dtype=np.uint16)
        unknown = np.arange(len(ends))
        hashes = near
        for width in (8, 16):
            place, expected = self._entries(hashes)
            short = self._contexts.tags[place] == expected ^ _KIND ^ np.uint32(_SHORT)
            keys[unknown[short]] = self._contexts.key[place[short]]
            unknown = unknown[~short]
            if width == 8:
                hashes = (_words(letters)[ends[unknown] - 17] * _MIX_FAR ^ near[unknown]) * _MIX_NEAR
            else:
                hashes = hashes[~short]
        return keys, unknown[np.unique(hashes, return_index=True)[1]]


def without_blanks(text: bytes) -> bytes:
    """The text without blanks between a key and its colon."""
    return _SPACED.sub(b'":', text)


def _words(letters: Letters) -> Words:
    """The eight bytes from each byte on, as numbers."""
    return np.lib.stride_tricks.as_strided(
        letters[: len(letters) // 8 * 8].view(np.uint64), shape=(len(letters) - 7,), strides=(1,)
    )


def _depths(letters: Letters) -> Places:
    """How many objects are open, modulo `_DEPTHS`, at each `":` from the 17th byte on. Braces within strings do not
    count.
    """
    of_blocks = []
    within, depth = False, np.int8(0)
    for low in range(0, len(letters), _BLOCK):
        block = letters[low : low + _BLOCK]
        marks = np.flatnonzero((block == _QUOTE) | (block == _OPENS) | (block == _CLOSES)) + low
        if not len(marks):
            continue
        kind = letters[marks]
        quotes = kind == _QUOTE
        key_ends = quotes & (letters.take(marks + 1, mode="clip") == _COLON) & (marks >= _CONTEXT - 1)
        quotes &= (letters[marks - 1] != _BACKSLASH) | (letters[marks - 2] == _BACKSLASH)
        in_string = np.logical_xor.accumulate(quotes) ^ within
        opened = ((kind == _OPENS).astype(np.int8) - (kind == _CLOSES)) * ~in_string
        # A byte that overflows loses a multiple of `_DEPTHS`.
        depths = np.cumsum(opened, dtype=np.int8) + depth
        of_blocks.append(depths[key_ends] & (_DEPTHS - 1))
        within, depth = in_string[-1], depths[-1]
    return np.concatenate(of_blocks).astype(np.intp)


def _may_have_booleans(letters: Letters, colons: Places) -> bool:
    """Whether any value after the colons begins like true or false, or follows more than one blank."""
    colons = colons[: np.searchsorted(colons, len(letters) - len("true"))]
    first = letters[colons + 1]
    second = np.where(_BLANK[first], letters[colons + 2], first)
    return bool(_BLANK_OR_BOOLEAN[second].any())


def _has_booleans(text: bytes) -> bool:
    """Whether true or false is in place of a number: searches for the words, which are rare, then for their keys."""
    for word in (b"true", b"false"):
        at = text.find(word)
        while at >= 0:
            behind_key = text[at - 1 : at] in b": \n\t\r"
            if behind_key and _NUMBER_KEY.search(text, max(0, at - _BEFORE), at):
                return True
            at = text.find(word, at + 1)
    return False
