"""Cuts a trace's text into slices of complete events without reading all of it at once.

A slice ends between two events: at `}, {"ph"` (or whatever key this file's events begin with). That is a guess, but a
cheap one that holds for every known writer; a slice for which it does not hold fails to parse and is repaired.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from stepscope.formats.container import BLANK, BOM

SLICE_BYTES = 8 << 20
MAX_EVENT_BYTES = 32 << 20  # text without a boundary is cut here: no event is that long, so it is damage
MAX_HEAD_BYTES = 128 << 20  # a file whose events have not started by then has none
MAX_BLANK_BYTES = 256 << 20  # so many zeros or spaces in a row are the unwritten rest of a sparse file
_STRADDLING = 1 << 10  # bytes of searched text that are searched again together with the following ones
_ARRAY_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
_EVENT_START = re.compile(rb'\{\s*"ph"\s*:')
_FIRST_KEY = re.compile(rb'[\s,]*\{\s*"([^"\\\x00-\x1f]{1,64})"\s*:')
_BETWEEN = re.compile(r"[ \t\r\n,]*")
_TAIL_GUESS = re.compile(rb'\}[\s,]*(\])\s*(?:,\s*"[^"\\]+"\s*:|\}\s*\Z)')


class Readable(Protocol):
    """A binary stream."""

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes; empty at the end."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Text of complete events and the byte of the uncompressed file at which it starts.

    Args:
        last: whether the file ends with it.
        new_keys: if it has keys that no earlier slice had, events that have all of its keys, or all events.
        booleans: whether true or false is in place of a number.
        end: where its last event starts, which is read apart if the text cannot be read; 0 if unknown.
    """

    text: bytes
    offset: int
    last: bool = False
    new_keys: bytes = b""
    booleans: bool = False
    end: int = 0


