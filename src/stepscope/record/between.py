"""What the steps between two timed ones took together: known by the clock where they begin and end, without a call."""

from __future__ import annotations


class Between:
    """Counts steps, timed or not, and what they took, until they are `taken`.

    Steps that are not timed are a block, which `rests` begins and `rested` ends; without a block nothing of it counts.

    Attributes:
        steps: those that ended and count.
        ns: what they took together.
    """

    __slots__ = ("_running", "_since_ns", "ns", "steps")

    def __init__(self) -> None:
        self.steps = self.ns = 0
        self._running = 0
        self._since_ns: int | None = None

    def timed(self, time_ns: int) -> None:
        """A step took so long."""
        self.steps += 1
        self.ns += time_ns

    def rests(self, now_ns: int) -> None:
        """A step that is not timed begins, and perhaps more of them without a call."""
        if self._since_ns is None:
            self._running, self._since_ns = 0, now_ns

    def passed(self, steps: int) -> None:
        """So many of the block ended."""
        self._running += steps

    def left_out(self, time_ns: int) -> None:
        """So much time passed between two of the block, in none."""
        if self._since_ns is not None:
            self._since_ns += time_ns

    def rested(self, now_ns: int | None) -> None:
        """The block ended now; None where that is not known, or it does not count."""
        if self._since_ns is not None and now_ns is not None and self._running:
            self.steps += self._running
            self.ns += now_ns - self._since_ns
        self._running, self._since_ns = 0, None

    def taken(self) -> tuple[int, int]:
        """The steps since the last call, and what they took (ns)."""
        found = self.steps, self.ns
        self.steps = self.ns = 0
        return found
