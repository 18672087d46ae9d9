"""NVTX from Python, with two kinds of ranges.

A pushed range is on its thread's stack, so it must be popped in the call that pushed it; otherwise a job with its own
ranges would pop ours. A range that starts and ends in different places has a number.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

_LIBRARIES = ("libnvToolsExt", "libnvtx3interop")
"""Libraries with the functions of NVTX: CUDA's up to 12.8, and its successor."""


def load(stem: str, names: Iterable[str]) -> ctypes.CDLL:
    """Loads a library: one that the process has loaded whose file name starts with `stem`, else the first of `names`.

    Raises:
        OSError: none can be loaded.
    """
    names = [*_loaded(stem), *names]
    for name in names:
        with contextlib.suppress(OSError):
            return ctypes.CDLL(name)
    raise OSError(f"{stem.rstrip('.')} is not on this machine, or not where libraries are looked for")


def _loaded(stem: str) -> list[str]:
    try:
        lines = Path("/proc/self/maps").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return []  # not Linux
    paths = dict.fromkeys(line.partition("/")[2] for line in lines if "/" in line)
    return [f"/{path}" for path in paths if path.rpartition("/")[2].startswith(stem)]


class Nvtx(NamedTuple):
    """The functions of NVTX. Texts are ASCII; a range's number is what `start` returned.

    `start_registered` gives NVTX the text once and afterwards its handle, which a capture by `nsys` needs by default;
    with only torch's functions it is `start`.
    """

    push: Callable[[bytes], Any]
    pop: Callable[[], Any]
    start: Callable[[bytes], int]
    end: Callable[[int], Any]
    start_registered: Callable[[bytes], int]


@cache
def nvtx() -> Nvtx:
    """Loads NVTX's own library, or uses the functions in torch; OSError if there is neither."""
    for library in _LIBRARIES:
        with contextlib.suppress(OSError):
            return _of_library(load(library, (*_installed(library), f"{library}.so.1")))
    if not hasattr(getattr(sys.modules.get("torch"), "_C", None), "_nvtx"):
        raise OSError(f"neither {' nor '.join(_LIBRARIES)} is where libraries are looked for")
    return _of_torch()


def _installed(library: str) -> list[str]:
    try:
        package = importlib.util.find_spec("nvidia.nvtx")
    except (ImportError, ValueError):
        return []
    folders = [] if package is None else list(package.submodule_search_locations or ())
    return [str(path) for folder in folders for path in Path(folder).glob(f"lib/{library}.so*")]


class _Attributes(ctypes.Structure):
    """`nvtxEventAttributes_v2` of nvToolsExt.h."""

    _fields_ = (
        ("version", ctypes.c_uint16),
        ("size", ctypes.c_uint16),
        ("category", ctypes.c_uint32),
        ("color_type", ctypes.c_int32),
        ("color", ctypes.c_uint32),
        ("payload_type", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
        ("payload", ctypes.c_uint64),
        ("message_type", ctypes.c_int32),
        ("message", ctypes.c_void_p),
    )


_VERSION, _REGISTERED = 2, 3


def _of_library(library: Any) -> Nvtx:
    library.nvtxRangePushA.argtypes = (ctypes.c_char_p,)
    library.nvtxRangeStartA.argtypes = (ctypes.c_char_p,)
    library.nvtxRangeEnd.argtypes = (ctypes.c_uint64,)
    library.nvtxRangeEnd.restype = None
    library.nvtxRangeStartA.restype = library.nvtxRangeStartEx.restype = ctypes.c_uint64
    library.nvtxDomainRegisterStringA.argtypes = (ctypes.c_void_p, ctypes.c_char_p)
    library.nvtxDomainRegisterStringA.restype = ctypes.c_void_p

    def start_registered(text: bytes) -> int:
        handle = library.nvtxDomainRegisterStringA(None, text)
        if not handle:  # no tool listens, or the tool does not support registered texts
            return int(library.nvtxRangeStartA(text))
        attributes = _Attributes(
            version=_VERSION, size=ctypes.sizeof(_Attributes), message_type=_REGISTERED, message=handle
        )
        return int(library.nvtxRangeStartEx(ctypes.byref(attributes)))

    return Nvtx(
        library.nvtxRangePushA, library.nvtxRangePop, library.nvtxRangeStartA, library.nvtxRangeEnd, start_registered
    )


def _of_torch() -> Nvtx:
    functions = sys.modules["torch"]._C._nvtx

    def start(text: bytes) -> int:
        return int(functions.rangeStartA(text.decode()))

    return Nvtx(lambda text: functions.rangePushA(text.decode()), functions.rangePop, start, functions.rangeEnd, start)
