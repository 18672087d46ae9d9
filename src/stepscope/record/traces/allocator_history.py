"""The CUDA allocator's history of the recorded steps, beside their trace."""

from __future__ import annotations

from pathlib import Path

from stepscope.record.traces.file import write_snapshot
from stepscope.record.trouble import warn_once


class AllocatorHistory:
    """Has the allocator remember what it does; a trace does not depend on it."""

    def __init__(self) -> None:
        self._there = True

    def begin(self) -> None:
        """From now on the allocator remembers; without CUDA there is a warning."""
        if not self._there:
            return
        import torch

        self._there = torch.cuda.is_available()
        if self._there:
            torch.cuda.memory._record_memory_history(enabled="all")
        else:
            warn_once(
                "there is no memory snapshot: it is made by CUDA's allocator, and there is no CUDA here"
            )

    def keep(self, out: Path, name: str) -> Path | None:
        """Writes what it remembers and returns the path; None where there is nothing, or that failed."""
        if not self._there:
            return None
        import torch

        path = None
        try:
            try:
                path = write_snapshot(out, name)
            finally:
                torch.cuda.memory._record_memory_history(enabled=None)
        except Exception as error:
            warn_once(f"there is no memory snapshot: {type(error).__name__}: {error}")
        return path
