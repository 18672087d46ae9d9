"""Starts and stops the profiler that watches this process.

Device work that is still running when a capture stops would be missing from it, so the job waits for its device once,
after the last captured step.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from stepscope.base.captured_steps import CAPTURE_RANGE
from stepscope.record.capture.nvtx import load, nvtx
from stepscope.record.compiling import capturing_check


class Signal(NamedTuple):
    """Makes the profiler record and stop, in pairs from one thread; both raise if that cannot be sent."""

    start: Callable[[], None]
    stop: Callable[[], None]


def _cuda_profiler(name: str) -> None:
    functions = _torch_cuda()
    library: Any = functions.cudart() if functions is not None else _cudart()
    code = int(getattr(library, name)())
    if code:
        raise RuntimeError(f"{name} returned CUDA error {code}")


def _cudart() -> ctypes.CDLL:
    return load("libcudart", [f"libcudart.so{end}" for end in (".13", ".12", ".11.0", "")])


def _nvtx_range() -> Signal:
    opened: list[int] = []

    def stop() -> None:
        if opened:
            nvtx().end(opened.pop())

    return Signal(lambda: opened.append(nvtx().start_registered(CAPTURE_RANGE.encode())), stop)


def _itt(name: str) -> None:
    """Calls a function of the copy of ITT that is in torch.

    Each copy takes its functions from the collector that VTune names in the environment; without one they do nothing.
    """
    try:
        place = ctypes.c_void_p.in_dll(load("libtorch_cpu.", ()), f"{name}_ptr__3_0")
    except ValueError:
        raise OSError("this torch has no ITT") from None
    if not place.value or not os.environ.get("INTEL_LIBITTNOTIFY64"):
        raise OSError("no collector of ITT's, such as VTune's, watches this process")
    ctypes.CFUNCTYPE(None)(place.value)()


def _roctx(name: str) -> None:
    """Calls a function of ROCTx for all threads."""
    stem = "librocprofiler-sdk-roctx"
    names = (f"{stem}.so.1", f"{stem}.so", f"/opt/rocm/lib/{stem}.so")
    code = getattr(load(stem, names), name)(ctypes.c_uint64(0))
    if code:
        raise RuntimeError(f"{name} returned {code}")


_CALLS: dict[str, tuple[Callable[[str], None], str, str]] = {
    "cuda-profiler": (_cuda_profiler, "cudaProfilerStart", "cudaProfilerStop"),
    "itt": (_itt, "__itt_resume", "__itt_pause"),
    "roctx": (_roctx, "roctxProfilerResume", "roctxProfilerPause"),
}


def signal_called(word: str) -> Signal:
    """Makes the signal for a word in `base.captured_steps.SIGNALS`."""
    if word == "nvtx":
        return _nvtx_range()
    call, start, stop = _CALLS[word]
    return Signal(partial(call, start), partial(call, stop))


def stop_after_device(signal: Signal) -> None:
    """Waits for the device, unless a CUDA graph is being captured, and stops the profiler."""
    functions = _torch_cuda()
    try:
        if functions is not None and not capturing_check()():
            functions.synchronize()
    finally:
        signal.stop()


def _torch_cuda() -> Any:
    """torch.cuda if the job uses it; any other query would start CUDA in a job without it."""
    functions = getattr(sys.modules.get("torch"), "cuda", None)
    return functions if functions is not None and functions.is_initialized() else None
