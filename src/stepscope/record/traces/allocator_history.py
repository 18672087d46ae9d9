"""Records the CUDA allocator's history of the traced steps, in a file of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from stepscope.record.traces.file import write_snapshot
from stepscope.record.trouble import warn_once

MAX_EVENTS = 500_000
"""Allocations and releases that the allocator keeps: the latest ones."""

_OPTIONS = {"context": "all", "stacks": "python", "max_entries": MAX_EVENTS}
"""C++ stacks would be unwound at every allocation, and take minutes to symbolise for the snapshot."""


class AllocatorHistory:
    """Makes the allocator record its history, unless the job records its own; a trace does not depend on it."""

    def __init__(self) -> None:
        self._available = True
        self._ours = False

    def start(self, out: Path, name: str) -> None:
        """Starts recording; the snapshot of running out of memory gets this name in `out`. Warns without CUDA."""
        if not self._available:
            return
        import torch

        self._available = torch.cuda.is_available()
        if not self._available:
            warn_once("there is no memory snapshot: it is made by CUDA's allocator, and there is no CUDA here")
            return
        try:
            self._ours = not _recorded()
            if self._ours:
                torch.cuda.memory._record_memory_history(enabled="all", **_OPTIONS)
            _OUT_OF_MEMORY.watch(lambda: write_snapshot(out, name))
        except Exception as error:
            self._available = False
            warn_once(f"there is no memory snapshot: {type(error).__name__}: {error}")

    def keep(self, out: Path, name: str) -> list[Path]:
        """Writes the history; returns its path, and that of a snapshot taken when memory ran out."""
        if not self._available:
            return []
        import torch

        written = _OUT_OF_MEMORY.leave()
        try:
            try:
                written.append(write_snapshot(out, name))
            finally:
                if self._ours:
                    torch.cuda.memory._record_memory_history(enabled=None)
        except Exception as error:
            warn_once(f"there is no memory snapshot: {type(error).__name__}: {error}")
        return [path for path in written if path is not None]


class _OutOfMemory:
    """Takes one snapshot when an allocation fails for lack of device memory.

    torch calls the observer before it raises, without holding an allocator lock, and keeps it forever: it is attached
    once per process, and does nothing unless watching.
    """

    def __init__(self) -> None:
        self._attached = False
        self._take: Callable[[], Path | None] | None = None
        self._written: list[Path | None] = []

    def watch(self, take: Callable[[], Path | None]) -> None:
        import torch

        attach = getattr(torch._C, "_cuda_attach_out_of_memory_observer", None)
        if attach is None:
            return
        if not self._attached:
            attach(self._on_out_of_memory)
            self._attached = True
        self._take = take

    def leave(self) -> list[Path | None]:
        self._take = None
        written, self._written = self._written, []
        return written

    def _on_out_of_memory(self, *_: Any) -> None:
        take, self._take = self._take, None
        if take is None:
            return
        try:
            self._written.append(take())
        except Exception as error:
            warn_once(f"no memory snapshot of the out-of-memory: {type(error).__name__}: {error}")


_OUT_OF_MEMORY = _OutOfMemory()


def _recorded() -> bool:
    """Whether the job records a history already."""
    import torch

    enabled = getattr(torch._C, "_cuda_isHistoryEnabled", None)
    return enabled is not None and bool(enabled())
