"""Names parts of a program and numbers of its iterations, at almost no cost when nothing records.

    with stepscope.region("interaction"):
        ...

    @stepscope.traced
    def interact(dense, sparse): ...

    stepscope.value("tokens", batch.numel())

A region is timed if a plan names it, and is a range in a trace; with `STEPSCOPE_NVTX=1` it is an NVTX range.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, ParamSpec, TypeVar

from stepscope.base.quoting import printable
from stepscope.record.after_import import AfterImport
from stepscope.record.compiling import compiling_check, hidden_from_modes, never
from stepscope.record.cpp import define_mark
from stepscope.record.trouble import described, warn_once

P = ParamSpec("P")
R = TypeVar("R")


NO_REGION: AbstractContextManager[None] = nullcontext()
"""The shared region that does nothing. torch.compile can trace this one, but no class of ours."""

Opener = Callable[[str], "AbstractContextManager[Any] | None"]


_MAX_CHARACTERS = 1000
_MAX_NUMBER = 1e100  # largest number of an iteration: numbers are summed and squared, and must stay finite
_MAX_WARNINGS = 20
_MAX_NAMES = 256  # distinct names of numbers: thousands of iterations are stored, each with its names


class _Region:
    """A region for all listeners. Their errors stay inside, and an end without a start does nothing."""

    __slots__ = ("_entered", "_opened")

    def __init__(self, opened: list[AbstractContextManager[Any]]) -> None:
        self._opened = opened
        self._entered: list[AbstractContextManager[Any]] = []

    def __enter__(self) -> None:
        for region in self._opened:
            try:
                region.__enter__()
            except Exception as error:
                _warn("region", f"a region is left out: {described(error)}")
            else:
                self._entered.append(region)

    def __exit__(self, *exception: Any) -> None:
        while self._entered:
            try:
                self._entered.pop().__exit__(*exception)
            except Exception as error:
                _warn("region", f"the end of a region is left out: {described(error)}")


Taker = Callable[[str, float], object]

_openers: tuple[Opener, ...] = ()
_takers: tuple[Taker, ...] = ()
_names: set[str] = set()  # names of numbers taken so far
_warned: set[str] = set()
"""Regions, and names of dropped values, that were warned of: each once, and only the first of many."""
_is_compiling = never


def know_torch() -> None:
    """Called when torch has been imported: regions then ask it whether it is compiling, and C++ can mark them."""
    global _is_compiling
    _is_compiling = compiling_check()
    define_mark(lambda name: region(name))  # `region` may not be defined yet if torch was imported first


# Before anything is compiled, because code compiled without this answer would look at the openers.
AfterImport("torch", know_torch).install()


def region(name: str) -> AbstractContextManager[Any]:
    """Names a part of the program, for `with`.

    >>> with region("interaction"):
    ...     pass
    """
    # Must come first: compiled code that looked at the openers would be compiled again for each change.
    if _is_compiling() or not _openers:
        return NO_REGION
    try:
        text = _text(name)
        regions = [opened for opener in _openers if (opened := opener(text)) is not None]
    except Exception as error:
        _warn("region", f"a region is left out: {described(error)}")
        return NO_REGION
    return _Region(regions) if regions else NO_REGION


def traced(function: Callable[P, R]) -> Callable[P, R]:
    """Makes each call of a function a region with its qualified name.

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
    """Adds a number to the running iteration, such as `tokens` or `samples`, from which a rate follows. Several with
    one name in an iteration are summed.

    A number on a device is not read, because that would wait for the device.

    >>> value("tokens", 4096)
    """
    if _is_compiling() or not _takers:
        return
    text = "..."
    try:
        text = _text(name)
        checked = _checked(text, number)
        if checked is not None and _is_known_name(text):
            for taker in _takers:
                taker(text, checked)
    except Exception as error:
        _warn_of(text, described(error))


def _is_known_name(name: str) -> bool:
    if name not in _names:
        if len(_names) == _MAX_NAMES:
            if "names" not in _warned:
                many = f"as are all after it: there are {_MAX_NAMES} names already"
                _warn("names", f"value({name[:100]!r}, ...) is left out, {many}")
            return False
        _names.add(name)
    return True


def _text(name: Any) -> str:
    """A name that all listeners accept: torch's profiler needs UTF-8, and a label must not be empty."""
    text = str(name)
    return printable(text[:_MAX_CHARACTERS]) if text else "unnamed"


def _checked(name: str, number: Any) -> float | None:
    if not isinstance(number, int | float):
        device = getattr(number, "device", "cpu")
        if getattr(device, "type", device) != "cpu":
            _warn_of(
                name,
                "its number is on a device, and reading it would make the job wait; give a number of the "
                "host's, such as tensor.numel() or len(batch)",
            )
            return None
        with hidden_from_modes(number):
            number = number.item()
    if isinstance(number, bool) or not isinstance(number, int | float) or math.isnan(number):
        _warn_of(name, f"{number!r:.100} is not a number")
        return None
    if abs(number) > _MAX_NUMBER:
        _warn_of(name, f"it is beyond {_MAX_NUMBER:g}")
        return None
    return number


def _warn_of(name: str, reason: str) -> None:
    _warn(name, f"value({name[:100]!r}, ...) is left out: {reason}")


def _warn(what: str, message: str) -> None:
    if what in _warned or len(_warned) == _MAX_WARNINGS:
        return
    _warned.add(what)
    warn_once(message if len(_warned) < _MAX_WARNINGS else f"{message}; no more warnings about what is left out")


def take_values(taker: Taker) -> None:
    """Calls `taker(name, number)` for every number from now on; it must not raise."""
    global _takers
    if taker not in _takers:
        _takers = (*_takers, taker)


def stop_taking(taker: Taker) -> None:
    """Stops calling `taker`."""
    global _takers
    _takers = tuple(other for other in _takers if other != taker)
    if not _takers:
        _names.clear()


def listen(opener: Opener) -> None:
    """Calls `opener(name)`, which must not raise, for every region; it returns None for regions it does not want."""
    global _openers
    if opener not in _openers:
        _openers = (*_openers, opener)


def stop_listening(opener: Opener) -> None:
    """Stops calling `opener`."""
    global _openers
    _openers = tuple(other for other in _openers if other != opener)


def _forget() -> None:
    # A forked DataLoader worker inherits its parent's regions but must not record them.
    global _openers, _takers
    _openers, _takers = (), ()


os.register_at_fork(after_in_child=_forget)


@contextmanager
def _nvtx_range(nvtx: Any, name: str) -> Iterator[None]:
    nvtx.range_push(name)
    try:
        yield
    finally:
        nvtx.range_pop()


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
    return _nvtx_range(_nvtx, name)


if os.environ.get("STEPSCOPE_NVTX", "") not in ("", "0"):
    listen(_open_nvtx)
