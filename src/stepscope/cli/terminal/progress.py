"""Shows the progress of a long task on stderr, if that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from stepscope.base.quoting import printable
from stepscope.store.progress import Progress, Unit

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

    from stepscope.api.trace import Trace


class TerminalProgress(Progress):
    """A bar on a terminal that disappears when the task is done."""

    def __init__(self, stream: TextIO) -> None:
        """Draws on a stream once a task starts."""
        self._stream = stream
        self._bar: RichProgress | None = None
        self._task: TaskID | None = None

    def start(self, what: str, total: int | None = None, unit: Unit = "") -> None:
        """Starts a task of `total` steps or bytes; None if the number is unknown."""
        # Imported only here: most commands find their store in the cache and never draw a bar.
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            FileSizeColumn,
            MofNCompleteColumn,
            ProgressColumn,
            TextColumn,
            TimeElapsedColumn,
            TransferSpeedColumn,
        )
        from rich.progress import Progress as RichProgress

        self.finish()
        counts: tuple[ProgressColumn, ...] = ()
        if unit == "bytes":
            columns = (DownloadColumn(), TransferSpeedColumn())
            counts = (FileSizeColumn(),) if total is None else columns
        elif total is not None:
            counts = (MofNCompleteColumn(),)
        self._bar = RichProgress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            *counts,
            TimeElapsedColumn(),
            console=Console(file=self._stream),
            transient=True,
        )
        self._bar.start()
        self._task = self._bar.add_task(printable(what), total=total)

    def advance(self, amount: int = 1) -> None:
        """Advances the task by some steps or bytes."""
        if self._bar is not None and self._task is not None:
            self._bar.advance(self._task, amount)

    def finish(self) -> None:
        """Ends the task and removes its line."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


@contextmanager
def open_watched(*sources: str | Path, **reading: Any) -> Iterator[Trace]:
    """Opens a recording with a progress bar; `reading` is for `open_trace`."""
    from stepscope.api.trace import open_trace

    with progress_on() as progress, open_trace(*sources, progress=progress, **reading) as trace:
        progress.finish()
        yield trace


def progress_on(stream: TextIO | None = None) -> Progress:
    """A bar if the stream (stderr by default) is a terminal, else nothing."""
    stream = sys.stderr if stream is None else stream
    return TerminalProgress(stream) if stream.isatty() else Progress()
