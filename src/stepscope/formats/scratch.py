"""Keeps columns in files instead of in memory while a recording is imported that is too large for memory.

Whatever reading and linking keep for every event passes through `spill` and `spill_columns`. While a `Scratch` is open,
these write it to a nameless file and return the same values, mapped from there: the system reads pages again when they
are needed, and unneeded ones are given back as soon as the process has too many.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
import weakref
from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

MIN_BYTES = 1 << 16
"""Smaller columns stay in memory: a mapping takes entire pages and an entry in the kernel's list."""

LOOK_EVERY_S = 0.02
"""Arrays are filled at up to a few GB/s, so that a few tens of MB too many may pass before it is noticed."""

_PAGE = mmap.PAGESIZE
_STATE = Path("/proc/self/statm")

Values = TypeVar("Values", bound=np.ndarray[Any, Any])


class Scratch:
    """Files for columns; a context, within which `spill` uses them.

    Args:
        folder: where they are; they take the space of the columns, and have no name.
        limit: bytes of memory above which pages of files are given back.

    Raises:
        OSError: the folder cannot be written, or is full.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder = folder
        self._limit = limit
        self._mapped: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()
        self._done = threading.Event()
        self._watch = threading.Thread(target=self._watched, name="stepscope-scratch", daemon=True)

    def __enter__(self) -> Scratch:
        """Opens it for this thread's context."""
        self._before = _OPEN.set(self)
        self._watch.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes it; the content of its files stays readable as long as it is referenced."""
        _OPEN.reset(self._before)
        self._done.set()
        self._watch.join()

    def array(self, values: Values) -> Values:
        """The values, moved to a file."""
        with tempfile.TemporaryFile(dir=self._folder) as file:
            file.truncate(values.nbytes)
            mapped = mmap.mmap(file.fileno(), values.nbytes)
        self._mapped.add(mapped)
        copy: Values = np.frombuffer(mapped, values.dtype).reshape(values.shape)
        copy[...] = values
        return copy

    def table(self, table: pa.Table) -> pa.Table:
        """The table, moved to a file."""
        with tempfile.TemporaryFile(dir=self._folder) as file:
            with pa.ipc.new_file(pa.PythonFile(file, "w"), table.schema) as writer:
                writer.write_table(table)
            file.flush()
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._mapped.add(mapped)
        return pa.ipc.open_file(pa.py_buffer(mapped)).read_all()

    def give_back(self) -> None:
        """Removes the pages of all files from this process's memory; they are read again when needed."""
        for mapped in list(self._mapped):
            mapped.madvise(mmap.MADV_DONTNEED)

    def _watched(self) -> None:
        with suppress(OSError, AttributeError), _STATE.open("rb", buffering=0) as state:
            while not self._done.wait(LOOK_EVERY_S):
                resident = int(os.pread(state.fileno(), 100, 0).split()[1]) * _PAGE
                if resident > self._limit:
                    self.give_back()


_OPEN: ContextVar[Scratch | None] = ContextVar("stepscope-scratch", default=None)


def spill(values: Values) -> Values:
    """The values, in a file if they are many and a `Scratch` is open."""
    scratch = _OPEN.get()
    return values if scratch is None or values.nbytes < MIN_BYTES else scratch.array(values)


def spill_column(column: Any) -> Any:
    """The same for an Arrow array, or a chunked one."""
    return spill_columns({"": column})[""]


def spill_columns(columns: Mapping[str, Any]) -> dict[str, Any]:
    """The same for several columns of one length."""
    scratch = _OPEN.get()
    if scratch is None or sum(column.nbytes for column in columns.values()) < MIN_BYTES:
        return dict(columns)
    table = scratch.table(pa.table(dict(columns)))
    return {
        name: table[name] if isinstance(given, pa.ChunkedArray) else table[name].chunk(0)
        for name, given in columns.items()
    }
