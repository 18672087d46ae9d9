"""Names for parts of a program: regions and traced functions, which cost next to nothing when off.

    with stepscope.region("interaction"):
        ...

    @stepscope.traced
    def interact(dense, sparse): ...

When nothing records, `region` returns one shared object that does nothing. When a plan asks for the
region, it is timed; while a trace is recorded, it becomes a range in the trace; with
`STEPSCOPE_NVTX=1` it becomes an NVTX range, which Nsight Systems and Nsight Compute show.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ParamSpec, TypeVar

from stepscope.record.after_import import AfterImport
from stepscope.record.compiling import compiling_check, never

P = ParamSpec("P")
R = TypeVar("R")


NOTHING: AbstractContextManager[None] = nullcontext()
"""The shared region that does nothing. torch.compile can trace this one, but none of our classes."""

Opener = Callable[[str], "AbstractContextManager[Any] | None"]


class _Several:
    """One region for several listeners."""

    __slots__ = ("_regions",)

    def __init__(self, regions: list[AbstractContextManager[Any]]) -> None:
        self._regions = regions

    def __enter__(self) -> None:
        for region in self._regions:
            region.__enter__()

    def __exit__(self, *exception: Any) -> None:
        for region in reversed(self._regions):
            region.__exit__(*exception)


_openers: tuple[Opener, ...] = ()
_is_compiling = never


def know_torch() -> None:
    """torch is imported: from now on regions ask it whether it is compiling."""
    global _is_compiling
    _is_compiling = compiling_check()


# Before anything is compiled: code that was compiled without this answer would look at the openers.
AfterImport("torch", know_torch).install()


def region(name: str) -> AbstractContextManager[Any]:
    """A named part of the program, for `with`.

    >>> with region("interaction"):
    ...     pass
    """
    # First of all: compiled code that looked at the openers would be compiled again for each change.
    if _is_compiling() or not _openers:
        return NOTHING
    regions = [opened for opener in _openers if (opened := opener(name)) is not None]
    if not regions:
        return NOTHING
    return regions[0] if len(regions) == 1 else _Several(regions)


def traced(function: Callable[P, R]) -> Callable[P, R]:
    """A function whose calls are regions of its qualified name.

    >>> @traced
    ... def double(x):
    ...     return 2 * x
    >>> double(2)
    4
    """
    # Bound and class methods wrap the function that has the name.
    named: Any = getattr(function, "__func__", function)
    name: str = getattr(named, "__qualname__", None) or repr(named)

    @functools.wraps(named)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if _is_compiling() or not _openers:
            return function(*args, **kwargs)
        with region(name):
            return function(*args, **kwargs)

    return call


def listen(opener: Opener) -> None:
    """From now on `opener(name)` is asked for every region; it returns None when it does not care.

    It must not raise.
    """
    global _openers
    if opener not in _openers:
        _openers = (*_openers, opener)


def stop_listening(opener: Opener) -> None:
    """`opener` is asked no more."""
    global _openers
    _openers = tuple(other for other in _openers if other != opener)


def _forget() -> None:
    # A forked worker of a DataLoader has its parent's regions but must not record them.
    global _openers
    _openers = ()


os.register_at_fork(after_in_child=_forget)


class _Nvtx:
    """A range for NVIDIA's tools."""

    __slots__ = ("_name", "_nvtx")

    def __init__(self, nvtx: Any, name: str) -> None:
        self._nvtx = nvtx
        self._name = name

    def __enter__(self) -> None:
        self._nvtx.range_push(self._name)

    def __exit__(self, *_: object) -> None:
        self._nvtx.range_pop()


_nvtx: Any = None


def _open_nvtx(name: str) -> AbstractContextManager[Any] | None:
    global _nvtx
    if _nvtx is None:
        try:
            from torch.cuda import nvtx

            nvtx.range_push("stepscope")
            nvtx.range_pop()
        except Exception:
            stop_listening(_open_nvtx)
            return None
        _nvtx = nvtx
    return _Nvtx(_nvtx, name)


if os.environ.get("STEPSCOPE_NVTX", "") not in ("", "0"):
    listen(_open_nvtx)
