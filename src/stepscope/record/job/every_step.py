"""What loops tell of their iterations, for recorders that take every step as it comes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")
Itself = TypeVar("Itself", bound="EveryStep")


class EveryStep:
    """A recorder for which steps are all that counts: as a context, in a loop of one's own, and by the
    names by which `loop.LoopFinder` speaks to it.

    The trace has the loader's own ranges, so that the wait for input needs no telling.
    """

    _index: int
    _number: int

    def start(self) -> None:
        """Begins with the first step; the recorder's own."""

    def stop(self) -> list[Path]:
        """Ends, and says what was written; the recorder's own."""
        return []

    def __enter__(self: Itself) -> Itself:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def step(self, number: int | None = None) -> None:
        """A step has ended and the next begins; the recorder's own."""

    def iterate(self, loader: Iterable[T]) -> Iterator[T]:
        """The batches of a loader, each a step; the wait for a batch belongs to its step."""
        for batch in loader:
            yield batch
            self.step()

    def begin(self, *, fresh: bool = False) -> int:  # noqa: ARG002 - every step counts in a trace
        """The next step begins; returns its number."""
        self.step()
        return self._index

    def missed_one(self) -> None:
        """A step has gone by unheard; those after it keep their true numbers."""
        self._number += 1

    def not_this_one(self) -> None:
        """A step that starts a loader is in the trace like any other."""

    def input_begins(self) -> tuple[Any, Any]:
        """The trace has the loader's own range."""
        return None, None

    def input_ends(self, tokens: tuple[Any, Any]) -> None:
        """The trace has the loader's own range."""
