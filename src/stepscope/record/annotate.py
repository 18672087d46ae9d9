"""Names for parts of a program, and numbers of its iterations, which cost next to nothing when off.

    with stepscope.region("interaction"):
        ...

    @stepscope.traced
    def interact(dense, sparse): ...

    stepscope.value("tokens", batch.numel())

When nothing records, `region` returns one shared object that does nothing. When a plan asks for the
region, it is timed; while a trace is recorded, it becomes a range in the trace; with
`STEPSCOPE_NVTX=1` it becomes an NVTX range, which Nsight Systems and Nsight Compute show.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ParamSpec, TypeVar

from stepscope.record.after_import import AfterImport
from stepscope.record.compiling import compiling_check, never
from stepscope.record.cpp import define_mark
from stepscope.record.trouble import warn_once

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


Taker = Callable[[str, float], object]

_openers: tuple[Opener, ...] = ()
_takers: tuple[Taker, ...] = ()
_warned: set[str] = set()
"""Names of values that were left out: said once."""
_is_compiling = never


def know_torch() -> None:
    """torch is imported: from now on regions ask it whether it is compiling, and C++ can mark them."""
    global _is_compiling
    _is_compiling = compiling_check()
    define_mark(lambda name: region(name))  # which is not there yet where torch was imported first


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


def value(name: str, number: Any) -> None:
    """A number of the running iteration, `tokens` or `samples` say, from which its rate follows; several of
    one name in an iteration add up.

    A number that lies on a device is not read, because reading it would wait for the device.

    >>> value("tokens", 4096)
    """
    if _is_compiling() or not _takers:
        return
    try:
        known = _known(name, number)
    except Exception as error:
        _warn_of(name, f"{type(error).__name__}: {error}")
        return
    if known is not None:
        for taker in _takers:
            taker(str(name), known)


def _known(name: str, number: Any) -> float | None:
    if not isinstance(number, int | float):
        device = getattr(number, "device", "cpu")
        if getattr(device, "type", device) != "cpu":
            _warn_of(
                name,
                "its number is on a device, and reading it would make the job wait; give a number of the "
                "host's, such as tensor.numel() or len(batch)",
            )
            return None
        number = number.item()
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
        _warn_of(name, f"{number!r} is not a number")
        return None
    return number


def _warn_of(name: str, reason: str) -> None:
    if name not in _warned:
        _warned.add(name)
        warn_once(f"value({name!r}, ...) is left out: {reason}")


def take_values(taker: Taker) -> None:
    """From now on `taker(name, number)` gets every number that the script gives; it must not raise."""
    global _takers
    if taker not in _takers:
        _takers = (*_takers, taker)


def stop_taking(taker: Taker) -> None:
    """`taker` gets no more."""
    global _takers
    _takers = tuple(other for other in _takers if other != taker)


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
    global _openers, _takers
    _openers, _takers = (), ()


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
