"""What a found loop tells of its iterations, for recorders that take every step as it comes."""

from __future__ import annotations

from typing import Any


class EveryStep:
    """The names by which `loop.LoopFinder` speaks to a recorder, where steps are all that counts.

    The trace has the loader's own ranges, so that the wait for input needs no telling.
    """

    _index: int

    def step(self, number: int | None = None) -> None:
        """A step has ended and the next begins; the recorder's own."""

    def begin(self, *, fresh: bool = False) -> int:  # noqa: ARG002 - every step counts in a trace
        """The next step begins; returns its number."""
        self.step()
        return self._index

    def not_this_one(self) -> None:
        """A step that starts a loader is in the trace like any other."""

    def input_begins(self) -> tuple[Any, Any]:
        """The trace has the loader's own range."""
        return None, None

    def input_ends(self, tokens: tuple[Any, Any]) -> None:
        """The trace has the loader's own range."""
