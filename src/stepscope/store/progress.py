"""What a long task reports to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

Unit = Literal["", "bytes"]


class Progress:
    """Base class for reports of progress: this one reports nothing.

    A task calls `start`, then `advance` as it goes, from any thread of the process, then `finish`.
    Several tasks follow one another; `start` finishes the one before it. As a context manager it
    gives the terminal back however the block ends, by Ctrl-C too.

    >>> with Progress() as progress:
    ...     progress.start("Reading trace.json", total=1000, unit="bytes")
    ...     progress.advance(1000)
    """

    def start(self, what: str, total: int | None = None, unit: Unit = "") -> None:
        """Starts a task of so many steps or bytes; None if unknown."""

    def advance(self, amount: int = 1) -> None:
        """Reports that the task has done so many more steps or bytes."""

    def finish(self) -> None:
        """Ends the task and removes its line from the terminal."""

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()


SILENT = Progress()


def advancing(progress: Progress) -> Callable[[int], None]:
    """Turns totals of what was read, which restart with each file, into progress."""
    seen = 0

    def advance(total: int) -> None:
        nonlocal seen
        progress.advance(total - seen if total >= seen else total)
        seen = total

    return advance
