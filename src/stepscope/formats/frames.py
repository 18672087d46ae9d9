"""The format of a frame in `call_stack.frames`, whoever sampled it.

`library!file(line): function`, without the parts that are not known: `libc.so.6!malloc` for native code,
`train.py(12): main` for Python, as in Kineto, `app!graph.cpp(): walk` if a report names the source file and no line.
"""

from __future__ import annotations

import re
from typing import NamedTuple

UNKNOWN = "[unknown]"
"""A frame whose function is not known."""

_PARTS = re.compile(
    r"(?:(?P<library>[^!();<>\s][^!();<>]*)!(?!=))?(?:(?P<file>[^;]+?)\((?P<line>\d*)\): )?(?P<function>.*)", re.DOTALL
)
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_LONGEST = 1 << 12


class Frame(NamedTuple):
    """A frame of a call stack; unknown parts are None."""

    function: str
    library: str | None = None
    file: str | None = None
    line: int | None = None

    def text(self) -> str:
        """Its text in `call_stack.frames`, where semicolons separate frames.

        >>> Frame("main", file="train.py", line=12).text()
        'train.py(12): main'
        """
        library = without_folders(self.library or "").strip("[]")
        place = "" if not self.file else f"{self.file}({'' if self.line is None else self.line}): "
        text = f"{f'{library}!' if library else ''}{place}{self.function or UNKNOWN}"
        return text.replace(";", ",")[:_LONGEST]


def without_folders(path: str) -> str:
    """The file's name in a path of any system."""
    return path[max(path.rfind("/"), path.rfind("\\")) + 1 :]


def parsed(text: str) -> Frame:
    """Parses a frame of `call_stack.frames`; drops addresses of objects, which differ from run to run.

    >>> parsed("libc.so.6!malloc")
    Frame(function='malloc', library='libc.so.6', file=None, line=None)
    >>> parsed("<built-in method mm of type object at 0x7f01>").function
    '<built-in method mm of type object>'
    """
    match = _PARTS.fullmatch(text)
    if match is None:
        return Frame(text or UNKNOWN)
    line = match["line"]
    return Frame(
        _ADDRESS.sub("", match["function"]) or UNKNOWN,
        match["library"],
        match["file"],
        int(line) if line and len(line) < 10 else None,
    )
