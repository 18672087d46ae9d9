"""Reads the events in a piece of a trace that is not valid JSON, and loses only what is damaged.

Events are parsed one after the other. Where parsing fails, the event is read again without strictness (`loose`). If
that fails too, it is given up and the next event is searched for. Nothing is invented: an event that could be read in
two ways is dropped and counted.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from stepscope.formats.kineto.loose import (
    LONGEST,
    Loose,
    NumberText,
    Refused,
    may_have_half_pair,
    not_measured,
    read_value,
)
from stepscope.formats.tables import ReadReport

RAW_NAME = "Name bytes"
"""Argument that separates events whose names differ only in bytes that are not UTF-8: a hash."""

_SPACE = " \t\r\n"
_BETWEEN = re.compile(r"[ \t\r\n\x00,]*")
_START = re.compile(r'\{[ \t\r\n]*"(?:ph|name|cat|args|pid|tid|ts|dur|id|bp|s|tts|tdur|cname|scope|id2)"[ \t\r\n]*:')
_EMPTY_OBJECTS = re.compile(
    r"(?P<bare>(?:\{[ \t\r\n]*\}[ \t\r\n\x00]*){2,4096})"
    r"|(?P<listed>(?:\{[ \t\r\n]*\}[ \t\r\n\x00]*,[ \t\r\n\x00]*){2,4096})"
)
_NEAR_BRACE = re.compile(r"[^{}\[\]]{0,4}\{")
_PHASE = '"ph"'
_ARRAY_END = re.compile(r'\}[ \t\r\n,]*(\])[ \t\r\n\x00]*(?:,[ \t\r\n]*"[^"\\]{0,100}"[ \t\r\n]*:|\}|\Z)')
_SECOND_HEADER = re.compile(r'"(?:traceEvents|schemaVersion|deviceProperties)"[ \t\r\n]*:')
_END = re.compile(r'\][ \t\r\n\x00]*(?:(\})[ \t\r\n\x00]*|,[ \t\r\n]*"[^"\\]{0,100}"[ \t\r\n]*:|\Z)')
_BRACKETS = re.compile(r"(?:\][ \t\r\n]*)+(?=\])")
_IDENTITY = frozenset(("name", "ts", "dur", "pid", "tid", "cat"))
_WINDOW = 1 << 15


@dataclass(slots=True)
class Mended(ReadReport):
    """What became of the events in damaged pieces of text.

    Attributes:
        end: byte of the file after the `]` that ends the trace's events, if it was found; whatever
            follows, in this piece or the next, is not the trace's.
    """

    end: int | None = None


def mend(chunk: bytes, offset: int, mended: Mended, *, last: bool) -> Iterator[dict[str, Any]]:
    """Reads the events in a piece of a `traceEvents` array in any state; never raises.

    Yields intact and repaired events in order. Numbers with decimals or exponents are `NumberText`;
    NaN and infinity are None.

    Args:
        chunk: events with commas between them, without the brackets around them. May begin or end
            with commas, contain the array's end and more after it, or break off.
        offset: byte of the uncompressed file at which the chunk begins.
        mended: counts repairs and losses, up to the last event that was yielded.
        last: the file ends with this chunk.

    Example:
        >>> mended = Mended()
        >>> list(mend(b'{"ph": "X", "ts": 1.25}, {"ph": "X", "na', 100, mended, last=True))
        [{'ph': 'X', 'ts': '1.25'}]
        >>> mended.dropped, mended.truncated, mended.damage, mended.damage_offset
        (1, True, {'truncated': 1}, 125)
    """
    return _Mender(chunk, offset, mended, last=last).run()


class _Members:
    """Turns members into dicts, and records which keys of the last object appeared twice: with different values, or
    `ph`, with which an event starts.

    A repeated key keeps its last value, as with other JSON readers.
    """

    def __init__(self) -> None:
        self.twice: set[str] = set()
        self.any = False

    def __call__(self, members: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(members)
        self.twice = set()
        if len(made) == len(members):
            return made
        self.any = True
        first: dict[str, Any] = {}
        for key, value in members:
            if key in first and (key == "ph" or first[key] != value):
                self.twice.add(key)
            first.setdefault(key, value)
        return made


class _Mender:
    def __init__(self, chunk: bytes, offset: int, mended: Mended, *, last: bool) -> None:
        self._chunk = chunk
        self._text = chunk.decode("latin-1")
        self._ascii = chunk.isascii()
        self._offset = offset
        self._last = last
        self._mended = mended
        self._events: list[dict[str, Any]] = []
        self._window = ""
        self._window_start = 0
        self._members = _Members()
        self._strict = json.JSONDecoder(
            object_pairs_hook=self._members, parse_float=NumberText, parse_constant=not_measured
        )
        self._lenient = json.JSONDecoder(strict=False)
        self._expected = True  # after a comma, or where none is needed
        self._starts = _START.finditer(self._text)
        self._next_start = -1
        # Parsing that fails far beyond its start is wasted. Once too much was wasted, every event is parsed
        # only up to where the next one seems to begin, which keeps the total linear.
        self._patience = 8 * len(chunk) + (1 << 20)

    def run(self) -> Iterator[dict[str, Any]]:
        text = self._text
        index = 0
        while True:
            found = _BETWEEN.match(text, index)
            gap = found.group() if found else ""
            commas = gap.count(",")
            if commas > 1 and index:
                self._note("trailing_comma", index)
            self._expected |= commas > 0
            index += len(gap)
            if index >= len(text):
                break
            if text[index] == "{":
                if not self._expected:
                    self._note("missing_comma", index)
                self._expected = False
                index = self._empty_events(index) or self._event(index)
                if self._events:
                    yield from self._events
                    self._events.clear()
            elif text[index] == "]":
                index = self._array_end(index)
                self._expected = True
            else:
                index = self._garbage(index)
                self._expected = True

    # -- one event ---------------------------------------------------------------------------------

    def _empty_events(self, index: int) -> int:
        """Skips many empty objects at once; returns 0 if there are none at `index`."""
        found = _EMPTY_OBJECTS.match(self._text, index)
        if found is None:
            return 0
        count = self._text.count("{", index, found.end())
        self._note("empty_event", index, count)
        if found.lastgroup == "bare":
            self._note("missing_comma", index, count - 1)
        self._expected = found.lastgroup != "bare"
        return found.end()

    def _event(self, index: int) -> int:
        """Reads the event at `index`; returns where to continue."""
        parsed = self._parse(index)
        if parsed is None:
            return self._damaged(index, self._start_after(index))
        value, end = parsed
        if value is None:
            return self._damaged(index, end)
        damage = [("duplicate_key", index)] if self._members.any else []
        self._take(value, index, damage, self._members.twice)
        return end

    def _parse(self, index: int) -> tuple[dict[str, Any] | None, int] | None:
        """The valid object at `index` and where it ends.

        The object is None if only characters in its strings are wrong; the entire result is None if
        there is no object.
        """
        self._members.any = False
        found = self._decode(self._strict, index)
        if found is None:
            return None
        value, end = found
        raw = self._chunk[index:end]
        if value is None:
            return None, end
        if may_have_half_pair(raw):
            return None, end
        if not self._ascii and not raw.isascii():
            try:
                value = self._strict.decode(raw.decode())
            except ValueError:
                return None, end
        return value, end

    def _decode(self, decoder: json.JSONDecoder, index: int) -> tuple[dict[str, Any] | None, int] | None:
        """What `_parse` returns, without regard to the encoding of strings."""
        while True:
            window = self._window_at(index)
            at = index - self._window_start
            try:
                value, end = decoder.raw_decode(window, at)
            except json.JSONDecodeError as error:
                self._patience -= error.pos - at + 64
                if error.msg.startswith("Invalid control character"):
                    found = self._decode(self._lenient, index)
                    return (None, found[1]) if found else None
                cut_off = error.msg.startswith("Unterminated") or error.pos > len(window) - 16
                if not cut_off or not self._widen(index):
                    return None
            except (ValueError, RecursionError):
                self._patience -= 1 << 16
                return None
            else:
                return value, end + self._window_start

    def _window_at(self, index: int) -> str:
        """Text around `index` to parse in: `json` counts lines up to each error that it reports."""
        if self._patience <= 0:
            self._window_start = index
            self._window = self._text[index : self._start_after(index)]
        elif not 0 <= index - self._window_start < len(self._window) - _WINDOW // 2:
            self._window_start = index
            self._window = self._text[index : index + _WINDOW]
        return self._window

    def _widen(self, index: int) -> bool:
        """Doubles the window from `index` on; false if there is no more text, or no more patience."""
        length = len(self._window) - (index - self._window_start)
        if self._patience <= 0 or index + length >= len(self._text):
            return False
        self._patience -= length
        self._window_start = index
        self._window = self._text[index : index + max(_WINDOW, 2 * length)]
        return True

    def _damaged(self, index: int, stop: int) -> int:
        """Repairs or gives up the event at `index`; returns where to continue."""
        if stop - index > LONGEST:
            return self._give_up(index, stop, "unreadable", index)
        try:
            read = read_value(self._text, index, stop)
        except Refused as refusal:
            return self._give_up(index, stop, refusal.why, refusal.index)
        if not self._plausible(read, stop):
            return self._give_up(index, stop, "torn_event", index)
        if read.raw_name is not None:
            _keep_name_apart(read.value, read.raw_name)
        self._take(read.value, index, read.damage, read.twice)
        return read.end

    def _plausible(self, read: Loose, stop: int) -> bool:
        """Whether the repaired text is one event and not the halves of two."""
        rest = self._text[read.end : stop].lstrip(_SPACE)[:1]
        return rest in ("", ",", "]", "{", "}", "\x00")

    def _take(
        self, value: dict[str, Any], index: int, damage: Sequence[tuple[str, int]] = (), twice: Iterable[str] = ()
    ) -> None:
        """Counts what was parsed at `index`, as an event if it is one."""
        mended = self._mended
        if not value:
            self._note("empty_event", index)
        elif "ph" in twice and not _IDENTITY.isdisjoint(twice):
            # Another event starts within this one.
            self._note("torn_event", index)
            mended.dropped += 1
        elif isinstance(value.get("ph"), str):
            self._events.append(value)
            mended.repaired += bool(damage)
            for kind, at in damage:
                self._note(kind, at)
        elif isinstance(value.get("traceEvents"), list):
            self._note("interleaved", index)
            self._take_all(value["traceEvents"], index)
        else:
            self._note("no_phase" if "ph" not in value else "wrong_type", index)
            mended.dropped += 1

    def _take_all(self, values: Iterable[Any], index: int) -> None:
        for value in values:
            if isinstance(value, dict):
                self._take(value, index)
            else:
                self._note("wrong_type", index)

    def _give_up(self, index: int, stop: int, damage: str, at: int) -> int:
        """Counts what is between `index` and `stop` as lost; returns where to continue."""
        text, mended = self._text, self._mended
        at_end = stop >= len(text)
        end = _ARRAY_END.search(text, index, stop) if at_end else None
        if end:
            stop = end.start(1)
        if at_end and not end and self._last and (damage == "truncated" or self._breaks_off()):
            damage, at = "truncated", index
            mended.truncated = True
        elif damage == "truncated":
            damage = "torn_event"
        if _SECOND_HEADER.search(text, index, stop):
            damage = "interleaved"
        self._note(damage, at)
        mended.dropped += max(1, text.count(_PHASE, index, stop))
        self._expected = True
        return stop

    def _breaks_off(self) -> bool:
        """Whether the text ends without an event's closing brace."""
        return not self._text[-1024:].rstrip(_SPACE + "\x00").endswith("}")

    # -- between events ----------------------------------------------------------------------------

    def _array_end(self, index: int) -> int:
        """Passes a `]` at the level of the events.

        If the trace's end follows, everything after it is ignored: the rest of a longer file that this one
        overwrote, or another writer's trace. Otherwise it is a stray byte.
        """
        text, mended = self._text, self._mended
        found = _END.match(text, index)
        if found is None or (found.end() == len(text) and not found.group(1) and not self._last):
            self._note("unreadable", index)
            run = _BRACKETS.match(text, index)
            return run.end() if run else index + 1
        mended.end = self._offset + index + 1
        others = text.count(_PHASE, found.end())
        if others:
            self._note("interleaved", found.end())
            mended.dropped += others
        elif found.group(1) and found.end() < len(text):
            self._note("extra_data", found.end())
        return len(text)

    def _garbage(self, index: int) -> int:
        text, mended = self._text, self._mended
        near = _NEAR_BRACE.match(text, index)
        if near:
            # A byte or two between events in place of a comma: an event follows.
            self._note("unreadable", index)
            return near.end() - 1
        stop = self._start_after(index)
        end = _ARRAY_END.search(text, index, stop) if stop >= len(text) else None
        if end:
            stop = end.start(1)
        header = _SECOND_HEADER.search(text, index, stop)
        self._note("interleaved" if header else "unreadable", index)
        mended.dropped += text.count(_PHASE, index, stop)
        return stop

    def _start_after(self, index: int) -> int:
        """Index of the next `{` after `index` that seems to begin an event, or the text's length."""
        while self._next_start <= index:
            found = next(self._starts, None)
            if found is None:
                self._next_start = len(self._text)
                break
            if self._begins_event(found.start()):
                self._next_start = found.start()
        return self._next_start

    def _begins_event(self, index: int) -> bool:
        """Whether the object at `index` is an event, and no value inside one."""
        before = self._text[max(0, index - 64) : index]
        bare = before.rstrip(_SPACE)
        mark = bare[-1:]
        if mark in ("", ",", "}"):
            return True
        if mark == "[":
            return bare[:-1].rstrip(_SPACE).endswith('"traceEvents":')
        if mark == ":":
            return False
        return "\n" in before[len(bare) :] or self._text.startswith('{"ph"', index)

    def _note(self, damage: str, index: int, count: int = 1) -> None:
        self._mended.note(damage, self._offset + index, count)


def _keep_name_apart(event: dict[str, Any], raw: bytes) -> None:
    args = event.setdefault("args", {})
    if isinstance(args, dict):
        args[RAW_NAME] = hashlib.blake2b(raw, digest_size=8).hexdigest()
