"""Reads the events in a piece of a trace that is not valid JSON, and loses only what is damaged.

A state machine walks over the text: between events it skips commas and stray bytes; at a `{` it reads an event; after an
event that cannot be read it searches for the next one. An event is read twice at most: first quotes and commas must be
where JSON has them; then the event ends where the next one seems to start, and unescaped quotes, missing commas, missing
opening quotes of keys and wrong escapes are repaired. Numbers and keys are never guessed: an event that could be read in
two ways is dropped and counted. `inf` and `nan`, and a comma after the last member, do not count as damage.

Text is Latin-1, one character per byte, so that positions are byte positions; strings are decoded as UTF-8. Every input
takes linear time and bounded depth: patterns look ahead by one key, open containers are in a list instead of on the call
stack, and an object that is open where a reading stops is not read to its end again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from stepscope.formats.tables import ReadReport

MAX_DEPTH = 500  # depth of nested containers; real traces have about five
MAX_DAMAGED_BYTES = 4 << 20  # bytes of a damaged event that are tried: call stacks of a megabyte exist; more is damage
MAX_DIGITS = 4300  # digits of an integer that Python converts
RAW_NAME = "Name bytes"  # argument that separates events whose names differ only in bytes that are not UTF-8: a hash
_SPACE = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"', re.DOTALL)
_KEY = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"[ \t\r\n]*:', re.DOTALL)
_KEY_WITHOUT_QUOTE = re.compile(r'([A-Za-z_][A-Za-z0-9_ ]{0,63})"[ \t\r\n]*:')
_PLAIN_MEMBER = re.compile(
    r'"([^"\\\x00-\x1f\x80-\xff]{1,80})"[ \t\r\n]*:[ \t\r\n]*'
    r'(?:(-?(?:0|[1-9][0-9]{0,40}))(\.[0-9]{1,40})?|"([^"\\\x00-\x1f\x80-\xff]*)")'
    r'[ \t\r\n]*,[ \t\r\n]*(?="[A-Za-z_])'
)
_NUMBER = re.compile(r"(-?(?:0|[1-9][0-9]*))((?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)(?![\w.+-])")
_LITERAL = re.compile(r"(?:true|false|null)(?![\w.])")
_NO_NUMBER = re.compile(r"[+-]?(?:inf(?:inity)?|nan|(n/a))(?![\w./])", re.IGNORECASE)
_CUT_OFF = re.compile(r"[\w.+/-]{0,8}\Z")
_QUOTE_OR_BACKSLASH = re.compile(r'["\\]')
_CONTROL = re.compile(r"[\x00-\x1f]")
_ESCAPE = re.compile(r'\\(?:(["\\/bfnrt])|u([0-9a-fA-F]{4}))?')
_SURROGATE = re.compile("[\ud800-\udfff]")
_LITERALS = {"true": True, "false": False, "null": None}
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}

# What must follow a quote for it to end a string instead of being part of it.
_KEY_AHEAD = r'"(?:[^"\\]|\\.){0,100}"[ \t\r\n]*:'
_KEYS_AHEAD = rf'(?:{_KEY_AHEAD}|[A-Za-z_][A-Za-z0-9_ ]{{0,63}}"[ \t\r\n]*:)'
_ENDS_IN_OBJECT = re.compile(
    rf"[ \t\r\n]*(?:,[ \t\r\n,]*(?:{_KEYS_AHEAD}|\}})"
    rf"|\}}[ \t\r\n]*(?:[\]}}]|\Z|,[ \t\r\n]*(?:{_KEYS_AHEAD}|[{{\]}}]|\Z)|\{{))"
)
_ENDS_WITHOUT_COMMA = re.compile(rf"[ \t\r\n]*{_KEY_AHEAD}")
_ENDS_IN_LIST = re.compile(r'[ \t\r\n]*(?:\][ \t\r\n]*(?:[,\]}]|\Z)|,[ \t\r\n]*["\[{\]0-9tfnN-])')
_SWALLOWED_KEY = re.compile(r'"(?:ph|cat|name|pid|tid|ts|dur|args)"[ \t\r\n]*:')

_BETWEEN = re.compile(r"[ \t\r\n\x00,]*")
_START = re.compile(r'\{[ \t\r\n]*"(?:ph|name|cat|args|pid|tid|ts|dur|id|bp|s|tts|tdur|cname|scope|id2)"[ \t\r\n]*:')
_NEAR_BRACE = re.compile(r"[^{}\[\]]{0,4}\{")
_PHASE = '"ph"'
_ARRAY_END = re.compile(r'\}[ \t\r\n,]*(\])[ \t\r\n\x00]*(?:,[ \t\r\n]*"[^"\\]{0,100}"[ \t\r\n]*:|\}|\Z)')
_SECOND_HEADER = re.compile(r'"(?:traceEvents|schemaVersion|deviceProperties)"[ \t\r\n]*:')
_END = re.compile(r'\][ \t\r\n\x00]*(?:(\})[ \t\r\n\x00]*|,[ \t\r\n]*"[^"\\]{0,100}"[ \t\r\n]*:|\Z)')
_EVENT_ENDS = re.compile(r"[ \t\r\n]*(?:[,\]{}\x00]|\Z)")
"""What is behind one event, and not behind the half of another."""
_COMPLETE = re.compile(r"\}[ \t\r\n\x00]*\Z")
_HOLE = "\0\0"
"""Zeros of a block that was never written. One zero may be a flipped byte."""
_BRACKETS = re.compile(r"(?:\][ \t\r\n]*)+(?=\])")
_IDENTITY = frozenset(("name", "ts", "dur", "pid", "tid", "cat"))


class NumberText(str):
    """The digits of a number that is not an integer, as in the file: a float would lose some."""

    __slots__ = ()


class UnreadableError(Exception):
    """A value cannot be read without guessing: `reason` is a class of damage, `truncated` if the text ends in it."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(reason)
        self.index = index
        self.reason = reason


