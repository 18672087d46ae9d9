"""Reads pickles of plain data: texts, numbers, lists, tuples and dictionaries, and nothing else.

It is no subclass of Python's unpickler: it lacks the operations that import, call or build anything, so that a pickle
with code is refused at the first of them and runs nothing. It has limits that no honest file comes near, and passes on
dictionaries as soon as they are complete, so that a file of millions of them is never entirely in memory.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any, NoReturn, Protocol

from stepscope.base.errors import SourceError

MAX_VALUES = 1 << 24
"""Values that are held at once: on the stack, or in lists and dictionaries that were not taken."""
MAX_MEMO = 1 << 26
"""Values that the file numbers in order to refer to them again."""
MAX_TEXT_BYTES = 1 << 28
"""Of all texts together."""
LONGEST_TEXT_BYTES = 1 << 20
MAX_STACK = 1 << 20
"""Values on the stack at once: writers put at most a thousand entries into a container at once."""
MAX_MARKS = 256
"""Marks that are open at once: a snapshot nests about ten deep."""
_DICT_VALUES = 4
"""Values whose memory an empty dictionary takes, which is one byte of the file."""
_LONGEST_NUMBER_BYTES = 16
_BLOCK = 1 << 20
_LONGEST_OPERATION = 16
"""Bytes of an operation without its text; as many are always buffered."""
_REFERENCES = re.compile(rb"(?:h[\s\S]|j[\s\S]{4})*")
_REFERENCE = re.compile(rb"h[\s\S]|j[\s\S]{4}")
"""BINGET and LONG_BINGET, each with its number."""
_MAX_RUNS = 1 << 12
_LONGEST_RUN_BYTES = 1 << 10
"""Of a run of references whose values are remembered."""

ERRORS = {
    "pickle-with-code": (
        "The pickle asks for something to be imported or called, as pickles can. StepScope reads only pickles "
        "of plain data, such as memory snapshots, and runs nothing. A snapshot that was changed by hand may "
        "contain objects of the program: dump it again."
    ),
    "pickle-damaged": (
        "The pickle is truncated or corrupt, or claims sizes that no memory snapshot has. Totals are counted "
        "back from a snapshot's end, so nothing of a damaged one is used."
    ),
}


class Readable(Protocol):
    """A stream of bytes that is read from start to end."""

    def read(self, size: int, /) -> bytes:
        """`size` bytes; fewer only at the end."""


class Taken:
    """Replaces a dictionary that was taken."""


TAKEN = Taken()


class ExcessiveError(ValueError):
    """What a pickle holds takes more memory than that of a snapshot; the argument says what."""


class _Dict(dict[Any, Any]):
    """A dictionary that knows the file's number for it, which is forgotten once it is taken."""

    __slots__ = ("number",)
    number: int


def load(stream: Readable, label: str, take: Callable[[dict[Any, Any]], Any]) -> Any:
    """Reads the value in a pickle.

    Args:
        label: the file's name in messages.
        take: gets each complete dictionary of two or more entries, inner ones first, and returns what replaces it:
            itself, or something smaller.

    Raises:
        SourceError: it has code, is damaged, or exceeds a limit.
    """
    try:
        return _run(stream, label, take)
    except ExcessiveError as error:
        raise _damaged(label, str(error)) from error
    except (IndexError, TypeError, AttributeError, ValueError, struct.error, OverflowError) as error:
        raise _damaged(label, "it breaks off or is corrupt") from error


