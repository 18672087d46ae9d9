"""What all tools' spellings of a C++ kernel's name have in common.

They write `<4, true>` and `<(int)4, (bool)1>`, `{lambda(float)#1}` and `[lambda(float) (instance 1)]`, parameters as
written or as `T2`, with or without the return type. In common are the function's own name and the names of classes,
functions and numbers in its template arguments, in that order.
"""

from __future__ import annotations

import re

_NAME = re.compile(r"\b(?!T\d)[A-Za-z_]\w*(?!\w|::)")
"""A name that neither qualifies another nor replaces one (`T1`)."""
_VALUE = re.compile(rf"{_NAME.pattern}|(?<![\w.])\d+")
_SAID_BY_TOOLS = frozenset(
    "anonymous const false instance lambda namespace operator true unnamed unsigned void".split()  # noqa: SIM905
)
_CAST = re.compile(r"\((?:unsigned |signed )?(?:bool|char|short|int|long|long long)\)")
"""The type of a number, which some tools write before it."""
_OPENS = {")": "(", "]": "[", "}": "{", ">": "<"}
_FLAGS = {"true": "1", "false": "0"}


def argument_names(arguments: str) -> list[str]:
    """The names of classes and functions in template arguments."""
    return [name for name in _NAME.findall(_CAST.sub("", arguments)) if name not in _SAID_BY_TOOLS]


def kernel_key(name: str) -> tuple[str, tuple[str, ...]]:
    """What all spellings of a kernel's name share: its own name, and the names in its template arguments.

    >>> kernel_key("void at::f<(int)4, (bool)1>(float *)") == kernel_key("void at::f<4, true>(float*)")
    True
    """
    function, arguments = function_of(name)
    spelled = _VALUE.findall(_CAST.sub("", arguments))
    values = (_FLAGS.get(value, value) for value in spelled)
    return function, tuple(value for value in values if value not in _SAID_BY_TOOLS)


def function_of(name: str) -> tuple[str, str]:
    """A function's own name, without namespaces, and its template arguments: `void a::f<int>(b)` → `f`, `int`."""
    name = re.sub(r"\(anonymous namespace\)|<unnamed>", "unnamed", name)
    start, end, closed = 0, None, len(name)
    inside: list[str] = []
    for at, letter in enumerate(name):
        if letter in "([{<":
            if not inside and end is None:
                end = at
            inside.append(letter)
        elif inside and inside[-1] == _OPENS.get(letter):
            inside.pop()
            if not inside:
                closed = min(closed, at)
        elif letter == " " and not inside:
            # What came before is the return type.
            start, end, closed = at + 1, None, len(name)
    function = name[start:end].rpartition("::")[2]
    return function, name[end + 1 : closed] if end is not None and name[end] == "<" else ""
