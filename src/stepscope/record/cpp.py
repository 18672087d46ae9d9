"""Regions in C++ code: an operator in torch's dispatcher, and the header that calls it.

torch.ops.stepscope.mark("lookup", True)   # starts
torch.ops.stepscope.mark("lookup", False)  # ends
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

_library: Any = None
_open = threading.local()


def include_path() -> str:
    """The folder of `stepscope.h`, for `include_dirs` of an extension.

    >>> Path(include_path(), "stepscope.h").is_file()
    True
    """
    return str(Path(__file__).with_name("include"))


def define_mark(region: Callable[[str], AbstractContextManager[Any]]) -> None:
    """Registers the operator in torch, once per process, unless torch refuses it."""
    global _library
    if _library is not None:
        return

    def mark(name: str, start: bool) -> None:
        # An end without a start does nothing.
        opened: dict[str, list[AbstractContextManager[Any]]] = _open.__dict__
        if start:
            entered = region(name)
            entered.__enter__()
            opened.setdefault(name, []).append(entered)
        elif opened.get(name):
            opened[name].pop().__exit__(None, None, None)

    with suppress(Exception):
        from torch.library import Library

        _library = Library("stepscope", "DEF")
        _library.define("mark(str name, bool start) -> ()")
        _library.impl("mark", mark, "CompositeImplicitAutograd")
