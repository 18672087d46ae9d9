"""Starts and stops the profiler that watches this process.

Device work that is still running when a capture stops would be missing from it, so the job waits for its device once,
after the last captured step.
"""

from __future__ import annotations

import ctypes
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from stepscope.base.captured_steps import CAPTURE_RANGE
from stepscope.record.capture.libraries import load
from stepscope.record.capture.nvtx import nvtx
from stepscope.record.compiling import capturing_check


class Signal(ABC):
    """A signal, sent in pairs from one thread. Both calls raise if it cannot be sent."""

    @abstractmethod
    def start(self) -> None:
        """Makes the profiler record."""

    @abstractmethod
    def stop(self) -> None:
        """Makes the profiler stop recording."""


class CudaProfiler(Signal):
    """`cudaProfilerStart` and `cudaProfilerStop`."""

    def start(self) -> None:
        self._call("cudaProfilerStart")

    def stop(self) -> None:
        self._call("cudaProfilerStop")

    def _call(self, name: str) -> None:
        functions = _torch_cuda()
        library: Any = functions.cudart() if functions is not None else _cudart()
        code = int(getattr(library, name)())
        if code:
            raise RuntimeError(f"{name} returned CUDA error {code}")


def _cudart() -> ctypes.CDLL:
    return load("libcudart", [f"libcudart.so{end}" for end in (".13", ".12", ".11.0", "")])


class NvtxRange(Signal):
    """An NVTX range around the steps."""

    def __init__(self) -> None:
        self._number: int | None = None

    def start(self) -> None:
        self._number = nvtx().start_registered(CAPTURE_RANGE.encode())

    def stop(self) -> None:
        number, self._number = self._number, None
        if number is not None:
            nvtx().end(number)


class Itt(Signal):
    """`__itt_resume` and `__itt_pause`, through the copy of ITT that is in torch.

    Each copy of ITT takes its functions from the collector that VTune names in the environment; without one they
    silently do nothing.
    """

    def start(self) -> None:
        self._call("__itt_resume")

    def stop(self) -> None:
        self._call("__itt_pause")

    def _call(self, name: str) -> None:
        try:
            place = ctypes.c_void_p.in_dll(load("libtorch_cpu.", ()), f"{name}_ptr__3_0")
        except ValueError:
            raise OSError("this torch has no ITT") from None
        if not place.value or not os.environ.get("INTEL_LIBITTNOTIFY64"):
            raise OSError("no collector of ITT's, such as VTune's, watches this process")
        ctypes.CFUNCTYPE(None)(place.value)()


class Roctx(Signal):
    """`roctxProfilerResume` and `roctxProfilerPause`, for all threads."""

    def start(self) -> None:
        self._call("roctxProfilerResume")

    def stop(self) -> None:
        self._call("roctxProfilerPause")

    def _call(self, name: str) -> None:
        stem = "librocprofiler-sdk-roctx"
        names = (f"{stem}.so.1", f"{stem}.so", f"/opt/rocm/lib/{stem}.so")
        code = getattr(load(stem, names), name)(ctypes.c_uint64(0))
        if code:
            raise RuntimeError(f"{name} returned {code}")


_MAKE: dict[str, Callable[[], Signal]] = {"cuda-profiler": CudaProfiler, "nvtx": NvtxRange, "itt": Itt, "roctx": Roctx}


def signal_called(word: str) -> Signal:
    """Makes the signal for a word in `base.captured_steps.SIGNALS`."""
    return _MAKE[word]()


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
