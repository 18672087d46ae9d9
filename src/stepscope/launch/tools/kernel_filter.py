"""How ncu finds a kernel again that another recording names.

Tools spell the same C++ name differently: `<4, true>` and `<(int)4, (bool)1>`, `{lambda(float)#1}` and
`[lambda(float) (instance 1)]`, parameters as written or as `T2`. What they agree on is the function's own name and
the names of classes and functions in its template arguments, in that order. ncu's own `function` names are without
template arguments, and all of cutlass's kernels are one `Kernel2`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_NAME = re.compile(r"\b(?!T\d)[A-Za-z_]\w*(?!\w|::)")
"""A name that qualifies no other, and stands for no other: `T1`."""
_SAID_BY_TOOLS = frozenset(
    "anonymous const false instance lambda namespace operator true unnamed unsigned void".split()  # noqa: SIM905
)
_CAST = re.compile(r"\((?:unsigned |signed )?(?:bool|char|short|int|long|long long)\)")
"""The type of a number, which some tools write before it."""
_MOST_WORDS = 5
"""Of the template arguments: the longest, which tell most. Each is one more way for a regular expression to fail."""
_OPENS = {")": "(", "]": "[", "}": "{", ">": "<"}


def kernel_filter(names: Iterable[str]) -> str:
    """The regular expression that finds kernels of these names among demangled ones.

    >>> kernel_filter(["void f<4, at::Add<float> >(int)", "sgemm_nt"])
    '(^|[ :])(f<.*Add.*float|sgemm_nt(\\\\(|$))'
    """
    found = dict.fromkeys(map(_expression, names))
    return f"(^|[ :])({'|'.join(found)})"


def _expression(name: str) -> str:
    own, arguments = _function(name)
    if not arguments:
        return re.escape(own) + r"(\(|$)"
    names = _NAME.findall(_CAST.sub("", arguments))
    words = dict.fromkeys(word for word in names if word not in _SAID_BY_TOOLS)
    longest = sorted(words, key=len, reverse=True)[:_MOST_WORDS]
    return "".join([re.escape(own), "<", *(f".*{word}" for word in words if word in longest)])


def _function(name: str) -> tuple[str, str]:
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
            # What stood before it is the type that the function returns.
            start, end, closed = at + 1, None, len(name)
    own = name[start:end].rpartition("::")[2]
    return own, name[end + 1 : closed] if end is not None and name[end] == "<" else ""
