"""How a file is read, whatever its format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How a file is read.

    Args:
        python_stack: whether Python frames are read.
        threads: DuckDB's threads; None for its default.
        slice_bytes: text per slice, for formats that are read in slices; None for their default.
        progress: called with how many bytes were read so far.
    """

    python_stack: bool = True
    threads: int | None = None
    slice_bytes: int | None = None
    progress: Callable[[int], None] | None = None