def unescaped(raw: str) -> tuple[str, bool]:
    """A string's text with its escapes resolved, and whether one of them was wrong.

    A wrong escape stands for itself. If a string has one, and nothing proves that its writer escaped anything, no
    backslash in it is an escape: `C:\\Users\\new` has no line break.
    """
    wrong = proven = False
    for match in _ESCAPE.finditer(raw):
        if match.group(1) is None and match.group(2) is None:
            wrong = True
        elif match.group(1) in ("\\", '"', "/"):
            proven = True
    if wrong and not proven:
        return raw, True
    text = _ESCAPE.sub(_resolve, raw)
    if _SURROGATE.search(text):
        paired = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return paired, wrong or "\ufffd" in paired
    return text, wrong


def _resolve(match: re.Match[str]) -> str:
    if match.group(1) is not None:
        return _ESCAPED.get(match.group(1), match.group(1))
    if match.group(2) is not None:
        return chr(int(match.group(2), 16))
    return "\\"


class ValueReader:
    """Reads values that are almost JSON.

    Args:
        text: bytes decoded as Latin-1.
        decimal: makes a value of the digits of a number that is not an integer.

    Attributes:
        damage: class of damage and index, in order, in the last value read.
        repeated: keys that the object itself has twice with different values, and `ph` if it appears twice.
        raw_name: bytes of the last member `name` that are not UTF-8.
        open: for each container that is open where reading stopped, what it is in, its key there and its start.

    Example:
        >>> reader = ValueReader('{"ph": "X", "name": "C:\\\\Users", "bandwidth": inf, }')
        >>> reader.read(0)
        ({'ph': 'X', 'name': 'C:\\\\Users', 'bandwidth': None}, 54)
        >>> reader.damage
        [('invalid_escape', 20)]
    """

    def __init__(self, text: str, decimal: Callable[[str], Any] = NumberText) -> None:
        self.text = text
        self.decimal = decimal
        self._start()

    def _start(self) -> None:
        """Forgets the value before."""
        self.damage: list[tuple[str, int]] = []
        self.repeated: set[str] = set()
        self.raw_name: bytes | None = None
        self.open: list[tuple[Any, str, int]] = []
        self._doubtful: set[int] = set()

    def read(self, start: int, stop: int | None = None, *, guess: bool = True) -> tuple[Any, int]:
        """The value from `start` up to `stop` or the text's end, and the index after it; `UnreadableError` if there is
        doubt. Only if `guess`, quotes, commas and escapes are repaired.
        """
        text = self.text
        self._stop = len(text) if stop is None else stop
        if guess:
            self._stop = min(self._stop, start + MAX_DAMAGED_BYTES)
        self._guess = guess
        self._start()
        holder: Any = None
        key, comma, index = "", True, self._after_space(start)
        while True:
            mark = text[index]
            if mark in "{[":
                if len(self.open) >= MAX_DEPTH:
                    raise UnreadableError(index, "too_deep")
                self.open.append((holder, key, index))
                holder = {} if mark == "{" else []
                index += 1
                comma = True
            else:
                value, index = self._scalar(holder, key, index)
                if holder is None:
                    return value, index
                self._add(holder, key, value)
                comma = False
            while True:  # up to the next value
                index = self._after_space(index)
                mark = text[index]
                if mark == ",":
                    if comma:
                        self._repair("trailing_comma", index)
                    comma = True
                elif mark == ("}" if isinstance(holder, dict) else "]"):
                    if comma and holder and not guess:
                        raise UnreadableError(index, "trailing_comma")
                    value, doubtful = holder, len(self.open) in self._doubtful
                    self._doubtful.discard(len(self.open))
                    holder, key, _ = self.open.pop()
                    # A list with an extra quote may have an item too many or too few.
                    value = None if doubtful else value
                    if holder is None:
                        return value, index + 1
                    self._add(holder, key, value)
                    comma = False
                else:
                    break
                index += 1
            if isinstance(holder, dict):
                if comma:
                    index = self._plain_members(holder, index)
                key, index = self._key(index, comma=comma)
            elif not comma:
                raise UnreadableError(index, "missing_comma")

    def _repair(self, damage: str, index: int) -> None:
        """Notes a mistake of which a guess is made."""
        if not self._guess:
            raise UnreadableError(index, damage)
        self.damage.append((damage, index))

    def _after_space(self, index: int) -> int:
        match = _SPACE.match(self.text, index, self._stop)
        index = match.end() if match else index
        if index >= self._stop:
            raise UnreadableError(index, "truncated")
        return index

    def _add(self, holder: Any, key: str, value: Any) -> None:
        """Adds a value to its container; a repeated key keeps its last value, as with other JSON readers."""
        if isinstance(holder, list):
            holder.append(value)
            return
        if key in holder:
            if self._guess or not any(damage == "duplicate_key" for damage, _ in self.damage):
                self.damage.append(("duplicate_key", self.open[0][2]))
            if len(self.open) == 1 and (key == "ph" or holder[key] != value):
                self.repeated.add(key)
        holder[key] = value

    def _plain_members(self, holder: dict[str, Any], index: int) -> int:
        """Reads plain members from `index` on, which are most."""
        while match := _PLAIN_MEMBER.match(self.text, index, self._stop):
            key, integer, decimals, string = match.groups()
            if key in holder:
                break
            if string is not None:
                holder[key] = string
            else:
                holder[key] = self.decimal(integer + decimals) if decimals else int(integer)
            index = match.end()
        return index

    def _key(self, index: int, *, comma: bool) -> tuple[str, int]:
        match = _KEY.match(self.text, index, self._stop)
        if match is None:
            match = _KEY_WITHOUT_QUOTE.match(self.text, index, self._stop)
            if match is None:
                raise UnreadableError(index, "unreadable")
            self._repair("missing_quote", index)
        if not comma:
            self._repair("missing_comma", index)
        return self._decoded(match.group(1), index), self._after_space(match.end())

    def _scalar(self, holder: Any, key: str, index: int) -> tuple[Any, int]:
        if self.text[index] == '"':
            return self._string(holder, key, index)
        if match := _NUMBER.match(self.text, index, self._stop):
            integer, decimals = match.groups()
            if decimals:
                return self.decimal(match.group()), match.end()
            if len(integer) <= MAX_DIGITS:
                return int(integer), match.end()
        elif match := _LITERAL.match(self.text, index, self._stop):
            return _LITERALS[match.group()], match.end()
        elif match := _NO_NUMBER.match(self.text, index, self._stop):
            if match.group(1):
                self._repair("not_a_number", index)
            return None, match.end()
        cut = _CUT_OFF.match(self.text, index, self._stop)
        raise UnreadableError(index, "truncated" if cut else "unreadable")

    def _string(self, holder: Any, key: str, start: int) -> tuple[str, int]:
        """The string whose opening quote is at `start`, and the index after its closing quote."""
        if not self._guess:
            match = _STRING.match(self.text, start, self._stop)
            if match is None:
                raise UnreadableError(start, "truncated")
            return self._decoded(match.group(1), start + 1, key), match.end()
        in_list = isinstance(holder, list)
        ends = _ENDS_IN_LIST if in_list else _ENDS_IN_OBJECT
        index = start + 1
        inner = -1
        while True:
            match = _QUOTE_OR_BACKSLASH.search(self.text, index, self._stop)
            if match is None:
                raise UnreadableError(start, "truncated" if inner < 0 else "unescaped_quote")
            index = match.end()
            if match.group() == '"':
                if ends.match(self.text, index, self._stop):
                    break
                # With a quote already inside the string, what looks like a key may be its text.
                firm = inner < 0 and not in_list
                if firm and _ENDS_WITHOUT_COMMA.match(self.text, index, self._stop):
                    break
                inner = match.start() if inner < 0 else inner
            elif self.text.startswith('"', index) and ends.match(self.text, index + 1, self._stop):
                # `C:\dir\", "tid": 1`: the backslash was not escaped and the quote ends the string.
                index += 1
                break
            else:
                index += 1
        raw = self.text[start + 1 : index - 1]
        if inner >= 0:
            if _SWALLOWED_KEY.search(raw):
                raise UnreadableError(inner, "unescaped_quote")
            self.damage.append(("unescaped_quote", inner))
            if in_list:
                self._doubtful.add(len(self.open))
        return self._decoded(raw, start + 1, key), index

    def _decoded(self, raw: str, index: int, key: str = "") -> str:
        """A string's text from its characters in the file; notes what had to be repaired."""
        text = raw
        if not raw.isascii():
            data = raw.encode("latin-1")
            try:
                text = data.decode()
            except UnicodeDecodeError as error:
                text = data.decode(errors="replace")
                self.damage.append(("invalid_utf8", index + error.start))
                if key == "name":
                    self.raw_name = data
        control = _CONTROL.search(raw)
        if control:
            if (hole := raw.find(_HOLE)) >= 0:
                raise UnreadableError(index + hole, "hole")
            self.damage.append(("control_character", index + control.start()))
        if "\\" in text:
            text, wrong = unescaped(text)
            if wrong:
                self._repair("invalid_escape", index)
        return text


