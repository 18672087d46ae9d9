"""Reads one JSON value that is almost JSON, as careless writers and flipped bytes leave it.

`json` is faster and is tried first; this reader is for what `json` refuses. It never guesses a number or a key: text
that could mean two things makes the entire object unreadable. It repairs mistakes that leave no doubt: control
characters, bytes that are not UTF-8 and wrong escapes inside strings, quotes that were not escaped, `N/A` in place of a
number, extra or missing commas between members, and keys without their opening quote. The words `inf` and `nan` for
numbers that were not measured, and a comma after the last member, are so common that they do not count as mistakes.

Text is handled as Latin-1, one character per byte, so that positions are byte positions; strings are decoded as UTF-8
when they are taken out. Every pattern here has bounded look-ahead, and open containers are kept in a list instead of on
the call stack, so that every input takes linear time and bounded depth.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

DEEPEST = 200
"""Depth of nested containers; real traces have about five."""

LONGEST = 4 << 20
"""Bytes of one object that are tried: call stacks of a megabyte exist; more is damage."""

_SPACE = re.compile(r"[ \t\r\n]*")
_KEY = re.compile(r'"((?:[^"\\]|\\.){0,400})"[ \t\r\n]*:', re.DOTALL)
_KEY_WITHOUT_QUOTE = re.compile(r'([A-Za-z_][A-Za-z0-9_ ]{0,63})"[ \t\r\n]*:')
_PLAIN_MEMBER = re.compile(
    r'"([^"\\\x00-\x1f\x80-\xff]{1,80})"[ \t\r\n]*:[ \t\r\n]*'
    r'(?:(-?(?:0|[1-9][0-9]{0,40}))(\.[0-9]{1,40})?|"([^"\\\x00-\x1f\x80-\xff]*)")'
    r'[ \t\r\n]*,[ \t\r\n]*(?="[A-Za-z_])'
)
_NUMBER = re.compile(r"(-?(?:0|[1-9][0-9]{0,400}))(\.[0-9]{1,400})?([eE][+-]?[0-9]{1,9})?(?![\w.+-])")
_LITERAL = re.compile(r"(?:true|false|null)(?![\w.])")
_CUT_OFF = re.compile(r"[\w.+/-]{0,8}\Z")
_NO_NUMBER = re.compile(r"[+-]?(?:inf(?:inity)?|nan|(n/a))(?![\w./])", re.IGNORECASE)
_QUOTE_OR_BACKSLASH = re.compile(r'["\\]')
_CONTROL = re.compile(r"[\x00-\x1f]")
_ESCAPE = re.compile(r'\\(?:(["\\/bfnrt])|u([0-9a-fA-F]{4}))?')
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_ESCAPED_PAIR = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
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


class NumberText(str):
    """The digits of a number that is not an integer, as in the file: a float would lose some."""

    __slots__ = ()


def not_measured(_: str) -> None:
    """What `NaN` and `Infinity` become."""


@dataclass(slots=True)
class Loose:
    """A value that was read, where it ended, and what was wrong with it.

    Attributes:
        value: for an object its members.
        end: index of the first character after it.
        damage: class of damage and index, in order.
        twice: keys that the object itself has twice with different values, and `ph` if it appears twice.
        raw_name: bytes of the member `name` if they are not UTF-8.
    """

    value: Any
    end: int
    damage: list[tuple[str, int]] = field(default_factory=list)
    twice: set[str] = field(default_factory=set)
    raw_name: bytes | None = None


class Refused(Exception):  # noqa: N818 - describes a value; callers do not see it as an error
    """A value cannot be read without guessing.

    Attributes:
        index: where reading had to stop.
        why: class of damage; `truncated` when the text ends inside the value.
    """

    def __init__(self, index: int, why: str) -> None:
        super().__init__(why)
        self.index = index
        self.why = why


def read_value(text: str, start: int = 0, stop: int | None = None) -> Loose:
    """Reads the value that begins at `start`, repairing what can be repaired without doubt.

    Args:
        text: bytes decoded as Latin-1.
        start: index of its first character.
        stop: index at which reading stops; the end of the text when None.

    Raises:
        Refused: it cannot be read without guessing, or has more than `LONGEST` bytes.

    Example:
        >>> read_value('{"ph": "X", "name": "C:\\\\Users", "bandwidth": inf, }').value
        {'ph': 'X', 'name': 'C:\\\\Users', 'bandwidth': None}
        >>> read_value('"DataLoader", "tid": 7}').value
        'DataLoader'
    """
    reader = _Reader(text, min(len(text) if stop is None else stop, start + LONGEST))
    value, end = reader.read(start)
    return Loose(value, end, reader.damage, reader.twice, reader.raw_name)


def may_have_half_pair(raw: bytes) -> bool:
    """Whether JSON text may have an escape for half a character, which `json` accepts."""
    return b"\\u" in raw and _ESCAPED_SURROGATE.search(_ESCAPED_PAIR.sub(b"", raw)) is not None


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


class _Reader:
    """Reads one value; `damage` and `raw_name` are filled meanwhile."""

    def __init__(self, text: str, stop: int) -> None:
        self.text = text
        self.stop = stop
        self.damage: list[tuple[str, int]] = []
        self.twice: set[str] = set()
        self.raw_name: bytes | None = None
        self._doubtful_lists: set[int] = set()

    def read(self, start: int) -> tuple[Any, int]:
        """The value at `start` and the index after it; None for a list whose items are in doubt."""
        root: Any
        if not self.text.startswith(("{", "["), start):
            return self._value({}, "", self._after_space(start))
        root = {} if self.text[start] == "{" else []
        end = self._fill(root, start + 1)
        return (None if id(root) in self._doubtful_lists else root), end

    def _fill(self, root: Any, index: int) -> int:
        """Reads the members or items of a container from `index` on; returns the index after it."""
        stack: list[tuple[Any, str]] = []
        holder: Any = root
        comma = True
        while True:
            index = self._after_space(index)
            mark = self.text[index]
            if mark == ",":
                if comma:
                    self._note("trailing_comma", index)
                comma = True
                index += 1
                continue
            if mark == ("}" if isinstance(holder, dict) else "]"):
                index += 1
                comma = False
                if not stack:
                    return index
                doubtful = id(holder) in self._doubtful_lists
                holder, key = stack.pop()
                if doubtful:
                    # A list with an extra quote may have an item too many or too few.
                    _put(holder, key, None, last=True)
                continue
            key = ""
            if isinstance(holder, dict):
                if comma:
                    index = self._plain_members(holder, index)
                key, index = self._key(index, comma=comma)
            elif not comma:
                raise Refused(index, "missing_comma")
            value, after = self._value(holder, key, index)
            comma = False
            if isinstance(holder, dict) and key in holder:
                self._note("duplicate_key", index)
                if not stack and (key == "ph" or holder[key] != value):
                    self.twice.add(key)
            _put(holder, key, value)
            index = after
            if isinstance(value, (dict, list)):
                if len(stack) >= DEEPEST:
                    raise Refused(index, "too_deep")
                stack.append((holder, key))
                holder = value
                comma = True

    def _note(self, damage: str, index: int) -> None:
        self.damage.append((damage, index))

    def _after_space(self, index: int) -> int:
        found = _SPACE.match(self.text, index, self.stop)
        index = found.end() if found else index
        if index >= self.stop:
            raise Refused(index, "truncated")
        return index

    def _plain_members(self, holder: dict[str, Any], index: int) -> int:
        """Reads plain members from `index` on."""
        while found := _PLAIN_MEMBER.match(self.text, index, self.stop):
            key, whole, decimals, string = found.groups()
            if key in holder:
                break
            if string is not None:
                holder[key] = string
            else:
                holder[key] = NumberText(whole + decimals) if decimals else int(whole)
            index = found.end()
        return index

    def _key(self, index: int, *, comma: bool) -> tuple[str, int]:
        found = _KEY.match(self.text, index, self.stop)
        if found is None:
            found = _KEY_WITHOUT_QUOTE.match(self.text, index, self.stop)
            if found is None:
                raise Refused(index, "unreadable")
            self._note("missing_quote", index)
        if not comma:
            self._note("missing_comma", index)
        return self._decoded(found.group(1), index), self._after_space(found.end())

    def _value(self, holder: Any, key: str, index: int) -> tuple[Any, int]:
        mark = self.text[index]
        if mark == '"':
            return self._string(holder, key, index)
        if mark == "{":
            return {}, index + 1
        if mark == "[":
            return [], index + 1
        if found := _NUMBER.match(self.text, index, self.stop):
            whole, decimals, exponent = found.groups()
            if decimals or exponent:
                return NumberText(found.group()), found.end()
            return int(whole), found.end()
        if found := _LITERAL.match(self.text, index, self.stop):
            return _LITERALS[found.group()], found.end()
        if found := _NO_NUMBER.match(self.text, index, self.stop):
            if found.group(1):
                self._note("not_a_number", index)
            return None, found.end()
        cut = _CUT_OFF.match(self.text, index, self.stop)
        raise Refused(index, "truncated" if cut else "unreadable")

    def _string(self, holder: Any, key: str, start: int) -> tuple[str, int]:
        """The string whose opening quote is at `start`, and the index after its closing quote."""
        ends = _ENDS_IN_OBJECT if isinstance(holder, dict) else _ENDS_IN_LIST
        index = start + 1
        inner = -1
        while True:
            found = _QUOTE_OR_BACKSLASH.search(self.text, index, self.stop)
            if found is None:
                raise Refused(start, "truncated" if inner < 0 else "unescaped_quote")
            index = found.end()
            if found.group() == '"':
                if ends.match(self.text, index, self.stop):
                    break
                # With a quote already inside the string, what looks like a key may be its text.
                firm = inner < 0 and isinstance(holder, dict)
                if firm and _ENDS_WITHOUT_COMMA.match(self.text, index, self.stop):
                    break
                inner = found.start() if inner < 0 else inner
            elif self.text.startswith('"', index) and ends.match(self.text, index + 1, self.stop):
                # `C:\dir\", "tid": 1`: the backslash was not escaped and the quote ends the string.
                index += 1
                break
            else:
                index += 1
        raw = self.text[start + 1 : index - 1]
        if inner >= 0:
            if _SWALLOWED_KEY.search(raw):
                raise Refused(inner, "unescaped_quote")
            self._note("unescaped_quote", inner)
            if isinstance(holder, list):
                self._doubtful_lists.add(id(holder))
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
                self._note("invalid_utf8", index + error.start)
                if key == "name":
                    self.raw_name = data
        control = _CONTROL.search(raw)
        if control:
            self._note("control_character", index + control.start())
        if "\\" in text:
            text, wrong = unescaped(text)
            if wrong:
                self._note("invalid_escape", index)
        return text


def _put(holder: Any, key: str, value: Any, *, last: bool = False) -> None:
    """Adds a value to its container, or replaces the `last` one; a repeated key keeps its last value."""
    if isinstance(holder, dict):
        holder[key] = value
    elif last:
        holder[-1] = value
    else:
        holder.append(value)