def _run(stream: Readable, label: str, take: Callable[[dict[Any, Any]], Any]) -> Any:
    read, int_from = stream.read, int.from_bytes
    memo: list[Any] = []
    stack: list[Any] = []
    marks: list[int] = []
    runs: dict[bytes, list[Any]] = {}
    push, remember = stack.append, memo.append
    stored = text_bytes = 0
    buffer, at, ahead = b"", 0, -_LONGEST_OPERATION

    def text_of(size: int) -> str:
        nonlocal buffer, at, ahead, text_bytes
        text_bytes += size
        if size > LONGEST_TEXT_BYTES or text_bytes > MAX_TEXT_BYTES:
            raise _damaged(label, "its texts are longer than those of a snapshot")
        if at + size > len(buffer):
            buffer, at = buffer[at:], 0
            while len(buffer) < size and (more := read(_BLOCK)):
                buffer += more
            ahead = len(buffer) - _LONGEST_OPERATION
            if len(buffer) < size:
                raise IndexError
        at += size
        return buffer[at - size : at].decode("utf-8", "replace")

    while True:
        if at > ahead:
            buffer, at = buffer[at:] + read(_BLOCK), 0
            # Less than this remains only at the end of the file, where each operation is checked.
            ahead = max(len(buffer) - _LONGEST_OPERATION, 0)
            if not buffer:
                raise IndexError
            if len(stack) > MAX_STACK or stored > MAX_VALUES or len(memo) > MAX_MEMO:
                raise _damaged(label, "it holds more values than a snapshot")
        code = buffer[at]
        at += 1
        # Ordered by how often they occur.
        if code == 0x68:  # BINGET
            push(memo[buffer[at]])
            at += 1
        elif code == 0x6A:  # LONG_BINGET
            push(memo[int_from(buffer[at : at + 4], "little")])
            at += 4
        elif code == 0x94:  # MEMOIZE
            top = stack[-1]
            if type(top) is _Dict:
                top.number = len(memo)
            remember(top)
        elif code == 0x4A:  # BININT
            push(int_from(buffer[at : at + 4], "little", signed=True))
            at += 4
        elif code == 0x8A:  # LONG1
            size = buffer[at]
            if size > _LONGEST_NUMBER_BYTES:
                raise _damaged(label, "its numbers are longer than those of a snapshot")
            push(int_from(buffer[at + 1 : at + 1 + size], "little", signed=True))
            at += 1 + size
        elif code == 0x4B:  # BININT1
            push(buffer[at])
            at += 1
        elif code == 0x4D:  # BININT2
            push(buffer[at] | buffer[at + 1] << 8)
            at += 2
        elif code == 0x75:  # SETITEMS
            first = marks.pop()
            keys, values = stack[first::2], stack[first + 1 :: 2]
            del stack[first:]
            target = stack[-1]
            _fill(target, keys, values)
            stored += 2 * len(keys)
            lists = [value for value in values if type(value) is list]
            before = sum(map(len, lists))
            taken = take(target)
            if taken is not target:
                # Its lists were emptied when they were taken; other lists are used nowhere else.
                stored -= _DICT_VALUES + 2 * len(keys) + before - sum(map(len, lists))
                number = getattr(target, "number", None)
                if number is not None:
                    memo[number] = taken
                stack[-1] = taken
        elif code == 0x28:  # MARK
            marks.append(len(stack))
            if len(marks) > MAX_MARKS:
                raise _damaged(label, "it nests deeper than a snapshot")
            if stack and type(stack[-1]) is list:
                # A call stack: a list of known frames, and mostly a known list.
                end = _REFERENCES.match(buffer, at).end()  # type: ignore[union-attr]
                run = buffer[at:end]
                values_of_run = runs.get(run)
                if values_of_run is None:
                    values_of_run = [
                        memo[int.from_bytes(reference[1:], "little")] for reference in _REFERENCE.findall(run)
                    ]
                    if len(runs) >= _MAX_RUNS:
                        runs.clear()
                    if len(run) <= _LONGEST_RUN_BYTES:
                        runs[run] = values_of_run
                stack += values_of_run
                at = end
        elif code == 0x7D:  # EMPTY_DICT
            push(_Dict())
            stored += _DICT_VALUES
        elif code == 0x65:  # APPENDS
            first = marks.pop()
            items = stack[first:]
            del stack[first:]
            _list(stack[-1]).extend(items)
            stored += len(items)
        elif code == 0x5D:  # EMPTY_LIST
            push([])
        elif code == 0x71:  # BINPUT
            _memoize(memo, buffer[at], stack[-1])
            at += 1
        elif code == 0x72:  # LONG_BINPUT
            _memoize(memo, int_from(buffer[at : at + 4], "little"), stack[-1])
            at += 4
        elif code == 0x8C:  # SHORT_BINUNICODE
            at += 1
            push(text_of(buffer[at - 1]))
        elif code == 0x58:  # BINUNICODE
            at += 4
            push(text_of(int_from(buffer[at - 4 : at], "little")))
        elif code == 0x61:  # APPEND
            item = stack.pop()
            _list(stack[-1]).append(item)
            stored += 1
        elif code == 0x73:  # SETITEM
            value, key = stack.pop(), stack.pop()
            _fill(stack[-1], [key], [value])
            stored += 2
        elif code == 0x4E:  # NONE
            push(None)
        elif code == 0x88:  # NEWTRUE
            push(True)
        elif code == 0x89:  # NEWFALSE
            push(False)
        elif code == 0x47:  # BINFLOAT
            push(struct.unpack_from(">d", buffer, at)[0])
            at += 8
        elif code == 0x95:  # FRAME
            at += 8
        elif code == 0x80:  # PROTO
            if buffer[at] > 5:
                raise _damaged(label, f"it is of protocol {buffer[at]}")
            at += 1
        elif code == 0x29:  # EMPTY_TUPLE
            push(())
        elif code == 0x85:  # TUPLE1
            stack[-1] = (stack[-1],)
            stored += 1
        elif code == 0x86:  # TUPLE2
            stack[-2:] = [(stack[-2], stack[-1])]
            stored += 2
        elif code == 0x87:  # TUPLE3
            stack[-3:] = [(stack[-3], stack[-2], stack[-1])]
            stored += 3
        elif code == 0x74:  # TUPLE
            first = marks.pop()
            stored += len(stack) - first
            stack[first:] = [tuple(stack[first:])]
        elif code == 0x2E:  # STOP
            if marks or len(stack) != 1:
                raise IndexError
            return stack[0]
        else:
            _refuse(label, code)