class EventSlices:
    """Iterates over the slices of a trace; has its head from the start and its tail after the last slice.

    Attributes:
        head, tail: bytes before and after the events' array.
        tail_offset: byte of the file at which the tail starts.
        has_events: whether there is anything that looks like an array of events.
        size: bytes of uncompressed text read so far.
        closed: whether the events' array ends.
        boundary: matches the place between two events; its first group starts the second.
    """

    def __init__(self, stream: Readable, slice_bytes: int = SLICE_BYTES) -> None:
        self._stream = stream
        self._slice_bytes = slice_bytes
        self._unread = b""
        self._unread_offset = 0
        self.head = b""
        self.tail = b""
        self.tail_offset = 0
        self.size = 0
        self.closed = False
        self.has_events = self._find_events()
        self.boundary = self._boundary_pattern()

    def _read(self) -> bytes:
        text = self._stream.read(self._slice_bytes)
        self.size += len(text)
        return text

    def _find_events(self) -> bool:
        """Reads up to the first event; leaves the text from there in `_unread`."""
        text = more = self._read()
        while more and not text.removeprefix(BOM).strip(BLANK):
            text = more = self._read()
        offset, searched = self.size - len(text), 0
        if text.removeprefix(BOM).lstrip(BLANK).startswith(b"["):
            cut = text.index(b"[") + 1
            self.head, self._unread, self._unread_offset = text[:cut], text[cut:], offset + cut
            return True
        while True:
            match = _ARRAY_KEY.search(text, max(0, searched - _STRADDLING))
            if match:
                cut = match.end()
                break
            if not more or len(text) > MAX_HEAD_BYTES:
                # The key itself may be damaged: take the first thing that looks like an event.
                event = _EVENT_START.search(text)
                if event is None:
                    self.head = text
                    return False
                cut = event.start()
                break
            searched = len(text)
            more = self._read()
            text += more
        self.head, self._unread, self._unread_offset = text[:cut], text[cut:], offset + cut
        return True

    def _boundary_pattern(self) -> re.Pattern[bytes]:
        first = _FIRST_KEY.match(self._unread)
        keys = {b"ph"} | ({re.escape(first.group(1))} if first else set())
        return re.compile(rb'\}\s*,\s*(\{\s*"(?:' + b"|".join(sorted(keys)) + rb')"\s*:)')

    def _last_boundary(self, text: bytes, searched: int = 0) -> int:
        """Index of the last event that begins after the searched text, or 0."""
        unsearched = len(text) - max(0, searched - _STRADDLING)
        for window in (1 << 16, 1 << 20, unsearched):
            last = 0
            for match in self.boundary.finditer(text, len(text) - min(window, unsearched)):
                last = match.start(1)
            if last or window >= unsearched:
                return last
        return 0

    def __iter__(self) -> Iterator[Slice]:
        """Yields the slices in order. The last one may have damage up to the file's end."""
        text, offset, searched = self._unread, self._unread_offset, 0
        self._unread, blank = b"", 0
        while blank < MAX_BLANK_BYTES:
            cut = 0
            if len(text) >= self._slice_bytes:
                cut, searched = self._last_boundary(text, searched), len(text)
            if cut:
                blank = 0
                yield Slice(text[:cut], offset)
            elif len(text) > MAX_EVENT_BYTES:
                cut = MAX_EVENT_BYTES
                if text[:cut].strip(BLANK):
                    yield Slice(text[:cut], offset)
                else:
                    blank += cut
            if cut:
                text, offset, searched = text[cut:], offset + cut, 0
            more = self._read()
            if not more:
                break
            if len(text) < self._slice_bytes <= len(text) + len(more) and (cut := self._last_boundary(more)):
                # The usual case, without copying all that was read.
                piece = b"".join((text, memoryview(more)[:cut]))
                text, offset, blank = more[cut:], offset + len(piece), 0
                yield Slice(piece, offset - len(piece))
            else:
                text += more
        cut = self._last_boundary(text)
        end, intact = self._split_tail(text[cut:])
        self.tail_offset = offset + len(text) - len(self.tail)
        if cut and not intact:
            # Damage at the end must not cost the events before it.
            yield Slice(text[:cut], offset)
            text, offset, cut = text[cut:], offset + cut, 0
        text = text[: cut + end]
        if cut or text.strip(b" \t\r\n,\x00"):
            yield Slice(text, offset, last=True, end=cut)

    def _split_tail(self, text: bytes) -> tuple[int, bool]:
        """Where the events in the last piece of text end, and whether they can be read; sets `tail` and `closed`."""
        decoded = text.decode("utf-8", "surrogateescape")
        decoder = json.JSONDecoder(strict=False)
        index = 0
        while True:
            between = _BETWEEN.match(decoded, index)
            index = between.end() if between else index
            if decoded.startswith("]", index):
                end = len(decoded[:index].encode("utf-8", "surrogateescape"))
                self.tail, self.closed = text[end + 1 :], True
                return end, True
            if not decoded.startswith("{", index):
                break
            try:
                _, index = decoder.raw_decode(decoded, index)
            except (ValueError, RecursionError):
                break
        guess = _TAIL_GUESS.search(text)
        if guess:
            self.tail, self.closed = text[guess.end(1) :], True
            return guess.start(1), False
        return len(text), False


def split_at_event(piece: Slice, boundary: re.Pattern[bytes]) -> tuple[Slice, Slice] | None:
    """Halves a slice that could not be read near its middle, where an event seems to start; None if none does."""
    text = piece.text
    if piece.end:
        return _halves(piece, piece.end)
    middle = len(text) // 2
    match = boundary.search(text, middle)
    if match is None or match.start(1) >= len(text) - 2:
        match = next(iter([*boundary.finditer(text, 0, middle)][-1:]), None)
    return None if match is None else _halves(piece, match.start(1))


def _halves(piece: Slice, cut: int) -> tuple[Slice, Slice]:
    return (Slice(piece.text[:cut], piece.offset), Slice(piece.text[cut:], piece.offset + cut, piece.last))
