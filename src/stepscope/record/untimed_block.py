"""Measures a block of untimed steps from its two end times, with no call per step."""

from __future__ import annotations


class UntimedBlock:
    """Counts steps and sums their time (`ns`) until `take`; untimed ones only in a block, from `pause` to `resume`."""

    __slots__ = ("_running", "_since_ns", "ns", "steps")

    def __init__(self) -> None:
        self.steps = self.ns = 0
        self._running = 0
        self._since_ns: int | None = None

    def timed(self, time_ns: int) -> None:
        self.steps += 1
        self.ns += time_ns

    def pause(self, now_ns: int) -> None:
        """Starts a block, unless one runs: an untimed step starts."""
        if self._since_ns is None:
            self._running, self._since_ns = 0, now_ns

    def skipped(self, steps: int) -> None:
        """Adds completed steps of the block."""
        self._running += steps

    def exclude(self, time_ns: int) -> None:
        """Subtracts time in the block that belongs to no step."""
        if self._since_ns is not None:
            self._since_ns += time_ns

    def resume(self, now_ns: int | None) -> None:
        """Ends the block; None if the time is unknown, or the block does not count."""
        if self._since_ns is not None and now_ns is not None and self._running:
            self.steps += self._running
            self.ns += now_ns - self._since_ns
        self._running, self._since_ns = 0, None

    def take(self) -> tuple[int, int]:
        """Returns the steps since the last call and their time (ns)."""
        steps, ns = self.steps, self.ns
        self.steps = self.ns = 0
        return steps, ns
