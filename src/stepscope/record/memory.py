"""Reads how much memory a process holds, without affecting what the job reads.

The allocator's peak is never reset, because the job may use it. So a step's peak is the highest value up to that step.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_STATM = Path("/proc/self/statm")


def resident_bytes() -> int | None:
    """Memory of the process in RAM now (bytes); None if the system does not report it."""
    try:
        return int(_STATM.read_bytes().split()[1]) * _PAGE_BYTES
    except (OSError, ValueError, IndexError):
        return None


def peak_resident_bytes() -> int | None:
    """The most RAM that the process ever had (bytes); None if the system does not report it."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


class MemoryReader:
    """Reads the memory of a device of `backend` (`torch.cuda` or a sibling), or of the process without one."""

    def __init__(self, backend: Any = None, device: int | None = None) -> None:
        self.kind = "host" if backend is None else "device"
        self._backend = backend
        self._device = device

    def read(self) -> tuple[int | None, int | None, int | None]:
        """Returns the bytes in use, their maximum so far, and the bytes that the device's allocator holds."""
        if self._backend is None:
            return resident_bytes(), peak_resident_bytes(), None
        statistics = self._backend.memory_stats(self._device)
        return (
            statistics.get("allocated_bytes.all.current"),
            statistics.get("allocated_bytes.all.peak"),
            statistics.get("reserved_bytes.all.current"),
        )