@dataclass(slots=True)
class RepairReport(ReadReport):
    """What became of the events in damaged pieces of text."""

    end: int | None = None
    """Byte of the file after the `]` that ends the trace's events; whatever follows is not the trace's."""


class Repairer:
    """Reads the events in a piece of a `traceEvents` array in any state.

    Args:
        chunk: events without the brackets around them. May contain the array's end and more, or break off.
        offset: byte of the uncompressed file at which the chunk starts.
        report: counts repairs and losses, up to the last event that was yielded.
        last: whether the file ends with this chunk.

    Example:
        >>> report = RepairReport()
        >>> list(Repairer(b'{"ph": "X", "ts": 1.25}, {"ph": "X", "na', 100, report, last=True).events())
        [{'ph': 'X', 'ts': '1.25'}]
        >>> report.dropped, report.truncated, report.damage, report.damage_offset
        (1, True, {'truncated': 1}, 125)
    """

    def __init__(self, chunk: bytes, offset: int, report: RepairReport, *, last: bool) -> None:
        self._text = chunk.decode("latin-1")
        self._offset = offset
        self._last = last
        self._report = report
        self._reader = ValueReader(self._text)
        self._taken: list[dict[str, Any]] = []
        self._starts = _START.finditer(self._text)
        self._next_start = -1
        self._unclosed: set[int] = set()
        """Starts of objects that do not end as JSON does: they were open where a reading stopped."""
        self._nested_to = 0
        """The end of text that is nested too deep: up to there, an event ends where the next one seems to start."""

    def events(self) -> Iterator[dict[str, Any]]:
        """Yields intact and repaired events in order; never raises.

        Numbers with decimals or exponents are `NumberText`; NaN and infinity are None.
        """
        text = self._text
        index = 0
        comma = True  # after a comma, or where none is needed
        while True:
            match = _BETWEEN.match(text, index)
            gap = match.group() if match else ""
            commas = gap.count(",")
            if commas > 1 and index:
                self._note("trailing_comma", index)
            comma |= commas > 0
            index += len(gap)
            if index >= len(text):
                break
            hole = _HOLE in gap
            if hole:
                self._note("hole", index - len(gap))
            if text[index] == "{":
                if not comma:
                    self._note("missing_comma", index)
                index, comma = self._event(index)
                if self._taken:
                    yield from self._taken
                    self._taken.clear()
            else:
                index = self._array_end(index) if text[index] == "]" else self._garbage(index, event=hole)
                comma = True

    # -- one event ---------------------------------------------------------------------------------

    def _event(self, index: int) -> tuple[int, bool]:
        """Reads the event at `index`; returns where to continue, and whether no comma is needed there."""
        reader = self._reader
        if index >= self._nested_to and index not in self._unclosed:
            try:
                value, end = reader.read(index, guess=False)
            except UnreadableError as error:
                self._unclosed.update(start for _, _, start in reader.open)
                if error.reason == "too_deep":
                    self._nested_to = error.index
            else:
                self._take(value, index, reader)
                return end, False
        stop = self._start_after(index)
        try:
            if stop - index > MAX_DAMAGED_BYTES:
                raise UnreadableError(index, "unreadable")
            value, end = reader.read(index, stop)
            if not _EVENT_ENDS.match(self._text, end, stop):
                raise UnreadableError(index, "torn_event")
        except UnreadableError as error:
            return self._skip(index, error.reason, error.index, event=True), True
        self._take(value, index, reader)
        return end, False

    def _take(self, value: dict[str, Any], index: int, reader: ValueReader) -> None:
        """Counts what was read at `index`, as an event if it is one."""
        report = self._report
        if not value:
            self._note("empty_event", index)
        elif "ph" in reader.repeated and not _IDENTITY.isdisjoint(reader.repeated):
            # Another event starts within this one.
            self._note("torn_event", index)
            report.dropped += 1
        elif isinstance(value.get("ph"), str):
            self._taken.append(value)
            report.repaired += bool(reader.damage)
            for damage, at in reader.damage:
                self._note(damage, at)
            if reader.raw_name and isinstance(args := value.setdefault("args", {}), dict):
                args[RAW_NAME] = hashlib.blake2b(reader.raw_name, digest_size=8).hexdigest()
        elif isinstance(value.get("traceEvents"), list):
            self._note("interleaved", index)
            for event in value["traceEvents"]:
                if isinstance(event, dict):
                    self._take(event, index, ValueReader(""))
                else:
                    self._note("wrong_type", index)
        else:
            self._note("no_phase" if "ph" not in value else "wrong_type", index)
            report.dropped += 1

    # -- between events ----------------------------------------------------------------------------

    def _array_end(self, index: int) -> int:
        """Passes a `]` at the level of the events. If the trace's end follows, the rest is of a longer file that this
        one overwrote, or another writer's trace; otherwise it is a stray byte.
        """
        text, report = self._text, self._report
        match = _END.match(text, index)
        if match is None or (match.end() == len(text) and not match.group(1) and not self._last):
            self._note("unreadable", index)
            run = _BRACKETS.match(text, index)
            return run.end() if run else index + 1
        report.end = self._offset + index + 1
        others = text.count(_PHASE, match.end())
        if others:
            self._note("interleaved", match.end())
            report.dropped += others
        elif match.group(1) and match.end() < len(text):
            self._note("extra_data", match.end())
        return len(text)

    def _garbage(self, index: int, *, event: bool) -> int:
        """Passes what is neither an event nor the end of the events; `event` if it is the end of a lost one."""
        near = _NEAR_BRACE.match(self._text, index)
        if near is None:
            return self._skip(index, "unreadable", index, event=event)
        # A byte or two between events in place of a comma: an event follows.
        self._note("unreadable", index)
        return near.end() - 1

    def _skip(self, index: int, damage: str, at: int, *, event: bool = False) -> int:
        """Gives up the text up to the next event or the events' end, and counts the events in it, of which the first
        starts at `index` if `event`; returns where to continue.
        """
        text, report = self._text, self._report
        stop = self._start_after(index)
        end = _ARRAY_END.search(text, index) if stop == len(text) else None
        if end:
            stop = end.start(1)
        open_end = stop == len(text) and self._last and event
        if open_end and (damage == "truncated" or not _COMPLETE.search(text, max(0, stop - 1024))):
            damage, at, report.truncated = "truncated", index, True
        elif damage == "truncated":
            damage = "torn_event"
        if _SECOND_HEADER.search(text, index, stop):
            damage = "interleaved"
        report.dropped += max(event, text.count(_PHASE, index, stop))
        hole = text.rfind(_HOLE, index, stop)
        if hole >= 0 and damage != "truncated":
            damage = "hole"
            # It may end in an event that started within it.
            after = text[hole:stop].strip(" \t\r\n,\0")
            report.dropped += bool(after) and _PHASE not in after
        self._note(damage, at)
        return stop

    def _start_after(self, index: int) -> int:
        """Index of the next `{` after `index` that seems to start an event, or the text's length."""
        while self._next_start <= index:
            match = next(self._starts, None)
            if match is None:
                self._next_start = len(self._text)
                break
            if self._starts_event(match.start()):
                self._next_start = match.start()
        return self._next_start

    def _starts_event(self, index: int) -> bool:
        """Whether the object at `index` is an event, and no value inside one."""
        before = self._text[max(0, index - 64) : index]
        bare = before.rstrip(" \t\r\n")
        mark = bare[-1:]
        if mark in ("", ",", "}"):
            return True
        if mark == "[":
            return bare[:-1].rstrip(" \t\r\n").endswith('"traceEvents":')
        if mark == ":":
            return False
        return "\n" in before[len(bare) :] or self._text.startswith('{"ph"', index)

    def _note(self, damage: str, index: int) -> None:
        self._report.note(damage, self._offset + index)