def _fill(target: Any, keys: list[Any], values: list[Any]) -> None:
    """Puts entries into a dictionary. Keys are texts and numbers: hashing a tuple nested a million deep
    would crash the interpreter."""
    if type(target) is not _Dict or len(keys) != len(values):
        raise TypeError
    for key in keys:
        if type(key) is not str and type(key) is not int:
            raise TypeError
    target.update(zip(keys, values, strict=True))


def _list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise TypeError
    return value


def _memoize(memo: list[Any], number: int, value: Any) -> None:
    """Numbers a value. Writers count up in steps of one."""
    if number == len(memo):
        memo.append(value)
    else:
        memo[number] = value
    if type(value) is _Dict:
        value.number = number


_WITH_CODE = frozenset(b"cRbio\x81\x92\x93PQ\x82\x83\x84")
"""GLOBAL, REDUCE, BUILD, INST, OBJ, NEWOBJ, NEWOBJ_EX, STACK_GLOBAL, persistent ids and extensions."""


def _refuse(label: str, code: int) -> NoReturn:
    if code in _WITH_CODE:
        raise SourceError(
            f"{label}: this pickle asks for code to be run, which no memory snapshot does",
            hint="nothing of it was run; dump the snapshot again: torch.cuda.memory._dump_snapshot(FILE)",
            slug="pickle-with-code",
        )
    raise _damaged(label, f"operation {code:#04x} is none of a snapshot's")


def _damaged(label: str, why: str) -> SourceError:
    return SourceError(
        f"{label}: not an intact memory snapshot: {why}",
        hint="copy it again, or dump it again: torch.cuda.memory._dump_snapshot(FILE)",
        slug="pickle-damaged",
    )
